"""The raw headset stream and the cameras' intrinsics, out of bags: nothing lost, nothing invented."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_bags import (
    MS,
    QUEST_INPUT,
    START,
    arm_messages,
    camera_info,
    controller,
    custom,
    make,
    pose,
    quest_input,
    store,
    write_bag,
)

from piper_collect.bag.extras import camera_infos, message_values, quest_lines, write_quest_jsonl
from piper_collect.bag.reader import open_bag
from piper_collect.config.schema import CameraSettings, SessionConfig, SessionSettings
from piper_collect.errors import BagError

TOPIC = "/quest/input"
ONE_CAMERA = SessionConfig(cameras={"cam": CameraSettings(serial="0123")})
INFO = "/cam/camera_info"


# -- the headset --------------------------------------------------------------------------------


def quest_bag(path, stamps_ms, receive_ms=None):
    messages = [
        (TOPIC, START + round((r if r is not None else t) * MS), quest_input(START + round(t * MS), k))
        for k, (t, r) in enumerate(zip(stamps_ms, receive_ms or [None] * len(stamps_ms), strict=True))
    ]
    return write_bag(path, [*arm_messages(3), *messages])


def lines_of(path, start_ns=0, end_ns=2**62, topic=TOPIC):
    with open_bag(path) as bag:
        return list(quest_lines(bag, topic, start_ns, end_ns))


def rebuilt(values, kind=QUEST_INPUT):
    """The message that ``values`` were made of, by the types of its definition."""
    parts = []
    for name, (_, detail) in store().fielddefs[kind][1]:
        type_name = detail if isinstance(detail, str) else ""
        if type_name == "builtin_interfaces/msg/Time":
            stamp = values[f"{name}_ns"]
            parts.append(make(type_name, stamp // 10**9, stamp % 10**9))
        elif "/" in type_name:
            parts.append(rebuilt(values[name], type_name))
        elif name in ("button_values", "axes"):
            parts.append(np.array([float(v) for v in values[name]], dtype=np.float64))
        elif name in ("button_pressed", "button_touched"):
            parts.append(np.array(values[name], dtype=np.bool_))
        else:
            number = isinstance(detail, tuple) and detail[0] == "float64"
            parts.append(float(values[name]) if number else values[name])
    return make(kind, *parts)


def test_a_line_has_every_field_by_its_name(tmp_path):
    line, _ = lines_of(quest_bag(tmp_path / "b", [3, 17], [4, 18]))
    assert json.loads(json.dumps(line, allow_nan=False)) == line
    assert line["receive_ns"] == START + 4 * MS
    assert line["header"] == {"stamp_ns": START + 3 * MS, "frame_id": "quest_local_floor"}
    assert (line["headset_time_ms"], line["sequence"], line["visibility"]) == (1234.5, 0, "visible")
    assert line["head_pose"] == {
        "position": {"x": 0.0, "y": 1.6, "z": 0.0},
        "orientation": {"x": 0.0, "y": 0.0, "z": 0.0, "w": 1.0},
    }
    assert line["right"]["profiles"] == ["meta-quest-touch-plus", "oculus-touch"]
    assert line["right"]["button_values"] == [0.25, 1.0]
    assert line["right"]["button_pressed"] == [False, True]
    assert line["right"]["button_touched"] == [True, True]
    assert line["right"]["axes"] == [0.0, -0.5]
    assert (line["left"]["connected"], line["left"]["profiles"], line["left"]["axes"]) == (False, [], [])
    definition = (
        store().fielddefs[QUEST_INPUT][1],
        store().fielddefs["piper_collect/msg/QuestController"][1],
    )
    assert [k for k in line if k != "receive_ns"] == [name for name, _ in definition[0]]
    assert list(line["left"]) == [name for name, _ in definition[1]]


any_float = st.floats(width=64)
some_text = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)


@settings(deadline=None, max_examples=60)
@given(
    stamp=st.integers(0, 2**31 * 10**9 - 1),
    sequence=st.integers(0, 2**64 - 1),
    headset_ms=any_float,
    xyz=st.tuples(any_float, any_float, any_float),
    values=st.lists(any_float, max_size=5),
    text=some_text,
)
def test_any_message_comes_back_to_the_byte_through_strict_json(
    stamp, sequence, headset_ms, xyz, values, text
):
    message = quest_input(
        stamp, sequence, headset_ms=headset_ms, head_xyz=xyz, right=controller(buttons=values, axes=values)
    )
    message.visibility = text
    written = json.dumps(message_values(message), allow_nan=False)
    again = rebuilt(json.loads(written))
    serialize = store().serialize_cdr
    if any(math.isnan(v) for v in (headset_ms, *xyz, *values)):
        np.testing.assert_equal(message_values(again), message_values(message))
    else:
        assert serialize(again, QUEST_INPUT) == serialize(message, QUEST_INPUT)


def test_numbers_that_json_has_no_word_for_are_strings_that_float_reads():
    odd = message_values(pose([math.nan, math.inf, -math.inf], [0, -0.0, 5e-324, 1]))
    assert odd["position"] == {"x": "NaN", "y": "Infinity", "z": "-Infinity"}
    assert float(odd["position"]["z"]) == -math.inf
    assert json.dumps(odd["orientation"]) == '{"x": 0.0, "y": -0.0, "z": 5e-324, "w": 1.0}'


def test_only_messages_stamped_inside_the_episode_come_and_in_the_order_recorded(tmp_path):
    path = quest_bag(tmp_path / "b", [9, 10, 30, 20, 40, 41], [9, 11, 31, 32, 42, 43])
    got = lines_of(path, START + 10 * MS, START + 40 * MS)
    assert [line["sequence"] for line in got] == [1, 2, 3, 4]


def test_a_message_whose_stamp_is_unset_counts_by_its_receive_time(tmp_path):
    messages = [(TOPIC, START + t * MS, quest_input(0, t)) for t in (5, 15, 25)]
    got = lines_of(write_bag(tmp_path / "b", messages), START + 10 * MS, START + 20 * MS)
    assert [(line["sequence"], line["header"]["stamp_ns"]) for line in got] == [(15, 0)]


def test_the_file_has_one_strict_json_object_a_line(tmp_path):
    path = quest_bag(tmp_path / "b", range(0, 100, 14))
    file = tmp_path / "episode_000000.quest.jsonl"
    with open_bag(path) as bag:
        assert write_quest_jsonl(bag, TOPIC, START, START + 50 * MS, file) == 4
    content = file.read_bytes()
    assert content.endswith(b"}\n")
    assert [json.loads(line) for line in content.splitlines()] == lines_of(path, START, START + 50 * MS)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["b", file.name]


def test_line_breaks_of_any_kind_stay_inside_their_line(tmp_path):
    message = quest_input(START, 1)
    message.visibility = "a\nb\u2028c\x85d 抓"
    path = write_bag(tmp_path / "b", [(TOPIC, START, message)])
    with open_bag(path) as bag:
        write_quest_jsonl(bag, TOPIC, 0, 2**62, tmp_path / "q.jsonl")
    (line,) = (tmp_path / "q.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(line)["visibility"] == message.visibility


def test_a_bag_without_the_topic_or_without_samples_inside_makes_no_file(tmp_path):
    for name, messages in (("none", []), ("outside", [(TOPIC, START, quest_input(START, 0))])):
        path = write_bag(tmp_path / name, [*arm_messages(2), *messages])
        with open_bag(path) as bag:
            assert write_quest_jsonl(bag, TOPIC, START + MS, START + 2 * MS, tmp_path / "q.jsonl") == 0
    assert not (tmp_path / "q.jsonl").exists()


def test_an_error_in_the_middle_leaves_the_file_of_before(tmp_path):
    path = quest_bag(tmp_path / "b", [0, 14, 28])
    file = tmp_path / "q.jsonl"
    file.write_text("before\n")
    with open_bag(path) as bag:
        whole = bag.messages

        def cut(topics):
            for number, message in enumerate(whole(topics)):
                yield message._replace(payload=message.payload[:40]) if number == 2 else message

        bag.messages = cut
        with pytest.raises(BagError, match="/quest/input"):
            write_quest_jsonl(bag, TOPIC, 0, 2**62, file)
    assert file.read_text() == "before\n"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["b", "q.jsonl"]


def test_a_topic_of_another_type_is_refused(tmp_path):
    path = write_bag(tmp_path / "b", arm_messages(2))
    with pytest.raises(BagError, match=r"/arm/joint_states.*expected piper_collect/msg/QuestInput"):
        lines_of(path, topic="/arm/joint_states")


# -- the cameras --------------------------------------------------------------------------------


def info_bag(path, infos, topic=INFO):
    messages = [(topic, START + k * 33 * MS, info) for k, info in enumerate(infos)]
    return write_bag(path, [*arm_messages(3), *messages])


def infos_of(path, config=ONE_CAMERA):
    with open_bag(path) as bag:
        return camera_infos(bag, config)


def stamped(count, **more):
    return [camera_info(START + k * 33 * MS, **more) for k in range(count)]


def test_intrinsics_are_those_of_the_first_message_with_topic_and_serial(tmp_path):
    found = infos_of(info_bag(tmp_path / "b", stamped(5)))
    assert found.notes == ()
    assert found.by_camera == {
        "cam": {
            "topic": INFO,
            "serial": "0123",
            "frame_id": "cam_optical",
            "height": 48,
            "width": 64,
            "distortion_model": "plumb_bob",
            "d": [0.1, -0.2, 0.0, 0.0, 0.03],
            "k": [500.0, 0.0, 32.0, 0.0, 500.0, 24.0, 0.0, 0.0, 1.0],
            "r": [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0],
            "p": [500.0, 0.0, 32.0, 0.0, 0.0, 500.0, 24.0, 0.0, 0.0, 0.0, 1.0, 0.0],
            "binning_x": 1,
            "binning_y": 2,
            "roi": {"x_offset": 3, "y_offset": 4, "height": 20, "width": 30, "do_rectify": False},
        }
    }
    json.dumps(found.by_camera, allow_nan=False)


def test_the_serial_that_the_device_said_comes_before_the_configured_one(tmp_path):
    record = json.dumps({"cameras": {"cam": {"serial": "831612070001", "serial_source": "device_info"}}})
    messages = [*arm_messages(3), (INFO, START, camera_info(START))]
    path = write_bag(tmp_path / "b", messages, custom(session_record=record))
    assert infos_of(path).by_camera["cam"]["serial"] == "831612070001"


def test_a_camera_without_intrinsics_is_left_out_and_named(tmp_path):
    config = replace(ONE_CAMERA, cameras={"cam": CameraSettings(), "rear": CameraSettings()})
    found = infos_of(info_bag(tmp_path / "b", stamped(2)), config)
    assert list(found.by_camera) == ["cam"]
    assert found.by_camera["cam"]["serial"] is None
    assert found.notes == ("camera rear: no CameraInfo on /rear/camera_info, so its intrinsics are unknown",)


def test_a_topic_of_another_type_is_named_and_no_intrinsics(tmp_path):
    config = replace(ONE_CAMERA, cameras={"cam": CameraSettings(info_topic="/arm/joint_states")})
    found = infos_of(write_bag(tmp_path / "b", arm_messages(2)), config)
    assert found.by_camera == {}
    assert "/arm/joint_states is no CameraInfo but sensor_msgs/msg/JointState" in found.notes[0]


def test_the_topic_follows_image_topic_setting_and_namespace(tmp_path):
    cameras = {
        "cam": CameraSettings(topic="left/color/image_raw"),
        "own": CameraSettings(info_topic="/elsewhere"),
    }
    config = SessionConfig(cameras=cameras, session=SessionSettings(namespace="rig"))
    messages = [
        ("/rig/left/color/camera_info", START, camera_info(START, focal=300)),
        ("/elsewhere", START, camera_info(START, focal=400)),
    ]
    found = infos_of(write_bag(tmp_path / "b", messages), config)
    assert {name: info["k"][0] for name, info in found.by_camera.items()} == {"cam": 300.0, "own": 400.0}


def test_intrinsics_that_change_in_the_middle_are_counted_and_the_first_kept(tmp_path):
    changing = [*stamped(3), *stamped(2, focal=510.0), *stamped(1, d=(0.0,) * 5), *stamped(2)]
    found = infos_of(info_bag(tmp_path / "b", changing))
    assert found.by_camera["cam"]["k"][0] == 500.0
    assert found.notes == (
        "camera cam: 3 of 8 CameraInfo messages differ from the first one, which is kept, in d, k, p",
    )


def test_another_size_is_a_change(tmp_path):
    found = infos_of(info_bag(tmp_path / "b", [*stamped(1), *stamped(1, width=128)]))
    assert "1 of 2 CameraInfo messages differ" in found.notes[0]
    assert "width" in found.notes[0]


def test_intrinsics_that_are_not_finite_stay_what_they_are(tmp_path):
    found = infos_of(info_bag(tmp_path / "b", stamped(3, d=(math.nan, math.inf, 0.0, 0.0, 0.0))))
    assert found.by_camera["cam"]["d"][:2] == ["NaN", "Infinity"]
    assert found.notes == ()

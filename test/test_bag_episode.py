"""A bag becomes a RawEpisode: stamps, clocks, missing topics, intervals, lazy frames, configuration."""

import dataclasses
import json

import numpy as np
import pytest
from sample_bags import (
    COMPRESSED,
    MS,
    START,
    arm_messages,
    camera_messages,
    custom,
    joint_state,
    picture,
    raw_image,
    sample_bag,
    write_bag,
)

from piper_collect.bag.episode import read_episode
from piper_collect.bag.reader import open_bag
from piper_collect.bag.sidecar import choose_config, read_record
from piper_collect.config.load import dump_session, load_session
from piper_collect.config.schema import CameraSettings, SessionConfig, SessionSettings, SourceSettings
from piper_collect.errors import AlignmentError, BagError, ConfigError, ImageError
from piper_collect.imaging.frames import to_rgb

NO_CAMERAS = SessionConfig(cameras={})
DAY_S = 86_400


def read(path, config=NO_CAMERAS):
    with open_bag(path) as bag:
        return read_episode(bag, config)


def joints_only(**more):
    source = SourceSettings(
        topic="arm/joint_states", field="position", select=("joint1",), unit="rad", **more
    )
    return SessionConfig(cameras={}, sources={"arm_joint": source})


def joint_bag(path, stamps_ns, receive_ns=None, **more):
    receive = receive_ns or [START + k * MS for k in range(len(stamps_ns))]
    messages = [
        ("/arm/joint_states", r, joint_state(t, [float(k)], names=("joint1",)))
        for k, (t, r) in enumerate(zip(stamps_ns, receive, strict=True))
    ]
    return write_bag(path, messages, **more)


def test_our_recording_reads_whole(tmp_path):
    raw = read(sample_bag(tmp_path / "s" / "episode_000000"), SessionConfig())
    assert raw.name == "pick_20260101_120000/episode_000000"
    assert raw.task == "pick the cube"
    assert (raw.start_ns, raw.end_ns) == (START, START + 1000 * MS)
    assert list(raw.streams) == ["arm_joint", "arm_eef", "gripper", "target_eef", "target_gripper"]
    joints = raw.streams["arm_joint"]
    assert joints.stamp_ns.tolist() == [START + k * 5 * MS for k in range(200)]
    assert joints.receive_ns[0] == START + MS
    assert joints.values[3].tolist() == [0.003, 0.1, -0.2, 0.3, -0.4, 0.5]
    assert raw.streams["arm_eef"].values[3].tolist() == [0.003, 0.2, 0.3, 0.8, 0, 0, 0.6]
    assert raw.streams["target_eef"].values[3].tolist() == [0.003, 0.25, 0.35, 0.8, 0, 0.6, 0]
    assert raw.streams["target_gripper"].values[0].tolist() == [0.025]
    assert raw.cameras["cam_front"].stamp_ns[:2].tolist() == [START + 2 * MS, START + 35 * MS]
    assert raw.cameras["cam_front"].frame_id == "optical"
    json.dumps(raw.provenance, allow_nan=False)


def test_frames_come_lazily_inside_the_closed_interval(tmp_path):
    raw = read(sample_bag(tmp_path / "episode_000000"), SessionConfig())
    camera = raw.cameras["cam_wrist"]
    frames = list(camera.frames(START + 35 * MS, START + 101 * MS))
    assert [f.stamp_ns - START for f in frames] == [35 * MS, 68 * MS, 101 * MS]
    assert {f.encoding for f in frames} == {"jpeg"}
    assert np.abs(to_rgb(frames[0]).astype(int) - picture((200, 30, 40))).max() < 8
    assert len(list(camera.frames(START, START + 40 * MS))) == 2


def test_raw_images_keep_their_step_and_encoding(tmp_path):
    messages = [
        *arm_messages(20),
        ("/cam/image_raw", START + 9, raw_image(START + 5, picture((1, 2, 3)), "bgr8")),
    ]
    config = SessionConfig(cameras={"cam": CameraSettings(transport="raw")})
    frame = next(read(write_bag(tmp_path / "b", messages), config).cameras["cam"].frames(0, 2**62))
    assert (frame.encoding, frame.height, frame.width, frame.step) == ("bgr8", 48, 64, 192)
    assert bytes(frame.payload[:3]) == b"\x03\x02\x01"
    assert (to_rgb(frame) == (1, 2, 3)).all()


def test_an_unknown_compression_names_the_topic(tmp_path):
    messages = [*arm_messages(5), *camera_messages("cam", [3])]
    messages[-1][2].format = "16UC1; compressedDepth png"
    config = SessionConfig(cameras={"cam": CameraSettings()})
    raw = read(write_bag(tmp_path / "b", messages), config)
    with pytest.raises(ImageError, match=r"/cam/image_raw/compressed.*compressedDepth"):
        list(raw.cameras["cam"].frames(0, 2**62))


def test_latency_is_taken_off_once(tmp_path):
    config = SessionConfig(
        cameras={"cam": CameraSettings(latency_ms=4.5)}, sources=joints_only(latency_ms=2.0).sources
    )
    raw = read(write_bag(tmp_path / "b", [*arm_messages(3), *camera_messages("cam", [10, 20])]), config)
    assert raw.streams["arm_joint"].stamp_ns.tolist() == [START - 2 * MS, START + 3 * MS, START + 8 * MS]
    wanted = [START + 5_500_000, START + 15_500_000]
    assert raw.cameras["cam"].stamp_ns.tolist() == wanted
    assert [f.stamp_ns for f in raw.cameras["cam"].frames(*wanted)] == wanted


@pytest.mark.parametrize("present", [False, True])
def test_an_absent_and_an_empty_camera_topic_get_the_same_refusal(tmp_path, present):
    topic = "/cam_front/image_raw/compressed"
    path = write_bag(tmp_path / "b", arm_messages(3), types={topic: COMPRESSED} if present else {})
    with pytest.raises(BagError) as error:
        read(path, SessionConfig(cameras={"cam_front": CameraSettings()}))
    assert str(error.value) == (
        f"{path}: no frames on {topic} (camera cam_front) (got messages on /arm/flange_pose, "
        "/arm/joint_states, /teleop/target) "
        "-> record these topics, or give --config with the topics that are there"
    )


def test_a_bag_without_actions_is_refused_naming_the_topics_there(tmp_path):
    messages = [("/joint_states_single", START + 1, joint_state(START, range(7)))]
    config = dataclasses.replace(load_session("piper_ros_realsense"), cameras={})
    with pytest.raises(
        BagError, match=r"no messages on /joint_ctrl \(needed for target_eef, target_gripper\)"
    ) as error:
        read(write_bag(tmp_path / "b", messages), config)
    assert "got messages on /joint_states_single" in str(error.value)


def test_optional_topics_may_be_missing_and_are_noted(tmp_path):
    config = SessionConfig(cameras={"cam": CameraSettings(required=False)})
    raw = read(write_bag(tmp_path / "b", arm_messages(3)), config)
    assert raw.cameras == {}
    assert "no messages on /cam/image_raw/compressed (optional cam)" in raw.provenance["notes"]


def test_all_stamps_zero_means_receive_time_and_is_said_once(tmp_path):
    raw = read(joint_bag(tmp_path / "b", [0, 0, 0]), joints_only(latency_ms=1.0))
    stream = raw.streams["arm_joint"]
    assert stream.stamp_source == "receive"
    assert stream.stamp_ns.tolist() == [START - MS, START, START + MS]
    assert raw.provenance["clocks"] == {"/arm/joint_states": "receive time: all 3 header stamps are zero"}


def test_some_stamps_zero_drops_those_messages(tmp_path):
    raw = read(joint_bag(tmp_path / "b", [0, START, START + MS, 0]), joints_only())
    stream = raw.streams["arm_joint"]
    assert stream.stamp_source == "header"
    assert stream.values.tolist() == [[1], [2]]
    assert stream.receive_ns.tolist() == [START + MS, START + 2 * MS]
    assert stream.dropped == {"stamp unset": 2}
    assert raw.provenance["unset_stamps"] == {"/arm/joint_states": 2}


def test_stamps_that_do_not_increase_are_dropped_and_the_first_kept(tmp_path):
    offsets = [0, 5, 5, 3, 4, 10]
    raw = read(joint_bag(tmp_path / "b", [START + t * MS for t in offsets]), joints_only())
    assert raw.streams["arm_joint"].values.tolist() == [[0], [1], [5]]
    assert raw.streams["arm_joint"].dropped == {"stamp not increasing": 3}


def test_simulation_time_beside_wall_time_is_refused_with_both_spans(tmp_path):
    messages = [m for m in arm_messages(20) if m[0] != "/arm/joint_states"]
    messages += [
        ("/arm/joint_states", START + k, joint_state(101_550_000_000 + k * MS, [0.0] * 7)) for k in range(20)
    ]
    with pytest.raises(AlignmentError, match="different clocks") as error:
        read(write_bag(tmp_path / "b", messages))
    assert "/arm/joint_states from 101.550 to 101.569 s" in str(error.value)
    assert f"from {START / 1e9:.3f}" in str(error.value)


def test_simulation_time_on_all_topics_is_one_clock(tmp_path):
    sim = 101_550_000_000
    raw = read(
        write_bag(
            tmp_path / "b", [(t, START + k, m) for k, (t, _, m) in enumerate(arm_messages(20, start=sim))]
        )
    )
    assert raw.start_ns == sim


def test_a_foreign_bag_spans_latest_first_to_earliest_last(tmp_path):
    messages = list(arm_messages(100))
    messages = [
        m for m in messages if m[0] != "/arm/flange_pose" or START + 31 * MS < m[1] < START + 402 * MS
    ]
    raw = read(write_bag(tmp_path / "b", messages))
    assert (raw.start_ns - START, raw.end_ns - START) == (35 * MS, 400 * MS)
    assert raw.name == "b"


def test_the_namespace_goes_before_relative_topics(tmp_path):
    messages = [(f"/rig{t}", r, m) for t, r, m in arm_messages(3)]
    config = SessionConfig(cameras={}, session=SessionSettings(namespace="rig"))
    assert (
        read(write_bag(tmp_path / "b", messages), config).streams["arm_eef"].topic == "/rig/arm/flange_pose"
    )


def test_a_recording_that_never_ended_is_interrupted(tmp_path):
    path = write_bag(tmp_path / "b", arm_messages(100), custom(outcome=""))
    with open_bag(path) as bag:
        record = read_record(bag)
        raw = read_episode(bag, NO_CAMERAS, record)
    assert record.outcome == "interrupted"
    assert record.incomplete_reasons == ("the recording was interrupted",)
    assert (raw.start_ns, raw.end_ns) == (START, START + 495 * MS)


def test_the_file_beside_the_bag_wins_over_its_custom_data(tmp_path):
    path = write_bag(tmp_path / "b", arm_messages(3), custom(outcome=""))
    beside = {
        "outcome": "success",
        "complete": False,
        "incomplete_reasons": ["/cam: 3 messages lost"],
        "episode_end_ns": START + 7,
        "task": "抓取 the cube",
    }
    (path / "episode.json").write_text(json.dumps(beside), encoding="utf-8")
    with open_bag(path) as bag:
        record = read_record(bag)
    assert (record.outcome, record.end_ns, record.task) == ("success", START + 7, "抓取 the cube")
    assert record.incomplete_reasons == ("/cam: 3 messages lost",)


def chosen(path):
    with open_bag(path) as bag:
        return choose_config(bag, read_record(bag))


def test_the_bags_own_configuration_comes_before_the_sessions_and_the_topics(tmp_path):
    own = dump_session(SessionConfig(session=SessionSettings(fps=20.0)))
    above = dump_session(SessionConfig(session=SessionSettings(fps=10.0)))
    with_own = write_bag(tmp_path / "s" / "e0", arm_messages(2), {"session_config": own})
    without = write_bag(tmp_path / "s" / "e1", arm_messages(2))
    config, said = chosen(without)
    assert (config, "/teleop/target is there" in said) == (SessionConfig(), True)
    (tmp_path / "s" / "session.yaml").write_text(above, encoding="utf-8")
    assert chosen(without)[0].session.fps == 10.0
    config, said = chosen(with_own)
    assert (config.session.fps, said) == (20.0, "the bag's own configuration")


def test_a_namespaced_piper_ros_recording_is_known_by_its_topics(tmp_path):
    message = joint_state(START, range(7))
    config, said = chosen(write_bag(tmp_path / "b", [("/left/joint_states_single", START, message)]))
    assert config.session.namespace == "left"
    assert config.sources["target_eef"].convert == "forward_kinematics"
    assert "DH variant s_v1_6_3" in said


def test_unknown_topics_ask_for_a_configuration(tmp_path):
    path = write_bag(tmp_path / "b", [("/other", START, joint_state(START, range(7)))])
    with pytest.raises(BagError, match=r"topics /other.*--config"):
        chosen(path)
    broken = write_bag(
        tmp_path / "c", arm_messages(1), {"session_config": "/**: {ros__parameters: {fsp: 3}}"}
    )
    with pytest.raises(ConfigError, match="unknown setting"):
        chosen(broken)

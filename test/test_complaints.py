"""What people complain of with tools that do this job, by kind, from a recording to the rows of a dataset."""

import dataclasses
import io
import json

import numpy as np
import pytest
from bag_faults import IMAGES, JOINTS, ONE_CAMERA, POSE, TARGET, bag, changed, messages
from export_cases import cells, files, frame_messages, rows, run, sources, video_numbers, video_times
from mcap.writer import CompressionType, Writer
from PIL import Image as PilImage
from sample_bags import (
    MS,
    START,
    arm_messages,
    custom,
    header,
    jpeg_image,
    make,
    make_writer,
    picture,
    pose_stamped,
    store,
    write_bag,
)

from piper_collect.bag.reader import open_bag
from piper_collect.bag.storage import TopicInfo
from piper_collect.config.load import dump_session
from piper_collect.config.schema import CameraSettings, SessionConfig, SessionSettings
from piper_collect.dataset.reader import open_dataset
from piper_collect.pipelines.validate import validate_dataset

NO_CAMERAS = SessionConfig(cameras={})


def one(path, root, **options):
    """The outcome of a single bag."""
    (outcome,) = run(path, root, options.pop("profile", "piper"), **options).bags
    return outcome


def same_data(root, other):
    """Rows and videos alike; what is said of the bag may differ."""
    kept = [{n: d for n, d in files(r).items() if n.startswith(("data/", "videos/"))} for r in (root, other)]
    return kept[0] == kept[1]


# -- bags: without metadata, of odd definitions, of odd metadata ---------------------------------


@pytest.mark.parametrize("storage", ["mcap", "sqlite3"])
def test_a_bag_that_lost_its_metadata_gives_the_same_rows_whole_or_in_splits(tmp_path, storage):
    content, known = messages(), custom(end_ms=600)
    whole = write_bag(tmp_path / "whole", content, known, storage=storage)
    config = ONE_CAMERA
    assert one(whole, tmp_path / "ds", config=config).status == "exported"
    (whole / "metadata.yaml").unlink()
    outcome = one(whole, tmp_path / "bare", config=config, task="pick the cube")
    assert outcome.status == "exported", outcome.reason
    assert any("metadata.yaml is missing" in note for note in outcome.notes)
    assert same_data(tmp_path / "ds", tmp_path / "bare")

    content.sort(key=lambda item: item[1])
    suffix = {"mcap": ".mcap", "sqlite3": ".db3"}[storage]
    for number, part in enumerate((content[:100], content[100:250], content[250:])):
        made = write_bag(tmp_path / "parts" / f"p{number}", part, known, storage=storage)
        (tmp_path / "splits").mkdir(exist_ok=True)
        next(made.glob(f"*{suffix}")).rename(tmp_path / "splits" / f"x_{number}{suffix}")
    # without episode.json nothing says when the episode ended but the custom data of an MCAP
    outcome = one(tmp_path / "splits", tmp_path / "split_ds", config=config, task="pick the cube")
    assert outcome.status == "exported", outcome.reason
    joints = [cells(rows(tmp_path / d), "observation.arm_joint") for d in ("ds", "split_ds")]
    common = min(map(len, joints))
    assert common >= len(joints[0]) - 1
    assert (joints[0][:common] == joints[1][:common]).all()


def test_topics_that_feed_nothing_never_stop_an_export(tmp_path):
    """An empty message, a type that nobody knows, and a known type whose definition was left out."""
    writer = make_writer("mcap")
    writer.open(tmp_path / "odd", custom(end_ms=600, session_config=dump_session(ONE_CAMERA)))
    content = sorted(messages(), key=lambda item: item[1])
    for topic, message in {t: m for t, _, m in content}.items():
        kept = "" if topic == JOINTS else store().generate_msgdef(message.__msgtype__, ros_version=2)[0]
        writer.create_topic(TopicInfo(name=topic, type=message.__msgtype__, message_definition=kept))
    for topic, kind in (("/beat", "std_msgs/msg/Empty"), ("/odd", "my_msgs/msg/X")):
        writer.create_topic(TopicInfo(name=topic, type=kind, message_definition=""))
    for number, (topic, receive_ns, message) in enumerate(content):
        writer.write(topic, bytes(store().serialize_cdr(message, message.__msgtype__)), receive_ns)
        if number % 7 == 0:
            writer.write("/beat", b"\x00\x01\x00\x00\x00", receive_ns)
            writer.write("/odd", b"\x00\x01\x00\x00\xff", receive_ns)
    writer.close()
    assert one(tmp_path / "odd", tmp_path / "ds").status == "exported"
    assert one(bag(tmp_path / "plain", messages()), tmp_path / "other").status == "exported"
    assert same_data(tmp_path / "ds", tmp_path / "other")


@pytest.mark.parametrize("storage", ["mcap", "sqlite3"])
def test_metadata_that_tells_another_qos_loses_no_message(tmp_path, storage):
    content = messages()
    path = write_bag(tmp_path / "b", content, custom(end_ms=600), storage=storage)
    metadata = path / "metadata.yaml"
    text = metadata.read_text().replace("offered_qos_profiles: []", "offered_qos_profiles: '- depth: 7'")
    metadata.write_text(text)
    with open_bag(path) as opened:
        read = list(opened.messages())
        assert len(read) == len(content) == sum(t.message_count for t in opened.topics.values())
    assert one(path, tmp_path / "ds", config=ONE_CAMERA).status == "exported"


@pytest.mark.parametrize("chunked", [True, False])
def test_what_rclpy_pads_a_message_with_changes_no_row(tmp_path, chunked):
    """rclpy.serialization ends messages with bytes that belong to no field."""
    paths = []
    for name, padding in (("plain", b""), ("padded", b"\x00\x00\x00")):
        paths.append(tmp_path / f"{name}.mcap")
        with paths[-1].open("wb") as file:
            compression = CompressionType.ZSTD if chunked else CompressionType.NONE
            writer = Writer(file, compression=compression, use_chunking=chunked)
            writer.start(profile="ros2")
            channels = {}
            for topic, receive_ns, message in sorted(messages(), key=lambda item: item[1]):
                kind = message.__msgtype__
                if topic not in channels:
                    text = store().generate_msgdef(kind, ros_version=2)[0].encode()
                    schema = writer.register_schema(kind, "ros2msg", text)
                    channels[topic] = writer.register_channel(topic, "cdr", schema)
                payload = bytes(store().serialize_cdr(message, kind)) + padding
                writer.add_message(channels[topic], receive_ns, payload, receive_ns)
            writer.finish()
    made = [one(p, tmp_path / f"ds_{p.stem}", config=ONE_CAMERA, task="pick") for p in paths]
    assert [m.status for m in made] == ["exported", "exported"], made[0].reason
    assert same_data(tmp_path / "ds_plain", tmp_path / "ds_padded")


# -- time ----------------------------------------------------------------------------------------


def test_of_pictures_with_one_stamp_the_first_is_kept_and_the_others_are_counted(tmp_path):
    stamps = [2, 35, 68, 68, 68, 101, 134, 167, 200, 233, 266]
    content = [*arm_messages(60), *frame_messages("cam", stamps, delays_ms=range(9, 9 + len(stamps)))]
    path = write_bag(tmp_path / "b", content, custom(end_ms=300))
    outcome = one(path, tmp_path / "ds", config=ONE_CAMERA)
    assert outcome.status == "exported"
    assert outcome.dropped_frames == {"cam": 2}
    assert sources(tmp_path / "ds")[0]["cameras"]["cam"]["dropped_not_increasing"] == 2
    video = tmp_path / "ds/videos/chunk-000/observation.images.cam/episode_000000.mp4"
    shown = [0, 1, 2, 5, 6, 7, 8, 9, 10]
    numbers = video_numbers(video)
    assert numbers == [n for n in shown if n >= numbers[0]]
    assert numbers[0] <= 1
    assert len(set(video_times(video))) == len(numbers)


def test_joint_states_of_one_time_of_receipt_stay_in_their_order(tmp_path):
    content = [(topic, START + 50 * MS * (k // 30), m) for k, (topic, _, m) in enumerate(arm_messages(60))]
    path = write_bag(tmp_path / "b", content, custom(end_ms=300))
    assert one(path, tmp_path / "ds", config=NO_CAMERAS).status == "exported"
    joints = cells(rows(tmp_path / "ds"), "observation.arm_joint")[:, 0]
    stamps = cells(rows(tmp_path / "ds"), "timestamp")
    assert np.abs(joints - (joints[0] + stamps * 0.2)).max() < 1e-6


def test_an_episode_added_later_starts_its_times_and_frames_anew(tmp_path):
    for number in range(2):
        start = START + number * 10**11
        known = custom(start=start, end_ms=100)
        path = write_bag(tmp_path / f"episode_{number:06d}", arm_messages(20, start=start), known)
        assert one(path, tmp_path / "ds", config=NO_CAMERAS).status == "exported"
    tables = [rows(tmp_path / "ds", k) for k in range(2)]
    assert [t["frame_index"].to_pylist() for t in tables] == [[0, 1, 2], [0, 1, 2]]
    assert [t["timestamp"][0].as_py() for t in tables] == [0.0, 0.0]
    assert tables[1]["index"].to_pylist() == [3, 4, 5]
    report = validate_dataset(tmp_path / "ds").report
    assert not [f for f in report.findings if f.code in ("timestamps", "row-numbers", "fps")]


def test_a_rate_that_is_no_whole_number_stays_one_for_a_minute(tmp_path):
    config = dataclasses.replace(NO_CAMERAS, session=SessionSettings(fps=29.97))
    path = write_bag(tmp_path / "b", arm_messages(3010, period_ms=20), custom(end_ms=60_200))
    assert one(path, tmp_path / "ds", config=config, profile="train").status == "exported"
    stamps = cells(rows(tmp_path / "ds"), "timestamp")
    assert len(stamps) == 1 + int(60.18 * 29.97)
    assert np.abs(stamps - np.arange(len(stamps)) / 29.97).max() < 4e-6
    assert json.loads((tmp_path / "ds/meta/info.json").read_text())["fps"] == 29.97


# -- pictures ------------------------------------------------------------------------------------


def raw(encoding, pixels, step):
    def made(stamp_ns, _pixels):
        h, w = pixels.shape[:2]
        content = np.frombuffer(np.ascontiguousarray(pixels).tobytes(), np.uint8)
        return make(
            "sensor_msgs/msg/Image", header(stamp_ns, "optical"), h, w, encoding, 0, step * w, content
        )

    return made


def exported_with(make_image, tmp_path, transport="raw"):
    images = [
        (f"/cam/image_raw{'/compressed' if transport == 'compressed' else ''}", START + (t + 9) * MS,
         make_image(START + t * MS, None))
        for t in range(2, 300, 33)
    ]  # fmt: skip
    config = SessionConfig(cameras={"cam": CameraSettings(width=64, height=48, transport=transport)})
    path = write_bag(tmp_path / "b", [*arm_messages(60), *images], custom(end_ms=300))
    return one(path, tmp_path / "ds", config=config)


DEPTH16, DEPTH32 = np.full((48, 64), 2500, np.uint16), np.full((48, 64), 2.5, np.float32)


@pytest.mark.parametrize(("encoding", "pixels", "step"), [("16UC1", DEPTH16, 2), ("32FC1", DEPTH32, 4)])
def test_depth_is_refused_by_topic_and_encoding_and_never_squeezed(tmp_path, encoding, pixels, step):
    outcome = exported_with(raw(encoding, pixels, step), tmp_path)
    assert outcome.status == "failed"
    assert "/cam/image_raw" in outcome.reason
    assert encoding in outcome.reason
    assert not (tmp_path / "ds/data").exists()


@pytest.mark.parametrize("text", ["16UC1; compressedDepth", "16UC1; compressedDepth png"])
def test_compressed_depth_is_refused(tmp_path, text):
    def made(stamp_ns, _pixels):
        return jpeg_image(stamp_ns, picture((9, 9, 9)), text)

    outcome = exported_with(made, tmp_path, "compressed")
    assert outcome.status == "failed"
    assert "compressedDepth" in outcome.reason
    assert IMAGES in outcome.reason


GREY = np.full((48, 64), 120, np.uint8)


@pytest.mark.parametrize(
    ("encoding", "pixels", "step"),
    [
        ("mono8", GREY, 1),
        ("mono16", GREY.astype(np.uint16) * 257, 2),
        ("bayer_grbg8", GREY, 1),
        ("yuv422_yuy2", np.dstack([GREY, np.full_like(GREY, 128)]), 2),
    ],
)
def test_grey_of_every_encoding_is_the_same_grey(tmp_path, encoding, pixels, step):
    outcome = exported_with(raw(encoding, pixels, step), tmp_path)
    assert outcome.status == "exported", outcome.reason
    _, frame = next(open_dataset(tmp_path / "ds").frames(0, "observation.images.cam"))
    assert np.abs(frame.astype(int) - 120).max() < 6


def test_an_encoding_that_does_not_say_what_it_shows_is_refused_by_name(tmp_path):
    outcome = exported_with(raw("8UC1", GREY, 1), tmp_path)
    assert outcome.status == "failed"
    assert "8UC1" in outcome.reason
    assert "/cam/image_raw" in outcome.reason


# -- joints, poses, gripper ----------------------------------------------------------------------


def turned(stamp_ns, k):
    """A quarter turn about z, told as q and as -q by turns."""
    sign = -1.0 if k % 2 else 1.0
    return pose_stamped(stamp_ns, [0.3, 0.0, 0.2], [0, 0, sign * np.sqrt(0.5), sign * np.sqrt(0.5)])


def test_a_rotation_told_by_both_its_quaternions_is_one_column_without_jumps(tmp_path):
    content = [m for m in arm_messages(120) if m[0] != POSE]
    content += [(POSE, START + (5 * k + 1) * MS, turned(START + 5 * k * MS, k)) for k in range(120)]
    path = write_bag(tmp_path / "b", content, custom(end_ms=600))
    assert one(path, tmp_path / "ds", config=NO_CAMERAS).status == "exported"
    quaternions = cells(rows(tmp_path / "ds"), "observation.arm_eef")[:, 3:]
    assert np.abs(quaternions - [np.sqrt(0.5), 0, 0, np.sqrt(0.5)]).max() < 1e-6  # wxyz
    stats = json.loads((tmp_path / "ds/meta/stats.json").read_text())["observation.arm_eef"]
    assert np.abs(stats["std"][3:]).max() < 1e-6
    assert stats["min"][3] == stats["max"][3] == stats["q01"][3] == stats["q99"][3]


def test_a_controller_that_was_lost_and_told_as_zero_is_named_as_a_jump(tmp_path):
    def lost(message):
        message.flange_pose.position.x = message.flange_pose.position.y = message.flange_pose.position.z = 0.0
        message.flange_pose.orientation.y, message.flange_pose.orientation.w = 0.0, 1.0

    content = changed(arm_messages(120), TARGET, lost, lambda k: 60 <= k < 70)
    path = write_bag(tmp_path / "b", content, custom(end_ms=600))
    assert one(path, tmp_path / "ds", config=NO_CAMERAS).status == "exported"
    found = validate_dataset(tmp_path / "ds").report.findings
    assert any(f.code == "jump" and "action.arm_eef" in f"{f.where} {f.text}" for f in found), found


def test_a_gripper_that_never_moves_has_finite_statistics(tmp_path):
    path = write_bag(tmp_path / "b", arm_messages(60, width=0.05), custom(end_ms=300))
    assert one(path, tmp_path / "ds", config=NO_CAMERAS).status == "exported"
    text = (tmp_path / "ds/meta/stats.json").read_text()
    assert "NaN" not in text
    stats = json.loads(text)["observation.gripper"]
    assert stats["std"] == [0.0]
    assert stats["q01"] == stats["q99"] == stats["mean"] == [pytest.approx(0.05)]


def test_red_is_red_in_alpha_encodings_and_png(tmp_path):
    def png(stamp_ns, _pixels):
        buffer = io.BytesIO()
        PilImage.fromarray(picture((255, 0, 0))).save(buffer, "PNG")
        message = jpeg_image(stamp_ns, picture((0, 0, 0)), "rgb8; png compressed bgr8")
        message.data = np.frombuffer(buffer.getvalue(), np.uint8)
        return message

    alpha = np.full((48, 64, 1), 255, np.uint8)
    rgba = np.concatenate([picture((255, 0, 0)), alpha], axis=2)
    bgra = np.concatenate([picture((0, 0, 255)), alpha], axis=2)
    kinds = {"rgba8": raw("rgba8", rgba, 4), "bgra8": raw("bgra8", bgra, 4), "png": png}
    for name, make_image in kinds.items():
        folder = tmp_path / name
        outcome = exported_with(make_image, folder, "compressed" if name == "png" else "raw")
        assert outcome.status == "exported", outcome.reason
        _, frame = next(open_dataset(folder / "ds").frames(0, "observation.images.cam"))
        assert np.abs(frame.astype(int) - picture((255, 0, 0))).max() < 12, name

"""A latency of x ms is the same as stamps that are x ms earlier: for that stream, everywhere, once."""

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sample_bags import MS, START, arm_messages, camera_messages, custom, write_bag

from piper_collect.bag.episode import read_episode
from piper_collect.bag.reader import open_bag
from piper_collect.config.schema import CameraSettings, SessionConfig

POSE, PICTURE = "/arm/flange_pose", "/cam/image_raw/compressed"
LATENCIES = st.integers(-200_000_000, 200_000_000)


def config_of(pose_ns=0, camera_ns=0):
    base = SessionConfig(cameras={"cam": CameraSettings(latency_ms=camera_ns / MS)})
    pose = replace(base.sources["arm_eef"], latency_ms=pose_ns / MS)
    return replace(base, sources={**base.sources, "arm_eef": pose})


def bag_of(folder, pose_ns=0, camera_ns=0, *, stamped=True):
    """A bag in which the stamps of the pose and the camera lie so much earlier, or none is set."""
    messages = [*arm_messages(12), *camera_messages("cam", [5, 20, 41])]
    earlier = {POSE: pose_ns, PICTURE: camera_ns}
    for topic, _, message in messages:
        stamp = message.header.stamp
        stamp_ns = stamp.sec * 10**9 + stamp.nanosec - earlier.get(topic, 0)
        if not stamped and topic in earlier:
            stamp_ns = 0
        stamp.sec, stamp.nanosec = stamp_ns // 10**9, stamp_ns % 10**9
    return write_bag(folder, messages, custom(end_ms=60))


def read(path, config):
    with open_bag(path) as bag:
        raw = read_episode(bag, config)
    return raw, [frame.stamp_ns for frame in raw.cameras["cam"].frames(0, 2**62)]


def assert_same(one, other):
    (raw, frames), (wanted, wanted_frames) = one, other
    assert (raw.start_ns, raw.end_ns) == (wanted.start_ns, wanted.end_ns)
    assert frames == wanted_frames
    assert_array_equal(raw.cameras["cam"].stamp_ns, wanted.cameras["cam"].stamp_ns)
    assert list(raw.streams) == list(wanted.streams)
    for key, stream in raw.streams.items():
        assert_array_equal(stream.stamp_ns, wanted.streams[key].stamp_ns)
        assert_array_equal(stream.receive_ns, wanted.streams[key].receive_ns)
        assert_array_equal(stream.values, wanted.streams[key].values)


@settings(deadline=None, max_examples=25)
@given(LATENCIES, LATENCIES)
def test_latency_is_a_shift_of_that_streams_stamps(pose_ns, camera_ns):
    with tempfile.TemporaryDirectory() as folder:
        as_it_is = read(bag_of(Path(folder) / "a"), config_of(pose_ns, camera_ns))
        shifted = read(bag_of(Path(folder) / "b", pose_ns, camera_ns), config_of())
    assert_same(as_it_is, shifted)


def test_two_halves_of_a_latency_are_the_whole(tmp_path):
    half = 3 * MS
    one = read(bag_of(tmp_path / "a", half, half), config_of(half, half))
    assert_same(one, read(bag_of(tmp_path / "b", 2 * half, 2 * half), config_of()))


def test_latency_is_taken_off_receive_times_too(tmp_path):
    raw, frames = read(bag_of(tmp_path / "a", stamped=False), config_of(7 * MS, -7 * MS))
    plain, plain_frames = read(tmp_path / "a", config_of())
    assert raw.streams["arm_eef"].stamp_source == raw.cameras["cam"].stamp_source == "receive"
    assert_array_equal(raw.streams["arm_eef"].stamp_ns, plain.streams["arm_eef"].stamp_ns - 7 * MS)
    assert_array_equal(raw.cameras["cam"].stamp_ns, plain.cameras["cam"].stamp_ns + 7 * MS)
    assert frames == [stamp + 7 * MS for stamp in plain_frames]


def test_a_source_with_a_latency_leaves_the_others_of_its_topic_alone(tmp_path):
    base = config_of()
    gripper = replace(base.sources["gripper"], latency_ms=20.0)
    raw, _ = read(bag_of(tmp_path / "a"), replace(base, sources={**base.sources, "gripper": gripper}))
    assert raw.streams["arm_joint"].stamp_ns[0] == START
    assert raw.streams["gripper"].stamp_ns[0] == START - 20 * MS


@pytest.mark.parametrize(("pose_ns", "camera_ns"), [(0, 0), (2_500_000, -MS)])
def test_what_was_taken_off_is_recorded(tmp_path, pose_ns, camera_ns):
    raw, _ = read(bag_of(tmp_path / "a"), config_of(pose_ns, camera_ns))
    wanted = {"arm_eef": pose_ns / MS, "cam": camera_ns / MS}
    assert raw.provenance["latency_ms"] == {name: ms for name, ms in wanted.items() if ms}

"""Clocks of real recordings: what each source's setting makes of them.

The bags lie beside the project (``../shared/cases``) and are no part of it; without them these tests skip.
"""

from pathlib import Path

import numpy as np
import pytest

from piper_collect.bag.episode import read_episode
from piper_collect.bag.reader import open_bag
from piper_collect.config.schema import SessionConfig, SourceSettings
from piper_collect.errors import AlignmentError

BAGS = Path(__file__).resolve().parent.parent.parent / "shared" / "cases" / "bags"
pytestmark = pytest.mark.skipif(not BAGS.is_dir(), reason="the real bags (../shared/cases/bags) are not here")


def read(name, **sources):
    with open_bag(BAGS / name) as bag:
        return read_episode(bag, SessionConfig(cameras={}, sources=sources))


def of(topic, field, policy, **more):
    return SourceSettings(topic=topic, field=field, clock=policy, **more)


def test_simulation_time_that_runs_slower_than_the_wall_is_put_on_it():
    name = "arm_abitobot/rosbag"
    raw = read(
        name, joint=of("/joint_states", "position", "flag"), imu=of("/imu/data", "orientation.w", "flag")
    )
    assert raw.streams["joint"].stamp_ns[0] < 106 * 10**9  # both on simulation time: one clock
    with pytest.raises(AlignmentError, match=r"sources\.joint\.clock says refuse"):
        read(name, joint=of("/joint_states", "position", "refuse"))
    raw = read(
        name,
        joint=of("/joint_states", "position", "correct"),
        imu=of("/imu/data", "orientation.w", "correct"),
    )
    for key in ("joint", "imu"):
        stream = raw.streams[key]
        assert len(stream.stamp_ns) > 1800
        # simulation time went by at 0.99 of the wall's: without the slope it would be a second off
        late_ns = stream.receive_ns - stream.stamp_ns
        assert np.ptp(late_ns) < 200e6


def test_a_clean_recording_of_others_has_nothing_to_tell():
    raw = read("arm_joint_twist_baglab/test_bag", joint=of("/test/joint_state", "position", "refuse"))
    assert len(raw.streams["joint"].stamp_ns) == 496
    assert "clock_faults" not in raw.provenance


def test_stamps_that_are_all_zero_are_refused_where_that_is_asked_and_told_elsewhere():
    name = "arm_deepen_grade/sample_ros2"
    with pytest.raises(AlignmentError, match="all 200 header stamps are zero"):
        read(name, joint=of("/joint_states", "position", "refuse"))
    for policy in ("flag", "correct"):
        raw = read(name, joint=of("/joint_states", "position", policy))
        assert (raw.streams["joint"].stamp_source, len(raw.streams["joint"].stamp_ns)) == ("receive", 200)
        assert "clock_corrections" not in raw.provenance


def test_stamps_without_a_header_are_receive_times():
    raw = read("arm_deepen_grade/sample.mcap", joint=of("/joint_states", "position", "flag"))
    assert raw.provenance["clocks"]["/joint_states"] == "receive time: the messages have no header"


def test_a_stream_of_poses_of_another_recorder():
    raw = read("pose_plotjuggler/rosbag2_test", pose=of("/pose", "pose.position.x", "flag"))
    stream = raw.streams["pose"]
    assert len(stream.stamp_ns) + sum(stream.dropped.values()) == 1565
    assert (np.diff(stream.stamp_ns) > 0).all()

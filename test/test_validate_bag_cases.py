"""Real bags of public repositories: each gets the right verdict, and none a traceback.

They lie beside the project (``../shared/cases``) and are no part of it; without them these tests skip.
"""

import json
from pathlib import Path

import pytest

from piper_collect.config.schema import SessionConfig, SourceSettings
from piper_collect.pipelines.validate_bag import validate_bag

BAGS = Path(__file__).resolve().parent.parent.parent / "shared" / "cases" / "bags"
pytestmark = pytest.mark.skipif(not BAGS.is_dir(), reason="the real bags (../shared/cases/bags) are not here")


def verdict(name, config=None):
    report = validate_bag(BAGS / name, config)
    json.dumps(report.to_json(), allow_nan=False)
    return report, {(f.level, f.code) for f in report.findings} - {("warning", "no-task")}


def text_of(report, code):
    return next(f.text for f in report.findings if f.code == code)


def test_all_at_once():
    report = validate_bag(BAGS)
    assert report.facts["bags"] > 25
    assert not report.ok
    json.dumps(report.to_json(), allow_nan=False)


def test_every_file_gets_a_report():
    before = sorted(BAGS.rglob("*"))
    for path in before:
        if path.is_file():
            report = validate_bag(path)
            assert not report.ok  # none of them says how to read it
            assert all("\n" not in f.text for f in report.findings)
    assert sorted(BAGS.rglob("*")) == before


NO_CONFIG = ("error", "no-config")
VERDICTS = {
    "rosbag2_2021_reindex/reindex_test_bags/message_compression": {
        NO_CONFIG, ("error", "damaged"), ("warning", "no-metadata"),
    },
    "rosbag2_2021_reindex/reindex_test_bags/multiple_files": {NO_CONFIG, ("warning", "no-metadata")},
    "rosbag2_rolling/empty_bag": {NO_CONFIG, ("error", "empty")},
    "rosbag2_rolling/py_mcap/talker": {NO_CONFIG},
    "rosbag2_rolling/py_sqlite3/talker": {NO_CONFIG},
    "rosbag2_rolling/py_mcap/wbag": {NO_CONFIG, ("warning", "metadata-times")},
    "arm_abitobot/rosbag": {NO_CONFIG, ("warning", "clock-offset"), ("warning", "clock-drift")},
    "arm_joint_twist_baglab/test_bag": {NO_CONFIG},
    "arm_deepen_grade/sample.mcap": {NO_CONFIG, ("warning", "image"), ("warning", "stamps-unset")},
    "arm_deepen_grade/sample_ros2": {NO_CONFIG, ("warning", "stamps-unset")},
    "arm_deepen_grade/sample_ros1.bag": {("error", "unreadable")},
    "alltypes_rosbags_rs/test_bags/test_bag_sqlite3": {
        NO_CONFIG, ("warning", "image"), ("warning", "clock-offset"),
    },
    "oneshot_rosbag2parquet/testdata/array_msgs": {NO_CONFIG, ("warning", "stamps-unset")},
    "pose_plotjuggler/rosbag2_test": {NO_CONFIG},
    "truncated_rosbag_analyzer/fixtures/test_sample.mcap": {NO_CONFIG},
    "truncated_rosbag_analyzer/fixtures/test_sample_truncated.mcap": {
        NO_CONFIG, ("error", "truncated"), ("error", "incomplete"),
    },
    "truncated_rosbag_analyzer/fixtures/test_sample.mcap.zstd": {("error", "unreadable")},
    "truncated_rosbag_analyzer/fixtures/test_sample_no_rosout.mcap": {NO_CONFIG, ("warning", "undecodable")},
    "zero_byte_db3/ros2_dir_bag": {("error", "unreadable")},
    "nonmonotonic_bagx/sample_bag.db3": {NO_CONFIG},
}  # fmt: skip


@pytest.mark.parametrize("name", VERDICTS)
def test_verdict(name):
    assert verdict(name)[1] == VERDICTS[name]


def test_what_is_said_of_some():
    ros1 = text_of(verdict("arm_deepen_grade/sample_ros1.bag")[0], "unreadable")
    assert "this is a ROS 1 bag" in ros1
    assert "rosbags-convert" in ros1
    zeros = text_of(verdict("arm_deepen_grade/sample_ros2")[0], "stamps-unset")
    assert zeros == "aligned by receive time: all 200 header stamps are zero (so on 3 topics)"
    cut = text_of(verdict("arm_deepen_grade/sample.mcap")[0], "image")
    assert cut.startswith("100 of 100 images do not become video")
    drift = text_of(verdict("arm_abitobot/rosbag")[0], "clock-drift")
    assert "slower than the recorder's" in drift
    packed = text_of(
        verdict("rosbag2_2021_reindex/reindex_test_bags/message_compression")[0], "damaged"
    )  # fmt: skip
    assert "put back its metadata.yaml" in packed


def pose_config(**target):
    """A configuration for a bag of one pose topic: it is state and target at once."""
    pose = SourceSettings(topic="/pose", field="pose", unit="m", max_age_ms=100)
    width = SourceSettings(topic="/battery", field="voltage", max_age_ms=100)
    joints = SourceSettings(topic="/imu", field="orientation_covariance", max_age_ms=100)
    sources = {"arm_joint": joints, "arm_eef": pose, "gripper": width, "target_eef": pose,
               "target_gripper": width, **target}  # fmt: skip
    return SessionConfig(cameras={}, sources=sources)


def test_a_bag_with_a_configuration_that_does_not_fit_it():
    report, found = verdict("pose_plotjuggler/rosbag2_test", pose_config())
    assert found == {("error", "source"), ("warning", "rate")}  # 25 Hz, and no frame_id
    missing = {"target_eef": SourceSettings(topic="/rosout", field="pose")}
    report, found = verdict("pose_plotjuggler/rosbag2_test", pose_config(**missing))
    assert found == {("error", "missing-topic"), ("warning", "rate")}
    assert "there, without a message" in text_of(report, "missing-topic")


def test_a_joint_bag_as_far_as_its_configuration_goes():
    joint = SourceSettings(topic="/test/joint_state", field="position")
    config = SessionConfig(cameras={}, sources={"arm_joint": joint})
    report, found = verdict("arm_joint_twist_baglab/test_bag", config)
    topic = report.facts["by_bag"]["test_bag"]["topics"]["/test/joint_state"]
    assert topic["rate_hz"] == pytest.approx(100, abs=1)
    assert found == {("error", "columns")}
    assert "source arm_joint does not fill column observation.arm_joint" in text_of(report, "columns")

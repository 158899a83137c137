"""Values out of messages: joints by name, poses to wxyz, units to SI, widths and frames checked."""

import numpy as np
import pytest
from sample_bags import JOINTS, START, joint_state, make, pose_stamped, teleop_target

from piper_collect.bag.fields import FieldReader
from piper_collect.config.schema import ArmSettings, SourceSettings
from piper_collect.core.kinematics import PiperKinematics
from piper_collect.errors import BagError, ConfigError


def read(settings, *messages, key="arm_joint", arm=None):
    reader = FieldReader(key, "/topic", settings, arm or ArmSettings())
    for message in messages:
        reader.add(message)
    return reader.values()


def joints(field="position", select=tuple(JOINTS), unit="rad", **more):
    return SourceSettings(topic="t", field=field, select=select, unit=unit, **more)


def test_joints_are_taken_by_name_in_the_selected_order():
    first = joint_state(START, [1, 2, 3], names=("a", "b", "c"))
    moved = joint_state(START, [30, 10, 20], names=("c", "a", "b"))
    assert read(joints(select=("c", "a")), first, moved).tolist() == [[3, 1], [30, 10]]


def test_without_a_selection_the_first_message_gives_the_order():
    messages = [joint_state(START, [1, 2], ("a", "b")), joint_state(START, [20, 10], ("b", "a"))]
    messages.append(joint_state(START, [200, 100], ("b", "a")))
    assert read(joints(select=()), *messages).tolist() == [[1, 2], [10, 20], [100, 200]]


def test_a_missing_joint_lists_the_names_that_are_there():
    message = joint_state(START, range(7), names=[f"joint{i}" for i in range(7)])
    with pytest.raises(BagError, match=r"gripper.*joint0, joint1, joint2") as error:
        read(joints(select=("joint1", "gripper")), message)
    assert "source arm_joint" in str(error.value)


def test_a_velocity_shorter_than_the_names_is_refused():
    message = joint_state(START, range(7), velocity=range(6))
    assert read(joints(field="velocity", select=("joint6",)), message).tolist() == [[5]]
    with pytest.raises(BagError, match="no value for every joint"):
        read(joints(field="velocity", select=("gripper",)), message)


def test_ros_quaternions_become_wxyz():
    message = pose_stamped(START, [1, 2, 3], [0, 0, 0.7071, 0.7072])
    values = read(SourceSettings(topic="t", field="pose", unit="m"), message)
    assert values.tolist() == [[1, 2, 3, 0.7072, 0, 0, 0.7071]]


def test_the_targets_pose_and_width_come_from_one_message():
    message = teleop_target(START, [1, 2, 3], [0.1, 0.2, 0.3, 0.4], 0.07)
    pose = read(SourceSettings(topic="t", field="flange_pose", unit="m"), message)
    width = read(SourceSettings(topic="t", field="gripper_width", unit="m"), message, key="target_gripper")
    assert pose.tolist() == [[1, 2, 3, 0.4, 0.1, 0.2, 0.3]]
    assert width.tolist() == [[0.07]]


@pytest.mark.parametrize(
    ("unit", "value", "expected"), [("deg", 180.0, np.pi), ("mm", 70.0, 0.07), ("um", 70_000.0, 0.07)]
)
def test_units_become_si(unit, value, expected):
    message = joint_state(START, [value], names=("x",))
    assert read(joints(select=("x",), unit=unit), message)[0, 0] == pytest.approx(expected)


def test_only_the_position_of_a_pose_is_scaled():
    message = pose_stamped(START, [1000, 0, 0], [0, 0, 0, 1])
    assert read(SourceSettings(topic="t", field="pose", unit="mm"), message).tolist() == [
        [1, 0, 0, 1, 0, 0, 0]
    ]
    with pytest.raises(ConfigError, match="unit does not fit a pose"):
        read(SourceSettings(topic="t", field="pose", unit="deg"), message)


@pytest.mark.parametrize(("value", "unit"), [(70.0, "mm"), (70_000.0, "um")])
def test_a_width_in_another_unit_is_refused_with_the_unit_to_set(value, unit):
    message = joint_state(START, [value], names=("gripper",))
    with pytest.raises(BagError, match=f"out of range.*unit: {unit}"):
        read(joints(select=("gripper",), unit="m"), message, key="gripper")
    assert read(joints(select=("gripper",), unit=unit), message, key="gripper")[0, 0] == pytest.approx(0.07)


def test_a_calibrated_gripper_may_read_just_under_zero():
    message = joint_state(START, [-0.0004], names=("gripper",))
    assert read(joints(select=("gripper",), unit="m"), message, key="gripper").tolist() == [[-0.0004]]
    with pytest.raises(BagError, match="out of range"):
        read(
            joints(select=("gripper",), unit="m"),
            joint_state(START, [-0.01], names=("gripper",)),
            key="gripper",
        )


def test_a_pose_in_another_frame_is_refused_and_an_empty_one_only_allowed_by_the_setting():
    settings = SourceSettings(topic="t", field="pose", unit="m")
    world = pose_stamped(START, [0, 0, 0], [0, 0, 0, 1], frame_id="world")
    empty = pose_stamped(START, [0, 0, 0], [0, 0, 0, 1], frame_id="")
    with pytest.raises(BagError, match="expected base_link, got world"):
        read(settings, world)
    with pytest.raises(BagError, match=r"empty frame_id.*allow_empty_frame"):
        read(settings, empty)
    assert len(read(settings, empty, arm=ArmSettings(allow_empty_frame=True))) == 1
    with pytest.raises(BagError, match="world"):
        read(settings, world, arm=ArmSettings(allow_empty_frame=True))


@pytest.mark.parametrize("dh_offset", ["s_v1_6_3", "older"])
def test_forward_kinematics_uses_the_configured_variant(dh_offset):
    q = [0.5, 1.0, -0.8, 0.3, -0.4, 0.6]
    arm = ArmSettings(dh_offset=dh_offset)
    message = joint_state(START, np.degrees([*q, 0.0]))
    values = read(joints(unit="deg", convert="forward_kinematics"), message, arm=arm)
    np.testing.assert_allclose(values[0], PiperKinematics(dh_offset).forward(q), atol=1e-12)


def test_forward_kinematics_needs_six_joints():
    with pytest.raises(BagError, match="six joints"):
        read(joints(select=("joint1",), convert="forward_kinematics"), joint_state(START, range(7)))


def test_dotted_paths_reach_numbers_and_others_are_refused_by_name():
    message = pose_stamped(START, [1, 2, 3], [0, 0, 0, 1])
    assert read(SourceSettings(topic="t", field="pose.position.z"), message).tolist() == [[3]]
    with pytest.raises(BagError, match=r"no field pose\.positon\.z.*did you mean 'position'"):
        read(SourceSettings(topic="t", field="pose.positon.z"), message)
    with pytest.raises(BagError, match="not made of numbers"):
        read(SourceSettings(topic="t", field="header"), message)
    with pytest.raises(BagError, match="not made of numbers"):
        read(SourceSettings(topic="t", field="name"), joint_state(START, range(7)))


def test_a_field_that_changes_its_length_is_refused():
    layout = make("std_msgs/msg/MultiArrayLayout", [], 0)
    messages = [
        make("std_msgs/msg/Float64MultiArray", layout, np.arange(n, dtype=np.float64)) for n in (2, 3)
    ]
    assert read(SourceSettings(topic="t", field="data"), messages[0]).tolist() == [[0, 1]]
    with pytest.raises(BagError, match="changes its length"):
        read(SourceSettings(topic="t", field="data"), *messages)

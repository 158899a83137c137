"""display_node: fingers, trails and state of a session, from what others publish."""

from dataclasses import replace

import pytest
from geometry_msgs.msg import PoseStamped
from ros_support import rig_in
from sensor_msgs.msg import JointState
from visualization_msgs.msg import Marker, MarkerArray

from piper_collect.config.names import DISPLAY_JOINTS_TOPIC, DISPLAY_MARKERS_TOPIC
from piper_collect.config.schema import SessionConfig
from piper_collect.core.kinematics import WORKING_POSE_RAD
from piper_collect.core.robot import model_joints
from piper_collect.core.session_status import SessionView
from piper_collect.nodes.convert import joint_state_msg, session_status_msg, stamp_msg, stamp_ns
from piper_collect.nodes.qos import LATCHED_QOS

FRAME = "left_base"
WIDTH_M = 0.03


class Shown:
    """A display node, what it says, and a session that the test plays to it."""

    def __init__(self, rig) -> None:
        from piper_collect.msg import SessionStatus

        base = SessionConfig()
        self.rig = rig
        self.process = rig.start("display_node", replace(base, arm=replace(base.arm, base_frame=FRAME)))
        self.joints = rig.listen(JointState, DISPLAY_JOINTS_TOPIC)
        self.arrays = rig.listen(MarkerArray, DISPLAY_MARKERS_TOPIC)
        self.arm = rig.publisher(JointState, "arm/joint_states")
        self.poses = {
            "measured": rig.publisher(PoseStamped, "arm/flange_pose"),
            "target": rig.publisher(PoseStamped, "teleop/target_pose"),
        }
        self.status = rig.publisher(SessionStatus, "session/status", LATCHED_QOS)
        self.places = 0

    def marker(self, name: str) -> Marker | None:
        """The newest marker of that name."""
        found = [m for m in (self.arrays[-1].markers if self.arrays else []) if m.ns == name]
        return found[0] if found else None

    def text(self) -> str:
        marker = self.marker("state")
        return "" if marker is None else marker.text

    def say(self, **view: object) -> None:
        now_ns = self.rig.now_ns()
        self.status.publish(session_status_msg(SessionView(**view), now_ns, now_ns))

    def move(self) -> None:
        """Both poses go on by 10 mm, the target to the other side."""
        self.places += 1
        for name, sign in (("measured", 1.0), ("target", -1.0)):
            pose = PoseStamped()
            pose.header.stamp = stamp_msg(self.rig.now_ns())
            pose.header.frame_id = FRAME
            pose.pose.position.x = sign * 0.01 * self.places
            self.poses[name].publish(pose)


@pytest.fixture(scope="module")
def shown(ros_run, tmp_path_factory):
    with rig_in(ros_run, tmp_path_factory.mktemp("display")) as rig:
        yield Shown(rig)


def test_without_a_session_it_says_so_and_draws_no_arm(shown):
    shown.rig.until(lambda: shown.text().startswith("NO SESSION"), "no session was not told")
    assert shown.joints == []
    assert shown.marker("measured") is None


def test_the_fingers_are_published_at_the_stamp_of_the_measured_joints(shown):
    sent = []

    def measure() -> None:
        sent.append(shown.rig.now_ns())
        shown.arm.publish(joint_state_msg(sent[-1], WORKING_POSE_RAD, WIDTH_M))

    shown.rig.until(lambda: shown.joints, "no joints came", meanwhile=measure)
    message = shown.joints[0]
    assert dict(zip(message.name, message.position, strict=True)) == model_joints(WORKING_POSE_RAD, WIDTH_M)
    assert stamp_ns(message.header.stamp) in sent


def test_a_message_that_does_not_name_all_joints_draws_nothing(shown):
    shown.arm.publish(JointState(name=["joint1"], position=[0.75]))
    marks = len(shown.arrays)
    shown.rig.until(lambda: len(shown.arrays) > marks + 2, "no more markers came")
    assert all(0.75 not in message.position for message in shown.joints)


def test_the_trails_are_those_of_the_measured_and_the_target_pose(shown):
    def drawn() -> bool:
        lines = [shown.marker(name) for name in ("measured", "target")]
        return all(line is not None and len(line.points) > 2 for line in lines)

    shown.rig.until(drawn, "no trails came", meanwhile=shown.move)
    measured, target = shown.marker("measured"), shown.marker("target")
    assert measured.type == target.type == Marker.LINE_STRIP
    assert {measured.header.frame_id, target.header.frame_id, shown.marker("state").header.frame_id} == {
        FRAME
    }
    assert all(point.x > 0 for point in measured.points)
    assert all(point.x < 0 for point in target.points)
    assert sorted(point.x for point in measured.points) == [point.x for point in measured.points]
    assert measured.lifetime.sec > 0  # gone with the node


def test_the_state_is_told_and_the_trail_turns_red_while_it_is_recorded(shown):
    def told(banner: str) -> bool:
        return shown.text().startswith(banner) and shown.marker("measured") is not None

    def ready() -> None:
        shown.say(state="ready")
        shown.move()

    def recording() -> None:
        start_ns = shown.rig.now_ns() - 3_725_000_000_000
        shown.say(state="recording", episode_index=4, saved=4, task="stack", start_ns=start_ns)
        shown.move()

    shown.rig.until(lambda: told("READY"), "READY was not told", meanwhile=ready)
    before = shown.marker("measured").color
    shown.rig.until(lambda: told("REC 1:02:"), "REC was not told", meanwhile=recording)
    assert shown.text().splitlines()[1:] == ["episode 4", "4 saved", "stack"]
    assert shown.marker("measured").color != before
    assert shown.marker("measured").color == shown.marker("state").color
    shown.rig.until(lambda: shown.text().startswith("NO SESSION"), "a silent session was not told")


def test_it_ends_when_it_is_told_to(shown):
    assert shown.rig.end(shown.process) == 0

"""What rviz shows of a session beside its own topics: the URDF's joints, trails, and the state in words."""

import textwrap
from dataclasses import dataclass

from geometry_msgs.msg import Point, PoseStamped
from sensor_msgs.msg import JointState
from std_msgs.msg import ColorRGBA
from visualization_msgs.msg import Marker, MarkerArray

from piper_collect.config.names import (
    DISPLAY_JOINTS_TOPIC,
    DISPLAY_MARKERS_TOPIC,
    TARGET_POSE_TOPIC,
    arm_topics,
)
from piper_collect.core.robot import model_joints
from piper_collect.core.status_line import Tone
from piper_collect.core.trail import Trail
from piper_collect.nodes.convert import joints_and_width, stamp_msg
from piper_collect.nodes.qos import LATEST_QOS, STREAM_QOS
from piper_collect.nodes.runtime import SessionNode, run_node
from piper_collect.nodes.status_listener import StatusListener

JOINTS_HZ = 50.0
MARKERS_HZ = 10.0
TRAIL_S = 15.0
TRAIL_STEP_M = 0.002
TRAIL_POINTS = 1000
MARKER_LIFE_S = 2
"""Markers of a node that has died go away by themselves."""

_STATE_AT_M = (0.0, 0.0, 0.8)
_LETTERS_M = 0.035
_LETTERS = 48
_LINE_M = {"measured": 0.004, "target": 0.002}
_COLOURS: dict[Tone, tuple[float, float, float]] = {
    "plain": (0.9, 0.9, 0.9),
    "good": (0.45, 0.85, 0.5),
    "busy": (0.95, 0.8, 0.35),
    "record": (0.95, 0.3, 0.3),
    "bad": (1.0, 0.45, 0.2),
    "ask": (0.6, 0.8, 1.0),
}
_TRAIL_COLOURS = {"measured": (0.35, 0.7, 1.0), "target": (1.0, 0.75, 0.3)}


@dataclass(slots=True, kw_only=True)
class _Followed:
    """A pose that leaves a trail."""

    frame_id: str = ""
    trail: Trail


class DisplayNode(SessionNode):
    """Listens only; a session runs the same with it and without."""

    def __init__(self) -> None:
        super().__init__("display")
        self._joints: JointState | None = None
        self._status = StatusListener(self)
        self._followed = {
            name: _Followed(trail=Trail(seconds=TRAIL_S, step_m=TRAIL_STEP_M, most=TRAIL_POINTS))
            for name in _LINE_M
        }
        self._model_joints = self.create_publisher(JointState, DISPLAY_JOINTS_TOPIC, STREAM_QOS)
        self._markers = self.create_publisher(MarkerArray, DISPLAY_MARKERS_TOPIC, STREAM_QOS)
        topics = arm_topics(self.config.arm.preset)
        self.create_subscription(JointState, topics.joint_states, self._take_joints, LATEST_QOS)
        for name, topic in (("measured", topics.flange_pose), ("target", TARGET_POSE_TOPIC)):
            followed = self._followed[name]
            self.create_subscription(
                PoseStamped, topic, lambda pose, to=followed: self._take_pose(to, pose), LATEST_QOS
            )

    def start(self) -> None:
        """Begin to publish."""
        self.create_timer(1.0 / JOINTS_HZ, self._publish_joints)
        self.create_timer(1.0 / MARKERS_HZ, self._publish_markers)

    # -- what comes in -------------------------------------------------------------------------

    def _take_joints(self, message: JointState) -> None:
        self._joints = message

    def _take_pose(self, followed: _Followed, message: PoseStamped) -> None:
        at = message.pose.position
        followed.frame_id = message.header.frame_id or self.config.arm.base_frame
        followed.trail.add(self.steady_ns(), (at.x, at.y, at.z))

    # -- what goes out -------------------------------------------------------------------------

    def _publish_joints(self) -> None:
        """The newest measured joints, once, at their own stamp; nothing while the arm is silent."""
        measured, self._joints = self._joints, None
        read = joints_and_width(measured) if measured is not None else None
        if measured is None or read is None:
            return
        joints = model_joints(*read)
        message = JointState(name=list(joints), position=list(joints.values()))
        message.header.stamp = measured.header.stamp
        self._model_joints.publish(message)

    def _publish_markers(self) -> None:
        now_ns, steady_ns = self.now_ns(), self.steady_ns()
        markers = [
            self._line(name, followed.frame_id, points, now_ns)
            for name, followed in self._followed.items()
            if len(points := followed.trail.points(steady_ns)) > 1
        ]
        self._markers.publish(MarkerArray(markers=[*markers, self._state(now_ns)]))

    def _line(self, name: str, frame_id: str, points: tuple[tuple[float, ...], ...], now_ns: int) -> Marker:
        recorded = (
            name == "measured" and (view := self._status.view) is not None and view.state == "recording"
        )
        marker = _marker(name, Marker.LINE_STRIP, frame_id, now_ns)
        marker.scale.x = _LINE_M[name]
        marker.color = _colour(_COLOURS["record"] if recorded else _TRAIL_COLOURS[name])
        marker.points = [Point(x=x, y=y, z=z) for x, y, z in points]
        return marker

    def _state(self, now_ns: int) -> Marker:
        banner, *parts = self._status.parts()
        marker = _marker("state", Marker.TEXT_VIEW_FACING, self.config.arm.base_frame, now_ns)
        marker.pose.position.x, marker.pose.position.y, marker.pose.position.z = _STATE_AT_M
        marker.scale.z = _LETTERS_M
        marker.color = _colour(_COLOURS[banner.tone])
        marker.text = "\n".join(textwrap.fill(span.text, _LETTERS) for span in (banner, *parts))
        return marker


def _marker(name: str, kind: int, frame_id: str, now_ns: int) -> Marker:
    marker = Marker(ns=name, type=kind, action=Marker.ADD)
    marker.header.stamp = stamp_msg(now_ns)
    marker.header.frame_id = frame_id
    marker.pose.orientation.w = 1.0
    marker.lifetime.sec = MARKER_LIFE_S
    return marker


def _colour(rgb: tuple[float, float, float]) -> ColorRGBA:
    red, green, blue = rgb
    return ColorRGBA(r=red, g=green, b=blue, a=1.0)


def main(arguments: list[str] | None = None) -> int:
    """Show a session until told to stop."""
    return run_node(DisplayNode, arguments)

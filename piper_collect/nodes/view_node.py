"""A running session in the Rerun viewer: it listens only, and draws no more often than one can see."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from geometry_msgs.msg import PoseStamped
from sensor_msgs.msg import JointState
from std_msgs.msg import Header

from piper_collect.config.display import viewer_robot
from piper_collect.config.names import arm_topics
from piper_collect.config.rates import TARGET_TOPIC
from piper_collect.core.trail import Trail
from piper_collect.core.types import CameraFrame
from piper_collect.errors import ImageError
from piper_collect.imaging.panel import panel_jpeg
from piper_collect.msg import TeleopTarget
from piper_collect.nodes.camera_panels import PANEL_QOS, sends_pictures, subscribe_frames
from piper_collect.nodes.convert import joints_and_width, pose7_of, stamp_ns
from piper_collect.nodes.runtime import SessionNode, run_node
from piper_collect.nodes.status_listener import StatusListener
from piper_collect.report.rerun_live import LiveDrawing
from piper_collect.report.scene import ShownPicture

DRAW_HZ = 30.0
PICTURE_HZ = 10.0
WORDS_HZ = 2.0
TRAIL_S = 15.0
TRAIL_STEP_M = 0.002
TRAIL_POINTS = 1000
PICTURE_PX, JPEG_QUALITY = 640, 85


class ViewNode(SessionNode):
    """Shows the newest of each topic; a session runs the same with it and without.

    With the parameter ``save`` it writes that file instead of starting the viewer.
    """

    def __init__(self) -> None:
        super().__init__("view", extra_parameters=("save",))
        config = self.config
        cameras = {name: camera for name, camera in config.cameras.items() if sends_pictures(camera)}
        save = self.extra["save"]
        self._drawing = LiveDrawing(
            config.session.namespace or "session",
            viewer_robot(config),
            tuple(cameras),
            Path(str(save)) if save else None,
        )
        for name in config.cameras.keys() - cameras.keys():
            self.get_logger().warning(f"{name} sends packets of a video: they are shown after the export")
        self._status = StatusListener(self)
        self._newest: dict[str, Any] = {}
        self._frames: dict[str, Callable[[], CameraFrame]] = {}
        self._faults: set[str] = set()
        self._trails = {
            kind: Trail(seconds=TRAIL_S, step_m=TRAIL_STEP_M, most=TRAIL_POINTS)
            for kind in ("measured", "target")
        }
        topics = arm_topics(config.arm.preset)
        for kind, topic in (
            (JointState, topics.joint_states),
            (PoseStamped, topics.flange_pose),
            (TeleopTarget, TARGET_TOPIC),
        ):
            keep = partial(self._newest.__setitem__, kind.__name__)
            self.create_subscription(kind, topic, keep, PANEL_QOS)
        for name, camera in cameras.items():
            subscribe_frames(self, name, camera, partial(self._frames.__setitem__, name))

    def start(self) -> None:
        """Begin to draw."""
        self.create_timer(1.0 / DRAW_HZ, self._draw)
        self.create_timer(1.0 / PICTURE_HZ, self._draw_pictures)
        self.create_timer(1.0 / WORDS_HZ, self._draw_words)

    def stop(self) -> bool:
        """Send what is left."""
        self._drawing.close()
        return True

    def _draw(self) -> None:
        """What came since the last time, at its own stamp; an unset stamp says no time, and is not drawn."""
        heard = dict(self._newest)
        self._newest.clear()
        if joints := heard.get(JointState.__name__):
            at_ns, read = stamp_ns(joints.header.stamp), joints_and_width(joints)
            if at_ns and read is not None:
                self._drawing.joints(at_ns, *read)
        if pose := heard.get(PoseStamped.__name__):
            self._draw_pose("measured", pose.header, pose7_of(pose.pose))
        if target := heard.get(TeleopTarget.__name__):
            self._draw_pose("target", target.header, pose7_of(target.flange_pose))
            if at_ns := stamp_ns(target.header.stamp):
                self._drawing.width(at_ns, "target", target.gripper_width)

    def _draw_pose(self, kind: str, header: Header, pose7: tuple[float, ...]) -> None:
        at_ns = stamp_ns(header.stamp)
        if not at_ns:
            return
        self._drawing.pose(at_ns, kind, pose7)
        trail = self._trails[kind]
        now_ns = self.steady_ns()
        trail.add(now_ns, pose7[:3])
        if len(points := trail.points(now_ns)) > 1:
            self._drawing.trail(at_ns, kind, points)

    def _draw_pictures(self) -> None:
        frames = dict(self._frames)
        self._frames.clear()
        for name, read in frames.items():
            try:
                frame = read()
                jpeg = panel_jpeg(frame, width=PICTURE_PX, quality=JPEG_QUALITY)
            except ImageError as err:
                if str(err) not in self._faults:
                    self._faults.add(str(err))
                    self.get_logger().warning(f"{name} cannot be shown: {err}")
                continue
            if frame.stamp_ns:
                self._drawing.picture(name, ShownPicture(frame.stamp_ns, jpeg, "image/jpeg"))

    def _draw_words(self) -> None:
        banner, *parts = self._status.parts()
        self._drawing.text(self.now_ns(), "\n\n".join((f"# {banner.text.strip()}", *(p.text for p in parts))))


def main(arguments: list[str] | None = None) -> int:
    """Show a session until told to stop."""
    return run_node(ViewNode, arguments)

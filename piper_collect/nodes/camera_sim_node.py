"""A simulated camera: draws the arm, writes the capture time into the picture, misbehaves on demand.

It sends raw pictures and JPEG, and H.264 where that is the camera's transport.
"""

import time
import zlib
from array import array

import numpy as np
import simplejpeg
from sensor_msgs.msg import CameraInfo, CompressedImage, Image, JointState

from piper_collect.config.names import arm_topics, camera_info_topic, raw_image_topic
from piper_collect.config.schema import VIDEO_TRANSPORTS
from piper_collect.core.kinematics import WORKING_POSE_RAD, PiperKinematics
from piper_collect.core.se3 import matrix_from_pose
from piper_collect.errors import ConfigError
from piper_collect.imaging.scene import View, draw_scene, look_at, wrist_view
from piper_collect.imaging.strip import write_strip
from piper_collect.nodes.convert import joints_and_width, stamp_msg
from piper_collect.nodes.qos import LATEST_QOS, STREAM_QOS
from piper_collect.nodes.runtime import SessionNode, run_node
from piper_collect.nodes.truth_log import TruthLog
from piper_collect.nodes.video_publisher import VideoPublisher

JPEG_QUALITY = 90
_LOOKING_AT_M = (0.2, 0.0, 0.18)
_FIXED_PLACES_M = ((1.05, 0.35, 0.55), (0.45, 1.05, 0.5), (0.9, -0.7, 0.6), (-0.7, 0.5, 0.7))


class CameraSimNode(SessionNode):
    """Publishes while somebody subscribes, as a real camera driver does."""

    def __init__(self) -> None:
        super().__init__("camera_sim", extra_parameters=("camera",))
        self._name = str(self.extra["camera"])
        cameras = self.config.cameras
        if self._name not in cameras:
            raise ConfigError("no such camera", where="parameter camera", got=self._name, valid=cameras)
        self._settings = cameras[self._name]
        self._number = list(cameras).index(self._name)
        self._frame_id = f"{self._name}_color_optical_frame"
        self._random = np.random.default_rng([self.config.sim.seed, zlib.crc32(self._name.encode())])
        self._kinematics = PiperKinematics(self.config.arm.dh_offset)
        self._joints: tuple[float, ...] = WORKING_POSE_RAD
        self._width_m = 0.0
        self._frame = 0
        base = raw_image_topic(self._name, self._settings)
        self._raw = self.create_publisher(Image, base, STREAM_QOS)
        self._jpeg = self.create_publisher(CompressedImage, f"{base}/compressed", STREAM_QOS)
        self._video: VideoPublisher | None = None
        if self._settings.transport in VIDEO_TRANSPORTS:
            self._video = VideoPublisher(self, self._name, self._settings, self.config.sim.camera_gop)
        self._info = self.create_publisher(
            CameraInfo, camera_info_topic(self._name, self._settings), STREAM_QOS
        )
        self.create_subscription(
            JointState, arm_topics(self.config.arm.preset).joint_states, self._take_joints, LATEST_QOS
        )
        self._truth: TruthLog | None = None

    def start(self) -> None:
        """Open the truth log and begin to capture."""
        self._truth = TruthLog(
            self.config.sim.truth_dir, f"frames_{self._name}", ("frame", "stamp_ns", "published")
        )
        self.create_timer(1.0 / self._settings.fps, self._capture)

    def stop(self) -> bool:
        """Close the truth log."""
        if self._truth is not None:
            self._truth.close()
        return True

    def _take_joints(self, message: JointState) -> None:
        measured = joints_and_width(message)
        if measured is not None:
            self._joints, self._width_m = measured

    def _capture(self) -> None:
        sim = self.config.sim
        if sim.camera_jitter_ms:
            time.sleep(abs(self._random.normal(0.0, sim.camera_jitter_ms)) / 1e3)
        self._frame += 1
        if sim.camera_hiccup_every and self._frame % sim.camera_hiccup_every == 0:
            time.sleep(sim.camera_hiccup_ms / 1e3)
        stamp_ns = self.now_ns()
        dropped = bool(sim.camera_drop_every) and self._frame % sim.camera_drop_every == 0
        self._truth.write(self._frame, stamp_ns, int(not dropped))
        self._publish(stamp_ns, dropped=dropped)

    def _publish(self, stamp_ns: int, *, dropped: bool) -> None:
        raw = not dropped and self._raw.get_subscription_count()
        jpeg = not dropped and self._jpeg.get_subscription_count()
        video = self._video if self._video is not None and self._video.is_wanted() else None
        info = CameraInfo()
        info.header.stamp = stamp_msg(stamp_ns)
        info.header.frame_id = self._frame_id
        if raw or jpeg or video:
            rgb, view = self._draw()
            write_strip(rgb, stamp_ns=stamp_ns, camera=self._number, frame=self._frame)
            if raw:
                self._raw.publish(self._image(info.header, rgb))
            if jpeg:
                encoded = simplejpeg.encode_jpeg(rgb, quality=JPEG_QUALITY, colorsubsampling="420")
                message = CompressedImage(header=info.header, format="rgb8; jpeg compressed bgr8")
                message.data = array("B", encoded)
                self._jpeg.publish(message)
            if video:
                video.take(info.header, rgb, dropped=dropped)
            if not dropped and self._info.get_subscription_count():
                self._info.publish(_pinhole(info, view))

    def _draw(self) -> tuple[np.ndarray, View]:
        flange = matrix_from_pose(self._kinematics.forward(self._joints))
        width, height = self._settings.width, self._settings.height
        if "wrist" in self._name:
            view = wrist_view(flange, width, height)
        else:
            place = _FIXED_PLACES_M[self._number % len(_FIXED_PLACES_M)]
            view = look_at(place, _LOOKING_AT_M, width, height)
        return draw_scene(view, self._kinematics.link_points(self._joints), flange, self._width_m), view

    def _image(self, header, rgb: np.ndarray) -> Image:
        message = Image(header=header, encoding="rgb8", height=rgb.shape[0], width=rgb.shape[1])
        message.step = 3 * rgb.shape[1]
        pixels = array("B")
        pixels.frombytes(memoryview(rgb).cast("B"))
        message.data = pixels
        return message


def _pinhole(info: CameraInfo, view: View) -> CameraInfo:
    f, cx, cy = view.focal_px, view.width / 2.0, view.height / 2.0
    info.width, info.height = view.width, view.height
    info.distortion_model = "plumb_bob"
    info.d = [0.0] * 5
    info.k = [f, 0.0, cx, 0.0, f, cy, 0.0, 0.0, 1.0]
    info.r = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]
    info.p = [f, 0.0, cx, 0.0, 0.0, f, cy, 0.0, 0.0, 0.0, 1.0, 0.0]
    return info


def main(arguments: list[str] | None = None) -> int:
    """Run one simulated camera until it is told to stop."""
    return run_node(CameraSimNode, arguments)

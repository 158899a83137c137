"""A simulated camera that sends H.264, and a recorder of it and of a simulated arm, as processes."""

from collections.abc import Iterable
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from recorder_studio import LOOK_S, READY
from ros_support import Rig, one_session

from piper_collect.bag.reader import open_bag
from piper_collect.config.schema import CameraSettings, SessionConfig
from piper_collect.config.video_transports import VIDEO_MESSAGES
from piper_collect.imaging.frames import to_rgb
from piper_collect.imaging.strip import read_strip, strip_error_ms

CAMERA = "cam_front"
SIZE = (160, 120)


def video_class(transport: str) -> type:
    package, _, name = VIDEO_MESSAGES[transport].type_name.split("/")
    return getattr(import_module(f"{package}.msg"), name)


def config_of(root: Path, transport: str, *, cameras=(CAMERA,), fps=30.0, **sim) -> SessionConfig:
    base = SessionConfig()
    width, height = SIZE
    camera = CameraSettings(transport=transport, width=width, height=height, fps=fps)
    return replace(
        base,
        session=replace(base.session, root=str(root), task="stack the cups"),
        cameras=dict.fromkeys(cameras, camera),
        recorder=replace(base.recorder, fresh_s=20.0, min_free_gb=0.0),
        sim=replace(base.sim, camera_jitter_ms=0.0, **sim),
    )


def topic_of(transport: str) -> str:
    return f"/{CAMERA}/image_raw/{transport}"


class VideoCell:
    """The nodes of ``config`` that an episode needs, and what the test hears of them."""

    def __init__(
        self, rig: Rig, config: SessionConfig, site: Path | None, *, with_camera: bool = True
    ) -> None:
        from piper_collect.msg import RecorderStatus

        from piper_collect.nodes.qos import LATCHED_QOS

        self.rig, self.config, self.site = rig, config, site
        self.transport = config.cameras[CAMERA].transport
        self.statuses = rig.listen(RecorderStatus, "recorder/status", LATCHED_QOS)
        self.heard = rig.listen(video_class(self.transport), topic_of(self.transport))
        self.camera = self.start_camera() if with_camera else None
        rig.start("arm_sim_node", config)
        rig.start("teleop_node", config)

    def start_camera(self):
        return self.rig.start("camera_sim_node", self.config, site=self.site, camera=CAMERA)

    def start_recorder(self, *, meanwhile=None) -> None:
        self.rig.start("recorder_node", self.config, site=self.site, look_s=LOOK_S)
        self.rig.until(
            lambda: self.statuses and self.statuses[-1].state == READY,
            "no episode can start",
            meanwhile=meanwhile,
        )

    def start_episode(self) -> None:
        from piper_collect.srv import StartEpisode

        answer = self.rig.call(StartEpisode, "recorder/start_episode", task="")
        assert answer.success, answer.message

    def hear(self, count: int) -> None:
        """Wait for so many packets more."""
        first = len(self.heard)
        self.rig.until(lambda: len(self.heard) >= first + count, "the camera is silent")

    def stop_episode(self) -> Path:
        from std_srvs.srv import Trigger

        answer = self.rig.call(Trigger, "recorder/stop_episode")
        assert answer.success, answer.message
        return max(one_session(Path(self.config.session.root)).glob("episode_*"))


def recorded(bag_path: Path, transport: str) -> list[object]:
    """The messages of the camera in a bag, as recorded."""
    with open_bag(bag_path) as bag:
        topic = topic_of(transport)
        return [bag.decode(topic, message.payload) for message in bag.messages([topic])]


def decodable(packets: Iterable[object], gop: int) -> list[bool]:
    """Which packets (FFMPEGPacket, whose ``pts`` counts pictures) come with all from their key frame on."""
    found: list[bool] = []
    before, whole = None, False
    for packet in packets:
        whole = packet.pts % gop == 0 or (whole and before == packet.pts - 1)
        before = packet.pts
        found.append(whole)
    return found


def strips_agree(frames: Iterable[object]) -> int:
    """Check the time in each picture against its stamp; how many there were."""
    count = 0
    for frame in frames:
        reading = read_strip(to_rgb(frame))
        assert reading is not None, f"picture {count} has no strip that can be read"
        assert abs(strip_error_ms(reading, frame.stamp_ns)) <= 1.0
        count += 1
    return count

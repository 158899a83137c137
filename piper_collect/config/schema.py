"""The session configuration: every setting of a collection session, its unit and its default.

One YAML file holds it (see ``load``); nodes receive it as ROS parameters, the bag carries it, and
the exporter reads the feature mapping from it.
"""

import re
from dataclasses import dataclass, field
from typing import Literal

from piper_collect.config.bridge import BridgeSettings
from piper_collect.config.can_settings import CanSettings, GravitySettings
from piper_collect.config.checks import NAME as _NAME
from piper_collect.config.checks import check_not_negative, check_positive
from piper_collect.config.checks import check_topic as _check_topic
from piper_collect.config.desk_settings import DeskSettings
from piper_collect.config.quest_settings import QuestSettings
from piper_collect.config.realsense import check_realsense, realsense_node
from piper_collect.core.clock_faults import ClockPolicy
from piper_collect.core.replay_settings import ReplaySettings
from piper_collect.core.types import Sampling

ArmPreset = Literal["piper_collect", "piper_ros"]
DhOffset = Literal["s_v1_6_3", "older"]
Transport = Literal["compressed", "raw", "ffmpeg", "foxglove"]
VIDEO_TRANSPORTS = ("ffmpeg", "foxglove")
"""Those that send a video (H.264), not pictures: as the plugins of image_transport are called."""
Conversion = Literal["none", "forward_kinematics"]

GREATEST_LATENCY_MS = 10_000.0
"""No device stamps further off than this; a larger number is in another unit."""

_JOINTS = ("joint1", "joint2", "joint3", "joint4", "joint5", "joint6")


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """What one collection session is.

    Attributes:
        root: Recording root; a folder a session is made in it. ``~`` is expanded.
        task: Task string of the episodes, unless the start call gives another.
        fps: Rows a second of the datasets made from this session.
        control_rate_hz: Rate of the control loop.
        namespace: ROS namespace of the rig; empty for none.
        input_device: Named in the provenance record, e.g. ``meta_quest_3``.
        dataset: Dataset that the episodes are exported to; "delete last" takes the episode out of it,
            too. ``~`` is expanded; empty for none.
    """

    root: str = "~/piper_recordings"
    task: str = ""
    fps: float = 30.0
    control_rate_hz: float = 200.0
    namespace: str = ""
    input_device: str = "simulated_quest"
    dataset: str = ""

    def __post_init__(self) -> None:
        check_positive(self, "fps", "control_rate_hz")
        if not self.root.strip():
            raise ValueError("root is empty (expected a folder)")
        if self.namespace.strip("/") and not re.fullmatch(_NAME, self.namespace.strip("/")):
            raise ValueError(f"namespace is no ROS name (got {self.namespace!r})")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSettings:
    """Which devices the session starts itself: simulated or real ones, or ``none`` when they run elsewhere.

    Attributes:
        arm: The arm: simulated, a Piper on a CAN bus (section ``can``), or an arm behind its vendor's node,
            which runs elsewhere (section ``bridge``).
        cameras: All cameras of ``cameras``; with ``realsense`` they are those of realsense2_camera: the
            launch file starts its nodes, and each is asked for its serial number and firmware.
        operator: The operator: simulated, or a person with a headset that opens our page (``quest``).
    """

    arm: Literal["sim", "can", "bridge", "none"] = "sim"
    cameras: Literal["sim", "realsense", "none"] = "sim"
    operator: Literal["sim", "quest", "none"] = "sim"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmSettings:
    """The arm and the names it speaks.

    Attributes:
        model: Named in provenance and as ``robot_type`` of the dataset.
        preset: Topic names: ours, or those of piper_ros.
        dh_offset: DH variant: ``s_v1_6_3`` for firmware S-V1.6-3 and newer, ``older`` before it.
            The two differ by 9.95 mm, so it must match the arm.
        base_frame: Frame of every pose; messages in another are refused.
        allow_empty_frame: Whether a pose without a frame_id counts as ``base_frame``.
        firmware: Firmware string, when no ArmStatus reports it; empty for unknown.
    """

    model: str = "piper"
    preset: ArmPreset = "piper_collect"
    dh_offset: DhOffset = "s_v1_6_3"
    base_frame: str = "base_link"
    allow_empty_frame: bool = False
    firmware: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImpedanceSettings:
    """Gains of the impedance controller, per joint; empty where the backend has none.

    Attributes:
        kp: Stiffness of joints 1 to 6 in N·m/rad, 0 to 500. AgileX's example has 10.
        kd: Damping of joints 1 to 6 in N·m·s/rad, 0 to 5. AgileX's example has 0.8.
        t_ff: Constant feed-forward torque of joints 1 to 6 in N·m, -8 to 8; empty for none.
        gravity_ff: Whether the torque of ``control.gravity`` is added. Without it the arm sinks until its
            springs carry it.
    """

    kp: tuple[float, ...] = ()
    kd: tuple[float, ...] = ()
    t_ff: tuple[float, ...] = ()
    gravity_ff: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlSettings:
    """The controller that turns targets into motion; bound to any policy trained on the data.

    Attributes:
        backend: ``position``: the arm's own; ``impedance``: springs with the gains below; ``simulated``.
    """

    backend: Literal["position", "impedance", "simulated"] = "position"
    impedance: ImpedanceSettings = field(default_factory=ImpedanceSettings)
    gravity: GravitySettings = field(default_factory=GravitySettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class TeleopSettings:
    """Clutch and motion limits.

    Attributes:
        hand: Which controller drives.
        scale: Metres of target a metre of hand.
        yaw_rad: Rotation about the vertical from the headset's forward to the arm's +x.
        gripper_inverted: When true a pressed trigger opens the gripper.
        stale_s: An input older than this opens the clutch and holds.
        jump_m: A hand step larger than this between two samples opens the clutch.
        jump_rad: The same for rotation.
        workspace_min_m: Lower corner of the box that the flange may be sent to, base frame.
        workspace_max_m: Upper corner.
        max_linear_m_s: Speed clamp of the target.
        max_angular_rad_s: Angular speed clamp of the target.
        max_gripper_m_s: Speed clamp of the gripper width.
        joint_speed_scale: Fraction of the arm's joint speed limits that may be commanded.
        home_speed_rad_s: Fastest joint on the way home.
        max_deviation_rad: How far a joint may stay behind its command; beyond it the arm is held where it is.
    """

    hand: Literal["right", "left"] = "right"
    scale: float = 1.0
    yaw_rad: float = 0.0
    gripper_inverted: bool = False
    stale_s: float = 0.5
    jump_m: float = 0.05
    jump_rad: float = 0.61
    workspace_min_m: tuple[float, float, float] = (0.05, -0.45, 0.02)
    workspace_max_m: tuple[float, float, float] = (0.60, 0.45, 0.65)
    max_linear_m_s: float = 0.5
    max_angular_rad_s: float = 2.0
    max_gripper_m_s: float = 0.2
    joint_speed_scale: float = 0.6
    home_speed_rad_s: float = 0.5
    max_deviation_rad: float = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class CameraSettings:
    """One camera.

    Attributes:
        topic: Image topic without transport suffix, e.g. ``cam_front/image_raw``; empty means
            ``<name>/image_raw``.
        info_topic: CameraInfo topic; empty means ``camera_info`` beside the image topic.
        transport: Which transport is recorded: JPEG ``compressed``, ``raw``, or H.264 by ``ffmpeg``
            (ffmpeg_image_transport) or ``foxglove`` (foxglove_compressed_video_transport).
        width: Columns in px.
        height: Rows in px.
        fps: Nominal rate.
        serial: Device serial number, pinned: no episode starts with another device. Empty for unknown.
        aligned_depth: Whether the depth image of a RealSense, aligned to colour, is recorded too, as it is.
        depth_topic: Topic of its depth images (16UC1 in mm or 32FC1 in m, not compressed), aligned to it:
            recorded too. Empty for none, or with ``aligned_depth`` for the one that a RealSense has.
        latency_ms: Exposure to stamp: taken off every stamp, once; below 0 where the stamp comes first.
        clock: What is done where the clock that stamps it is wrong (docs/clocks.md): ``refuse`` the episode,
            ``flag`` it, or ``correct`` the stamps by the measured offset, which is recorded.
        max_age_ms: A row whose newest frame is older than this is a gap.
        required: Whether recording needs it.
    """

    topic: str = ""
    info_topic: str = ""
    transport: Transport = "compressed"
    width: int = 640
    height: int = 480
    fps: float = 30.0
    serial: str = ""
    aligned_depth: bool = False
    depth_topic: str = ""
    latency_ms: float = 0.0
    clock: ClockPolicy = "flag"
    max_age_ms: float = 100.0
    required: bool = True

    def __post_init__(self) -> None:
        check_positive(self, "fps", "max_age_ms")
        _check_latency(self.latency_ms)
        for setting in ("topic", "info_topic", "depth_topic"):
            if getattr(self, setting):
                _check_topic(setting, getattr(self, setting))
        if self.aligned_depth:
            realsense_node(self.topic)
        if self.width < 2 or self.height < 2:
            raise ValueError(f"width and height must be at least 2 px (got {self.width} and {self.height})")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSettings:
    """Which topic and field feeds one source of the dataset.

    Attributes:
        topic: Topic, relative to the namespace unless it starts with ``/``.
        field: Field of the message: ``position`` of a JointState, ``pose`` of a PoseStamped,
            ``flange_pose`` or ``gripper_width`` of a TeleopTarget, or any dotted path to numbers.
        select: Names of joints to take from a JointState, in this order.
        unit: Unit as the topic has it; converted to SI.
        convert: ``forward_kinematics`` turns six joints into the flange pose (pose7).
        sampling: ``hold`` (newest not after the row), ``nearest`` or ``linear`` (slerp for poses).
        max_age_ms: No sample further from the row is used.
        latency_ms: What the stamp comes late: taken off every stamp, once; below 0 where it comes early.
        clock: What is done where the clock that stamps it is wrong, as of a camera.
        required: Whether recording and export need it.
    """

    topic: str
    field: str
    select: tuple[str, ...] = ()
    unit: Literal["rad", "deg", "m", "mm", "um", "none"] = "none"
    convert: Conversion = "none"
    sampling: Sampling = "hold"
    max_age_ms: float = 50.0
    latency_ms: float = 0.0
    clock: ClockPolicy = "flag"
    required: bool = True

    def __post_init__(self) -> None:
        check_positive(self, "max_age_ms")
        _check_latency(self.latency_ms)
        _check_topic("topic", self.topic)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecorderSettings:
    """The recorder.

    Attributes:
        storage: What the bags are stored in.
        storage_backend: What writes them: ``rosbag2_py`` of a ROS machine, or ``pip``, this package's own
            writer; ``auto`` is the former wherever it can write the storage.
        extra_topics: Recorded too when somebody publishes them; never required.
        fresh_s: A required topic must have had a message within this time for a start; an episode in which
            one was silent for longer is marked incomplete.
        drain_s: How long after the stop late messages stamped before it are still taken; ten times as long
            while they keep coming.
        min_free_gb: No episode starts with less free disk.
        stop_free_gb: With less free disk a running episode is stopped and saved, marked incomplete, while
            there is room to save it.
        max_lost: An episode that lost more messages of a topic than this is marked incomplete.
        clock_step: What is done where this machine's clock was set during an episode (docs/clocks.md):
            ``refuse`` marks it incomplete, ``flag`` only tells it, ``correct`` takes the step back at export.
    """

    storage: Literal["mcap", "sqlite3"] = "mcap"
    storage_backend: Literal["auto", "rosbag2_py", "pip"] = "auto"
    extra_topics: tuple[str, ...] = ("arm/status", "quest/input")
    fresh_s: float = 1.0
    drain_s: float = 0.3
    min_free_gb: float = 1.0
    stop_free_gb: float = 0.1
    max_lost: int = 0
    clock_step: ClockPolicy = "refuse"

    def __post_init__(self) -> None:
        check_positive(self, "fresh_s")
        check_not_negative(self, "drain_s", "min_free_gb", "stop_free_gb", "max_lost")
        for topic in self.extra_topics:
            _check_topic("extra_topics", topic)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimSettings:
    """The simulated devices.

    Attributes:
        seed: Makes the operator's motion and the cameras' faults repeatable.
        lag_s: Time constant of the arm.
        firmware: What the simulated arm reports.
        episode_s: Length of each episode that the operator drives.
        outcomes: What he does with each: ``save`` or ``discard``.
        camera_jitter_ms: Standard deviation of the capture time about the nominal tick.
        camera_hiccup_every: Every so many frames one comes ``camera_hiccup_ms`` late; 0 for never.
        camera_hiccup_ms: How late.
        camera_drop_every: Every so many frames one is captured and not published; 0 for never. Of a video
            it is the packet that is missing: the frames up to the next key frame refer to it.
        camera_gop: Of a camera with ``transport: ffmpeg`` or ``foxglove``: frames from one key frame to the
            next. With 1 each frame is one, so that a dataset's video may begin with any.
        truth_dir: Folder for the truth logs (joints, frames); empty for none.
    """

    seed: int = 1
    lag_s: float = 0.05
    firmware: str = "S-V1.8-5"
    episode_s: tuple[float, ...] = (4.0, 4.0, 4.0)
    outcomes: tuple[Literal["save", "discard"], ...] = ("save", "discard", "save")
    camera_jitter_ms: float = 2.0
    camera_hiccup_every: int = 0
    camera_hiccup_ms: float = 60.0
    camera_drop_every: int = 0
    camera_gop: int = 1
    truth_dir: str = ""

    def __post_init__(self) -> None:
        if len(self.episode_s) != len(self.outcomes):
            raise ValueError(f"episode_s has {len(self.episode_s)} values and outcomes {len(self.outcomes)}")
        check_positive(self, "camera_gop")


def _check_latency(latency_ms: float) -> None:
    if not abs(latency_ms) <= GREATEST_LATENCY_MS:
        bounds = f"{-GREATEST_LATENCY_MS:g} to {GREATEST_LATENCY_MS:g}"
        raise ValueError(f"latency_ms must be from {bounds} (got {latency_ms:g}); is it in milliseconds?")


def _default_cameras() -> dict[str, CameraSettings]:
    return {"cam_front": CameraSettings(), "cam_wrist": CameraSettings()}


def _default_sources() -> dict[str, SourceSettings]:
    return {
        "arm_joint": SourceSettings(topic="arm/joint_states", field="position", select=_JOINTS, unit="rad"),
        "arm_eef": SourceSettings(topic="arm/flange_pose", field="pose", unit="m"),
        "gripper": SourceSettings(topic="arm/joint_states", field="position", select=("gripper",), unit="m"),
        "target_eef": SourceSettings(topic="teleop/target", field="flange_pose", unit="m"),
        "target_gripper": SourceSettings(topic="teleop/target", field="gripper_width", unit="m"),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionConfig:
    """The whole configuration of a collection session."""

    session: SessionSettings = field(default_factory=SessionSettings)
    devices: DeviceSettings = field(default_factory=DeviceSettings)
    arm: ArmSettings = field(default_factory=ArmSettings)
    can: CanSettings = field(default_factory=CanSettings)
    bridge: BridgeSettings = field(default_factory=BridgeSettings)
    control: ControlSettings = field(default_factory=ControlSettings)
    teleop: TeleopSettings = field(default_factory=TeleopSettings)
    replay: ReplaySettings = field(default_factory=ReplaySettings)
    quest: QuestSettings = field(default_factory=QuestSettings)
    desk: DeskSettings = field(default_factory=DeskSettings)
    cameras: dict[str, CameraSettings] = field(default_factory=_default_cameras)
    sources: dict[str, SourceSettings] = field(default_factory=_default_sources)
    recorder: RecorderSettings = field(default_factory=RecorderSettings)
    sim: SimSettings = field(default_factory=SimSettings)

    def __post_init__(self) -> None:
        if self.devices.arm == "bridge" and self.arm.preset != "piper_collect":
            raise ValueError(
                f"devices.arm: bridge needs arm.preset: piper_collect (got {self.arm.preset}): with the"
                " vendor's names, commands would go past the bridge and what it checks"
            )
        if self.devices.cameras == "realsense":
            check_realsense(self.cameras)

"""Topic names: resolution against the namespace, image transports, and the arm's presets."""

from dataclasses import dataclass

from piper_collect.config.realsense import ALIGNED_DEPTH_TOPIC, realsense_node
from piper_collect.config.schema import ArmPreset, CameraSettings, SessionConfig
from piper_collect.core.clock_faults import ClockPolicy
from piper_collect.core.operator_actions import Action
from piper_collect.errors import ConfigError

ARM_STATUS_TOPIC = "arm/status"
QUEST_INPUT_TOPIC = "quest/input"
RECORDER_STATUS_TOPIC = "recorder/status"
TARGET_POSE_TOPIC = "teleop/target_pose"

DISPLAY_JOINTS_TOPIC = "display/joint_states"
"""JointState of every moving joint of the URDF, the fingers too: what robot_state_publisher reads."""

DISPLAY_MARKERS_TOPIC = "display/markers"
ROBOT_DESCRIPTION_TOPIC = "robot_description"

SESSION_SERVICES = {
    Action.START: "session/start",
    Action.STOP: "session/stop",
    Action.DISCARD: "session/discard",
    Action.DISCARD_OR_DELETE: "session/discard_or_delete_last",
    Action.HOME: "session/home",
}
"""What keys, pages and programs call; relative names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmTopics:
    """Relative topic names of an arm.

    Attributes:
        joint_states: Measured JointState.
        flange_pose: Measured PoseStamped.
        joint_command: Commanded JointState that the arm listens to.
        command_echo: JointState of what the arm last accepted; empty where the preset has none.
        joint_states_twin: A second name for the measured JointState; empty where there is none.
        bare_pose: Measured Pose without a header; empty where there is none.
    """

    joint_states: str
    flange_pose: str
    joint_command: str
    command_echo: str = ""
    joint_states_twin: str = ""
    bare_pose: str = ""


_ARM_TOPICS: dict[str, ArmTopics] = {
    "piper_collect": ArmTopics(
        joint_states="arm/joint_states", flange_pose="arm/flange_pose", joint_command="arm/joint_command"
    ),
    # piper_ros, node piper_ctrl_single_node
    "piper_ros": ArmTopics(
        joint_states="joint_states_single",
        flange_pose="end_pose_stamped",
        joint_command="joint_ctrl_single",
        command_echo="joint_ctrl",
        joint_states_twin="joint_states_feedback",
        bare_pose="end_pose",
    ),
}


def arm_topics(preset: ArmPreset) -> ArmTopics:
    """The topic names of ``preset``."""
    return _ARM_TOPICS[preset]


def resolve_topic(topic: str, namespace: str = "") -> str:
    """The absolute name of ``topic``: as it is when it starts with ``/``, else in the namespace."""
    if not topic:
        raise ConfigError("a topic name is empty", expected="a name such as arm/joint_states")
    if topic.startswith("/"):
        return topic
    space = namespace.strip("/")
    return f"/{space}/{topic}" if space else f"/{topic}"


def raw_image_topic(name: str, camera: CameraSettings) -> str:
    """Relative or absolute name of a camera's images without a transport."""
    return camera.topic or f"{name}/image_raw"


def image_topic(name: str, camera: CameraSettings) -> str:
    """Relative or absolute name of the topic that is recorded for a camera."""
    base = raw_image_topic(name, camera)
    return base if camera.transport == "raw" else f"{base}/{camera.transport}"


def camera_info_topic(name: str, camera: CameraSettings) -> str:
    """Name of the camera's CameraInfo topic: beside the image topic unless it is set."""
    base = raw_image_topic(name, camera)
    return camera.info_topic or f"{base.rpartition('/')[0]}/camera_info"


def depth_topic(camera: CameraSettings) -> str:
    """Relative or absolute name of the topic of a camera's depth images; empty where none are wanted."""
    if camera.depth_topic or not camera.aligned_depth:
        return camera.depth_topic
    return realsense_node(camera.topic) + ALIGNED_DEPTH_TOPIC


def recorded_topics(config: SessionConfig) -> dict[str, bool]:
    """Absolute name of every topic to record → whether an episode needs it, in a stable order."""
    wanted: dict[str, bool] = {}

    def add(topic: str, required: bool) -> None:
        name = resolve_topic(topic, config.session.namespace)
        wanted[name] = wanted.get(name, False) or required

    for source in config.sources.values():
        add(source.topic, source.required)
    for name, camera in config.cameras.items():
        add(image_topic(name, camera), camera.required)
        add(camera_info_topic(name, camera), False)
        if depth_topic(camera):
            add(depth_topic(camera), False)
    for topic in config.recorder.extra_topics:
        add(topic, False)
    return wanted


def clock_policies(config: SessionConfig) -> dict[str, ClockPolicy]:
    """Absolute name of every topic of a source or camera → the strictest of what they say of its clock."""
    policies: dict[str, ClockPolicy] = {}
    said = [(source.topic, source.clock) for source in config.sources.values()]
    said += [(image_topic(name, camera), camera.clock) for name, camera in config.cameras.items()]
    for topic, policy in said:
        name = resolve_topic(topic, config.session.namespace)
        policies[name] = "refuse" if "refuse" in (policy, policies.get(name)) else policy
    return policies


def camera_periods_ns(config: SessionConfig) -> dict[str, int]:
    """Absolute name of every camera's image topic → its nominal time from picture to picture."""
    space = config.session.namespace
    return {
        resolve_topic(image_topic(name, camera), space): round(1e9 / camera.fps)
        for name, camera in config.cameras.items()
    }

"""Topic names: resolution against the namespace, image transports, and the arm's presets."""

from dataclasses import dataclass

from piper_collect.config.schema import ArmPreset, CameraSettings, SessionConfig
from piper_collect.errors import ConfigError


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


def image_topic(name: str, camera: CameraSettings) -> str:
    """Relative or absolute name of the topic that is recorded for a camera."""
    base = camera.topic or f"{name}/image_raw"
    return f"{base}/compressed" if camera.transport == "compressed" else base


def camera_info_topic(name: str, camera: CameraSettings) -> str:
    """Name of the camera's CameraInfo topic: beside the image topic unless it is set."""
    base = camera.topic or f"{name}/image_raw"
    return camera.info_topic or f"{base.rpartition('/')[0]}/camera_info"


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
    for topic in config.recorder.extra_topics:
        add(topic, False)
    return wanted

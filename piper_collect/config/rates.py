"""At what rate topics should come, where the configuration knows it."""

from piper_collect.config.names import arm_topics, camera_info_topic, depth_topic, image_topic, resolve_topic
from piper_collect.config.schema import SessionConfig

TARGET_TOPIC = "teleop/target"


def expected_rates(config: SessionConfig) -> dict[str, float]:
    """Absolute topic name → messages a second; topics whose rate others choose are left out."""
    control_hz = config.session.control_rate_hz
    rates = {TARGET_TOPIC: control_hz}
    if config.devices.arm in ("sim", "can"):
        arm = arm_topics(config.arm.preset)
        rates |= {arm.joint_states: control_hz, arm.flange_pose: control_hz}
    for name, camera in config.cameras.items():
        rates[image_topic(name, camera)] = rates[camera_info_topic(name, camera)] = camera.fps
        if depth_topic(camera):
            rates[depth_topic(camera)] = camera.fps
    return {resolve_topic(topic, config.session.namespace): rate for topic, rate in rates.items()}

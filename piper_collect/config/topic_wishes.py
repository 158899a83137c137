"""What a session wants of each topic, and who publishes it: for a look before the session."""

from collections.abc import Iterator
from dataclasses import replace

from piper_collect.config.bridge import vendor_names
from piper_collect.config.drivers import driver_nodes
from piper_collect.config.names import (
    ARM_STATUS_TOPIC,
    QUEST_INPUT_TOPIC,
    arm_topics,
    camera_info_topic,
    image_topic,
    raw_image_topic,
    recorded_topics,
    resolve_topic,
)
from piper_collect.config.schema import SessionConfig
from piper_collect.core.qos_match import Qos
from piper_collect.core.topic_look import Origin, TopicWish

_RELIABLE = Qos()
_ARM_NODES = {"sim": "arm_sim_node", "can": "arm_can_node", "bridge": "arm_bridge_node"}
_OPERATOR_NODES = {"sim": "operator_sim_node", "quest": "quest_node"}


def topic_wishes(config: SessionConfig) -> tuple[TopicWish, ...]:
    """A wish for each topic that is recorded, then those that the arm bridge listens to."""
    space = config.session.namespace
    recorded = []
    for topic, required in recorded_topics(config).items():
        wish = TopicWish(topic=topic, feeds=(), required=required)
        wish = _with_origin(_with_camera(_with_sources(wish, config), config), config)
        readers = {
            node: _RELIABLE for node, name in _own_readers(config) if resolve_topic(name, space) == topic
        }
        recorded.append(replace(wish, readers=readers))
    return (*recorded, *_vendor_wishes(config))


def vendor_topics(config: SessionConfig) -> tuple[str, ...]:
    """Absolute names of the topics of the vendor's node that the arm bridge listens to."""
    return tuple(wish.topic for wish in _vendor_wishes(config))


def _with_sources(wish: TopicWish, config: SessionConfig) -> TopicWish:
    for key, source in config.sources.items():
        if resolve_topic(source.topic, config.session.namespace) == wish.topic:
            age_ms = source.max_age_ms if wish.max_age_ms is None else min(wish.max_age_ms, source.max_age_ms)
            feeds = (*wish.feeds, f"sources.{key}")
            wish = replace(wish, feeds=feeds, max_age_ms=age_ms, rows_hz=config.session.fps)
    return wish


def _with_camera(wish: TopicWish, config: SessionConfig) -> TopicWish:
    for name, camera in config.cameras.items():
        if resolve_topic(image_topic(name, camera), config.session.namespace) == wish.topic:
            return replace(
                wish,
                feeds=(*wish.feeds, f"cameras.{name}"),
                max_age_ms=camera.max_age_ms,
                camera_hz=camera.fps,
                camera_size=(camera.width, camera.height),
            )
    return wish


def _with_origin(wish: TopicWish, config: SessionConfig) -> TopicWish:
    for origin, publisher, topics in _own_topics(config):
        if wish.topic in {resolve_topic(topic, config.session.namespace) for topic in topics if topic}:
            return replace(wish, origin=origin, publisher=publisher)
    if config.devices.cameras == "realsense":
        for driver in driver_nodes(config):
            if driver.name and wish.topic.startswith(f"{driver.namespace}/{driver.name}/"):
                return replace(
                    wish, origin="driver", publisher=driver.what, start=driver.start, starts_with_launch=True
                )
    return wish


def _own_topics(config: SessionConfig) -> Iterator[tuple[Origin, str, tuple[str, ...]]]:
    """Topics that nodes of the session publish: whether they are simulated, the node, the names."""
    arm = config.devices.arm
    names = arm_topics("piper_collect" if arm == "bridge" else config.arm.preset)
    measured = (names.joint_states, names.flange_pose, ARM_STATUS_TOPIC)
    if arm != "none":
        more = (names.command_echo, names.joint_states_twin, names.bare_pose) if arm == "sim" else ()
        yield "simulated" if arm == "sim" else "session", _ARM_NODES[arm], (*measured, *more)
    yield "session", "teleop_node", ("teleop/target", "teleop/target_pose", names.joint_command)
    operator = config.devices.operator
    if operator != "none":
        origin: Origin = "simulated" if operator == "sim" else "session"
        yield origin, _OPERATOR_NODES[operator], (QUEST_INPUT_TOPIC,)
    if config.devices.cameras == "sim":
        for name, camera in config.cameras.items():
            base = raw_image_topic(name, camera)
            pictures = (base, f"{base}/compressed", image_topic(name, camera))
            topics = (*pictures, camera_info_topic(name, camera))
            yield "simulated", f"camera_sim_node of {name}", topics


def _own_readers(config: SessionConfig) -> Iterator[tuple[str, str]]:
    """Nodes of the session that ask for a reliable publisher, whoever it is, and the topics."""
    yield "teleop_node", arm_topics(config.arm.preset).joint_states
    yield "teleop_node", QUEST_INPUT_TOPIC
    yield "session_node", ARM_STATUS_TOPIC


def _vendor_wishes(config: SessionConfig) -> Iterator[TopicWish]:
    if config.devices.arm != "bridge":
        return
    names, space = vendor_names(config.bridge), config.session.namespace
    (vendor,) = (driver for driver in driver_nodes(config) if not driver.name)
    unstamped = config.bridge.flange_pose == "vendor_unstamped"
    pose = names.end_pose_unstamped if unstamped else names.end_pose
    wish = TopicWish(
        topic="",
        feeds=(),
        required=True,
        origin="driver",
        publisher=vendor.what,
        start=vendor.start,
        readers={"arm_bridge_node": _RELIABLE},
        repeats=True,
    )
    yield replace(
        wish,
        topic=resolve_topic(names.joint_states, space),
        feeds=("bridge.joint_states",),
        max_age_ms=config.bridge.silence_s * 1e3,
        rows_hz=config.session.fps,
    )
    from_vendor = config.bridge.flange_pose != "kinematics"
    yield replace(
        wish,
        topic=resolve_topic(pose, space),
        feeds=("bridge.end_pose",),
        required=from_vendor,
        bare=unstamped,
    )
    yield replace(
        wish,
        topic=resolve_topic(names.arm_status, space),
        feeds=("bridge.arm_status",),
        required=False,
        bare=True,
    )

"""What shows a session in rviz: the arm's URDF and rviz's own file, made to fit the session."""

import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import yaml

from piper_collect.config.graph import NodeSpec
from piper_collect.config.names import (
    DISPLAY_MARKERS_TOPIC,
    ROBOT_DESCRIPTION_TOPIC,
    TARGET_POSE_TOPIC,
    arm_topics,
    raw_image_topic,
    resolve_topic,
)
from piper_collect.config.schema import SessionConfig
from piper_collect.config.share import share_file
from piper_collect.core.robot import ROOT_LINK, robot_description

DISPLAY_NODE = NodeSpec(executable="display_node", name="display")

_PANELS = "QMainWindow State"
IMAGE = "rviz_default_plugins/Image"
MEASURED, TARGET = "Measured pose", "Target pose"
ROBOT, MARKERS = "Robot", "Trails and state"
"""Names of the displays in ``rviz/collect.rviz``; a camera's display has the camera's name."""


def session_robot(config: SessionConfig) -> str:
    """The URDF of the session's arm: zeros as ``arm.dh_offset`` says, the root named ``arm.base_frame``."""
    text = share_file("urdf", "piper.urdf").read_text(encoding="utf-8")
    return robot_description(text, config.arm.dh_offset, config.arm.base_frame)


def viewer_robot(config: SessionConfig) -> str:
    """The URDF of the session's arm for a viewer of its own world: the root stays ``base_link``."""
    return session_robot(replace(config, arm=replace(config.arm, base_frame=ROOT_LINK)))


def session_rviz(config: SessionConfig) -> str:
    """``rviz/collect.rviz`` with the topics, cameras and base frame of a session."""
    text = share_file("rviz", "collect.rviz").read_text(encoding="utf-8")
    content = yaml.safe_load(text)
    manager = content["Visualization Manager"]
    manager["Global Options"]["Fixed Frame"] = config.arm.base_frame
    displays = manager["Displays"]
    topics = display_topics(config)
    for display in displays:
        if display["Name"] in topics:
            _topic_block(display)["Value"] = topics[display["Name"]]
    images = [display for display in displays if display["Class"] == IMAGE]
    manager["Displays"] = [d for d in displays if d not in images] + _camera_displays(config, images[0])
    geometry = content["Window Geometry"]
    geometry[_PANELS] = _renamed(geometry[_PANELS], [image["Name"] for image in images], list(config.cameras))
    return str(yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=1000))


def display_topics(config: SessionConfig) -> dict[str, str]:
    """Name of each display that has a topic → the session's absolute topic; cameras by their raw images."""
    relative = {
        ROBOT: ROBOT_DESCRIPTION_TOPIC,
        MEASURED: arm_topics(config.arm.preset).flange_pose,
        TARGET: TARGET_POSE_TOPIC,
        MARKERS: DISPLAY_MARKERS_TOPIC,
        **{name: raw_image_topic(name, camera) for name, camera in config.cameras.items()},
    }
    return {name: resolve_topic(topic, config.session.namespace) for name, topic in relative.items()}


def _topic_block(display: Mapping[str, Any]) -> dict[str, Any]:
    block: dict[str, Any] = display.get("Description Topic") or display["Topic"]
    return block


def _camera_displays(config: SessionConfig, template: Mapping[str, Any]) -> list[dict[str, Any]]:
    topics = display_topics(config)
    made = []
    for name in config.cameras:
        display = {**deepcopy(dict(template)), "Name": name}
        display["Topic"]["Value"] = topics[name]
        made.append(display)
    return made


def _renamed(state: str, before: Sequence[str], after: Sequence[str]) -> str:
    """Qt's layout of the panels (QMainWindow::saveState, hexadecimal) with other names, as far as they go."""
    new = {_panel(old): _panel(name) for old, name in zip(before, after, strict=False)}
    return re.sub("|".join(new) or "$^", lambda found: new[found[0]], state)


def _panel(name: str) -> str:
    """A panel's name as QDataStream writes a QString: length in bytes, then UTF-16."""
    text = name.encode("utf-16-be")
    return f"{len(text):08x}{text.hex()}"

"""Whether another session runs where this one is to: two of them would mix their samples and move one arm."""

import os
import time

from rclpy.node import Node
from rclpy.topic_endpoint_info import TopicEndpointInfo

from piper_collect.errors import ConfigError, SessionError
from piper_collect.nodes import signals

LOOK_S = 1.5
"""Who is there answers a newcomer within a fraction of this."""

_POLL_S = 0.05

_UNNAMED = "_NODE_NAME_UNKNOWN_"
"""What rmw says of a publisher that was discovered before its node (``rmw_dds_common/graph_cache.cpp``)."""


def refuse_company(node: Node, topic: str, look_s: float = LOOK_S) -> None:
    """Look for others that publish what only ``node`` should; who came first stays, since it looks no more.

    Args:
        node: A node that publishes ``topic``, and nothing on it yet.
        topic: Relative name of the topic.
        look_s: How long to look.

    Raises:
        SessionError: Somebody else publishes it; names the topic and who.
    """
    name = node.resolve_topic_name(topic)
    until_s = time.monotonic() + look_s
    while not signals.stop_asked():
        publishers = node.get_publishers_info_by_topic(name)
        late = time.monotonic() >= until_s
        if len(publishers) > 1 and (late or all(p.node_name != _UNNAMED for p in publishers)):
            raise SessionError(
                f"another session is running: {_others(node, publishers)} publishes this topic",
                where=name,
                hint="end it first, or give this one its own ROS_DOMAIN_ID"
                f" (both have {os.environ.get('ROS_DOMAIN_ID', '0')}) or session.namespace",
            )
        if late:
            return
        time.sleep(_POLL_S)


def several(node: Node, topic: str) -> str:
    """Why what comes in on ``topic`` is not followed: several nodes send it. Empty where one does, or none.

    Cheap enough for every message, so that not one of a second sender is followed once it is known.
    """
    if node.count_publishers(topic) < 2:
        return ""
    name = node.resolve_topic_name(topic)
    senders = ", ".join(sorted(map(full_name, node.get_publishers_info_by_topic(name))))
    return f"several nodes send {name} ({senders}): none is followed until one is left"


def look_time_s(given: object) -> float:
    """How long to look, by a node's parameter ``look_s``; the usual time where it is not given.

    Raises:
        ConfigError: It is no such time.
    """
    if given == "":
        return LOOK_S
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not 0.0 <= given <= 60.0:
        raise ConfigError("not a usable time", where="parameter look_s", expected="0 to 60 s", got=given)
    return float(given)


def _others(node: Node, publishers: list[TopicEndpointInfo]) -> str:
    """Who else publishes, by name as far as names are known by now."""
    names = sorted(
        "a node without a name yet" if p.node_name == _UNNAMED else full_name(p) for p in publishers
    )
    own = node.get_fully_qualified_name()
    if own in names:
        names.remove(own)
    return ", ".join(names)


def full_name(publisher: TopicEndpointInfo) -> str:
    """Name of the node that publishes, with its namespace."""
    return f"{publisher.node_namespace.rstrip('/')}/{publisher.node_name}"

"""Raw subscriptions to topics that may not be there yet, with the QoS that their publishers offer."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path

from ament_index_python.packages import PackageNotFoundError, get_package_share_directory
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.subscription import Subscription
from rclpy.topic_endpoint_info import TopicEndpointInfo

from piper_collect.bag.definitions import Definitions
from piper_collect.bag.storage import TopicInfo
from piper_collect.config.share import share_dir
from piper_collect.core.topics import TopicMonitor
from piper_collect.errors import BagError
from piper_collect.nodes.qos import matching_qos, offered_profile

Receiver = Callable[[TopicMonitor, bytes, int], None]


class RawSubscriptions:
    """Subscribes to each wanted topic as soon as somebody publishes it, and again when its QoS changes.

    Args:
        node: The node that owns the subscriptions.
        wanted: Absolute topic name → whether an episode needs it.
        receive: Called with the topic's monitor, the serialized message and its receive time in ns.
    """

    def __init__(self, node: Node, wanted: Mapping[str, bool], receive: Receiver) -> None:
        self.monitors = {name: TopicMonitor(name=name, required=needed) for name, needed in wanted.items()}
        self.topics: dict[str, TopicInfo] = {}
        self.latched: dict[str, bytes] = {}
        self._node = node
        self._receive = receive
        self._subscriptions: dict[str, tuple[Subscription, str, QoSProfile]] = {}
        self._definitions = Definitions()
        self._definitions.register_msgs(share_dir() / "msg")

    def discover(self) -> None:
        """Look at who publishes what now; cheap enough for twice a second."""
        for name, monitor in self.monitors.items():
            publishers = self._node.get_publishers_info_by_topic(name)
            monitor.publishers = len(publishers)
            if not publishers:
                continue
            types = sorted({publisher.topic_type for publisher in publishers})
            if len(types) > 1:
                monitor.fault = f"published with different types: {', '.join(types)}"
                continue
            qos = matching_qos(publishers)
            current = self._subscriptions.get(name)
            if current is None or current[1:] != (types[0], qos):
                self._subscribe(monitor, types[0], qos)
            if name in self._subscriptions:
                self.topics[name] = self._topic_info(name, types[0], publishers)

    def topic(self, name: str) -> TopicInfo:
        """What a bag needs to know of a subscribed topic."""
        return self.topics[name]

    def _subscribe(self, monitor: TopicMonitor, type_name: str, qos: QoSProfile) -> None:
        monitor.type, monitor.fault = type_name, ""
        try:
            message_class = _message_class(type_name)
            self._learn(type_name)
            codec = self._definitions.codec(type_name)
        except (ImportError, AttributeError, BagError) as err:
            monitor.fault = f"type {type_name} is not installed here: {err}"
            return
        if monitor.name in self._subscriptions:
            self._node.destroy_subscription(self._subscriptions.pop(monitor.name)[0])
        keeps_last = qos.durability == DurabilityPolicy.TRANSIENT_LOCAL

        def received(payload: bytes, info: Mapping[str, int]) -> None:
            receive_ns = info["received_timestamp"]
            monitor.receive(
                receive_ns=receive_ns,
                stamp_ns=codec.header_stamp_ns(payload),
                sequence=info.get("publication_sequence_number") or 0,
            )
            if keeps_last:
                self.latched[monitor.name] = payload
            self._receive(monitor, payload, receive_ns)

        subscription = self._node.create_subscription(message_class, monitor.name, received, qos, raw=True)
        self._subscriptions[monitor.name] = (subscription, type_name, qos)

    def _learn(self, type_name: str) -> None:
        package = type_name.split("/")[0]
        if self._definitions.knows(type_name):
            return
        try:
            share = get_package_share_directory(package)
        except PackageNotFoundError as err:
            raise BagError("no definition of this message type", where=type_name) from err
        self._definitions.register_msgs(Path(share) / "msg", package)

    def _topic_info(self, name: str, type_name: str, publishers: Sequence[TopicEndpointInfo]) -> TopicInfo:
        return TopicInfo(
            name=name,
            type=type_name,
            qos=tuple(offered_profile(publisher) for publisher in publishers),
            type_hash=self._definitions.type_hash(type_name),
            message_definition=self._definitions.definition(type_name),
        )


def _message_class(type_name: str) -> type:
    package, kind, name = type_name.split("/")
    return getattr(import_module(f"{package}.{kind}"), name)

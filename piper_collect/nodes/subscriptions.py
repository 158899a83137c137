"""Raw subscriptions to topics that may not be there yet, with the QoS that their publishers offer."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from time import monotonic_ns, time_ns

from ament_index_python.packages import PackageNotFoundError, get_package_share_directory
from rclpy._rclpy_pybind11 import RCLError
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.subscription import Subscription
from rclpy.topic_endpoint_info import TopicEndpointInfo

from piper_collect.bag.definitions import Codec, Definitions
from piper_collect.bag.lead_in import EarlyMessage, LeadIn
from piper_collect.bag.live_pictures import LivePictures
from piper_collect.bag.pictures import is_video
from piper_collect.bag.source_check import IMAGE_TYPES, SourceCheck
from piper_collect.bag.storage import TopicInfo
from piper_collect.config.names import camera_periods_ns, clock_policies, recorded_topics
from piper_collect.config.schema import SessionConfig
from piper_collect.config.share import share_dir
from piper_collect.config.video_transports import VIDEO_MESSAGES, install_hint
from piper_collect.core.live_clock import LiveClock
from piper_collect.core.picture_watch import PictureWatch
from piper_collect.core.sent_age import SentAge
from piper_collect.core.topics import TopicMonitor
from piper_collect.errors import BagError, ConfigError, PiperCollectError
from piper_collect.nodes.company import full_name
from piper_collect.nodes.message_fields import fields_by_type
from piper_collect.nodes.qos import DEPTH, DEPTH_OF_NUMBERS, matching_qos, offered_profile

Receiver = Callable[[TopicMonitor, bytes, int, int | None], None]


_LARGE = (*IMAGE_TYPES, "sensor_msgs/msg/PointCloud2")


class RawSubscriptions:
    """Subscribes to each wanted topic as soon as somebody publishes it, and again when its QoS changes.

    A topic that feeds a source or a camera is at fault as long as none of its publisher's messages could be
    read as they say.

    Args:
        node: The node that owns the subscriptions.
        config: The session: which topics are wanted, and which sources they feed.
        receive: Called with the topic's monitor, the serialized message, its receive time in ns, and the
            time in ns at which it was published; None where DDS does not say. Both are by this machine's
            clock; the monitors' times are by one that nobody sets.
        watch_pictures: Whether the monitors of cameras are to notice frozen and black pictures.
        keep_lead_ins: Whether to keep what an episode needs of cameras' videos from before its start.

    Attributes:
        monitors: By topic.
        topics: What a bag needs to know of each topic that was found.
        latched: The last message of each topic that is published transient-local.
        wrong_setting: Why no topic of the type that is published can ever feed its source; None so far.
    """

    def __init__(
        self,
        node: Node,
        config: SessionConfig,
        receive: Receiver,
        *,
        watch_pictures: bool = False,
        keep_lead_ins: bool = False,
    ) -> None:
        wanted = recorded_topics(config)
        self.monitors = {name: TopicMonitor(name=name, required=needed) for name, needed in wanted.items()}
        self.topics: dict[str, TopicInfo] = {}
        self.latched: dict[str, bytes] = {}
        self._lead_ins: dict[str, LeadIn] = {}
        self._keep_lead_ins = keep_lead_ins
        self.wrong_setting: ConfigError | None = None
        self._node = node
        self._receive = receive
        self._arrivals = SentAge(time_ns, monotonic_ns)
        self._subscriptions: dict[str, tuple[Subscription, str, QoSProfile]] = {}
        self._definitions = Definitions()
        self._definitions.register_msgs(share_dir() / "msg")
        self._sources = SourceCheck(config, self._definitions)
        for name in self._sources.cameras if watch_pictures else ():
            self.monitors[name].pictures = PictureWatch()
        for name, period_ns in camera_periods_ns(config).items():
            self.monitors[name].gaps.nominal_ns = period_ns
        for name, policy in clock_policies(config).items():
            self.monitors[name].clock = LiveClock(policy=policy)
        self._unread = {name for name in wanted if self._sources.feeds(name)}
        self._newest: dict[str, bytes] = {}
        self._senders: dict[str, frozenset[bytes]] = {}

    def discover(self) -> None:
        """Look at who publishes what now; cheap enough for twice a second."""
        self._arrivals.look()
        for name, monitor in self.monitors.items():
            publishers = self._node.get_publishers_info_by_topic(name)
            writers = frozenset(bytes(publisher.endpoint_gid) for publisher in publishers)
            monitor.see_publishers([full_name(publisher) for publisher in publishers], writers)
            monitor.hint = "" if publishers else self._why_absent(name)
            if not publishers:
                continue
            types = sorted({publisher.topic_type for publisher in publishers})
            if len(types) > 1:
                monitor.fault = f"published with different types: {', '.join(types)}"
                monitor.note(monitor.fault)
                continue
            self._notice_others(name, writers)
            qos = matching_qos(publishers, DEPTH if types[0] in _LARGE else DEPTH_OF_NUMBERS)
            current = self._subscriptions.get(name)
            if current is None or current[1:] != (types[0], qos):
                if current is not None:
                    monitor.note(_what_changed(*current[1:], types[0], qos))
                self._subscribe(monitor, types[0], qos)
            if name in self._subscriptions:
                self.topics[name] = self._topic_info(name, types[0], publishers)
                monitor.fault = self._read_newest(monitor)

    def topic(self, name: str) -> TopicInfo:
        """What a bag needs to know of a subscribed topic."""
        return self.topics[name]

    def early_messages(self, start_ns: int, fresh_ns: int) -> Iterator[tuple[TopicMonitor, EarlyMessage]]:
        """What an episode that begins now needs of messages from before: latched ones, and lead-ins.

        Args:
            start_ns: The episode's start, which stands for the time of receipt of latched ones.
            fresh_ns: A video whose newest packet is older has no lead-in.
        """
        for topic, payload in self.latched.items():
            latched = EarlyMessage(payload=payload, receive_ns=start_ns, publish_ns=None)
            yield self.monitors[topic], latched
        for topic, lead_in in self._lead_ins.items():
            for message in lead_in.messages(start_ns - fresh_ns):
                yield self.monitors[topic], message

    def unread_reason(self, name: str, payload: bytes) -> str:
        """Why a message of a subscribed topic cannot be read as the session reads it; empty when it can."""
        try:
            self._sources.check_message(name, self.monitors[name].type, payload)
        except PiperCollectError as err:
            return str(err)
        return ""

    def has_header(self, type_name: str) -> bool:
        """Whether messages of the type of a subscribed topic begin with a header."""
        return self._definitions.codec(type_name).starts_with_header

    def decode(self, name: str, payload: bytes) -> object:
        """A message of a subscribed topic.

        Raises:
            BagError: It is not what its type says.
        """
        return self._definitions.codec(self.monitors[name].type).decode(payload)

    def _subscribe(self, monitor: TopicMonitor, type_name: str, qos: QoSProfile) -> None:
        monitor.type, monitor.fault = type_name, ""
        try:
            message_class = _message_class(type_name)
            self._learn(type_name, message_class)
            codec = self._definitions.codec(type_name)
            self._sources.check_type(monitor.name, type_name)
        except ConfigError as err:
            monitor.fault, self.wrong_setting = str(err), err
            return
        except (ImportError, AttributeError, BagError) as err:
            hint = install_hint(type_name, os.environ.get("ROS_DISTRO", ""))
            monitor.fault = f"type {type_name} is not installed here: {err}" + (hint and f" -> {hint}")
            return
        if monitor.name in self._subscriptions:
            self._node.destroy_subscription(self._subscriptions.pop(monitor.name)[0])
            self._newest.pop(monitor.name, None)
            self.latched.pop(monitor.name, None)  # it comes again, if its publisher is still there
            self._lead_ins.pop(monitor.name, None)
        received = self._receiver(
            monitor, codec, keeps_last=qos.durability == DurabilityPolicy.TRANSIENT_LOCAL
        )
        try:
            subscription = self._node.create_subscription(
                message_class, monitor.name, received, qos, raw=True
            )
        except RCLError as err:  # of the type before, the middleware may hold the topic a moment longer
            monitor.fault = f"cannot be subscribed as {type_name} yet: {err}"
            return
        self._subscriptions[monitor.name] = (subscription, type_name, qos)

    def _receiver(
        self, monitor: TopicMonitor, codec: Codec, *, keeps_last: bool
    ) -> Callable[[bytes, Mapping[str, int]], None]:
        """What is called with each message of a topic."""
        pictures = LivePictures(monitor.name, monitor.pictures) if monitor.pictures is not None else None
        lead_in: LeadIn | None = None
        if self._keep_lead_ins and is_video(monitor.type) and monitor.name in self._sources.cameras:
            lead_in = self._lead_ins[monitor.name] = LeadIn(monitor.name)

        def received(payload: bytes, info: Mapping[str, int]) -> None:
            receive_ns = info["received_timestamp"] or time_ns()  # not every middleware says it
            arrived_ns = min(self._arrivals.steady_ns(receive_ns), monotonic_ns())
            monitor.receive(
                receive_ns=arrived_ns,
                wall_ns=receive_ns,
                stamp_ns=_stamp_ns(codec, payload),
                sequence=info.get("publication_sequence_number") or 0,
            )
            if keeps_last:
                self.latched[monitor.name] = payload
            if pictures is not None:
                pictures.take(codec, payload, arrived_ns)
            if monitor.name in self._unread:
                first = monitor.name not in self._newest
                self._newest[monitor.name] = payload
                if first:  # later ones wait for the next look round
                    monitor.fault = self._read_newest(monitor)
            source_ns = info.get("source_timestamp") or 0  # negative: DDS's word for an invalid time
            publish_ns = source_ns if source_ns > 0 else None
            if lead_in is not None:
                lead_in.take(codec, payload, receive_ns, publish_ns)
            self._receive(monitor, payload, receive_ns, publish_ns)

        return received

    def _read_newest(self, monitor: TopicMonitor) -> str:
        """Why the newest message of a topic cannot be read; empty when one could once, or none came yet."""
        payload = self._newest.get(monitor.name)
        if payload is None:
            return ""
        try:
            self._sources.check_message(monitor.name, monitor.type, payload)
        except PiperCollectError as err:
            return str(err)
        self._unread.discard(monitor.name)
        del self._newest[monitor.name]
        return ""

    def _why_absent(self, name: str) -> str:
        raw, _, transport = name.rpartition("/")
        plugins = {"compressed": "image_transport_plugins"}
        plugins |= {other: video.plugin for other, video in VIDEO_MESSAGES.items()}
        if transport not in plugins or not self._node.count_publishers(raw):
            return ""
        return (
            f", but {raw} is there: install {plugins[transport]} where the camera's node runs and start it"
            " again, or set the camera's transport: raw"
        )

    def _notice_others(self, name: str, senders: frozenset[bytes]) -> None:
        """A publisher that was not there before may send something else: its messages are looked at again."""
        if senders != self._senders.get(name, senders) and self._sources.feeds(name):
            self._unread.add(name)
            self._newest.pop(name, None)
        self._senders[name] = senders

    def _learn(self, type_name: str, message_class: type) -> None:
        """From the package's files; from the class itself where the index of packages does not have them."""
        if self._definitions.knows(type_name):
            return
        package = type_name.split("/")[0]
        try:
            share = get_package_share_directory(package)
        except (PackageNotFoundError, OSError):  # OSError: no index at all, as with ROS from wheels
            self._definitions.register_fields(fields_by_type(type_name, message_class))
        else:
            self._definitions.register_msgs(Path(share) / "msg", package)

    def _topic_info(self, name: str, type_name: str, publishers: Sequence[TopicEndpointInfo]) -> TopicInfo:
        return TopicInfo(
            name=name,
            type=type_name,
            qos=tuple(offered_profile(publisher) for publisher in publishers),
            type_hash=self._definitions.type_hash(type_name),
            message_definition=self._definitions.definition(type_name),
        )


def _stamp_ns(codec: Codec, payload: bytes) -> int | None:
    """The header's stamp; 0, which means unset, where the message is too short to hold one."""
    try:
        return codec.header_stamp_ns(payload)
    except BagError:
        return 0


def _what_changed(type_before: str, qos_before: QoSProfile, type_now: str, qos_now: QoSProfile) -> str:
    """Why a topic had to be subscribed to anew."""
    if type_now != type_before:
        return f"its type changed from {type_before} to {type_now}"
    return (
        "its publisher changed its QoS from "
        f"{qos_before.reliability.name.lower()}, {qos_before.durability.name.lower()} to "
        f"{qos_now.reliability.name.lower()}, {qos_now.durability.name.lower()}"
    )


def _message_class(type_name: str) -> type:
    package, kind, name = type_name.split("/")
    return getattr(import_module(f"{package}.{kind}"), name)

"""Listens to the topics of a session before it begins. Nothing is published, called or commanded."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from difflib import get_close_matches

import numpy as np
import rclpy
from rclpy._rclpy_pybind11 import RCLError
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from rclpy.topic_endpoint_info import TopicEndpointInfo

from piper_collect.bag.picture_look import look_at_pictures
from piper_collect.bag.source_check import IMAGE_TYPES
from piper_collect.config.bridge import vendor_names
from piper_collect.config.names import RECORDER_STATUS_TOPIC, recorded_topics, resolve_topic
from piper_collect.config.schema import SessionConfig
from piper_collect.config.topic_wishes import vendor_topics
from piper_collect.core.qos_match import Qos
from piper_collect.core.topic_look import DomainLook, Publisher, TopicLook
from piper_collect.core.topics import TopicMonitor
from piper_collect.core.vendor_arm import NOT_FINITE, UNMEASURED, UNNAMED, JointFeedback
from piper_collect.errors import BagError, ConfigError
from piper_collect.nodes.company import LOOK_S, full_name
from piper_collect.nodes.convert import stamp_ns
from piper_collect.nodes.qos import offered_profile
from piper_collect.nodes.runtime import LEAVE_S, at_most
from piper_collect.nodes.subscriptions import RawSubscriptions

_SPIN_S = 0.05
_DISCOVERY_S = 0.5
_CATCH_UP_S = 3.0
_PICTURES = 8
_LARGE_BYTES = 50_000
_CLOCK_TOPIC = "/clock"


@dataclass(slots=True, kw_only=True)
class _Heard:
    """Messages of one topic: all of small ones, some of pictures and of what is as large."""

    receive_ns: list[int] = field(default_factory=list)
    stamp_ns: list[int | None] = field(default_factory=list)
    payloads: list[bytes] = field(default_factory=list)
    kept_ns: int = 0


@contextmanager
def looked_at_topics(config: SessionConfig, seconds: float) -> Iterator[DomainLook]:
    """Look for publishers, listen for ``seconds``, and hand out what was seen; the node ends with the block.

    Raises:
        ConfigError: ROS cannot start in this environment.
    """
    context = Context()
    try:
        rclpy.init(context=context, signal_handler_options=SignalHandlerOptions.NO)
        node = rclpy.create_node(
            "doctor", context=context, enable_rosout=False, start_parameter_services=False
        )
    except (RCLError, RuntimeError) as err:
        reason = str(err).partition(", at ")[0]
        raise ConfigError(f"ROS does not start here: {reason}", where="ROS environment") from err
    try:
        yield _Ear(node, config, seconds).listen()
    finally:
        with at_most(LEAVE_S):
            node.destroy_node()
            rclpy.try_shutdown(context=context)


class _Ear:
    def __init__(self, node: Node, config: SessionConfig, seconds: float) -> None:
        vendor = vendor_topics(config)
        recorder = config.recorder
        self._config = replace(
            config, recorder=replace(recorder, extra_topics=(*recorder.extra_topics, *vendor))
        )
        self._node, self._seconds, self._count = node, seconds, 0
        self._keep_ns = int(seconds * 1e9 / _PICTURES)
        self._heard = {name: _Heard() for name in recorded_topics(self._config)}
        self._topics = RawSubscriptions(node, self._config, self._receive)

    def listen(self) -> DomainLook:
        executor = SingleThreadedExecutor(context=self._node.context)
        executor.add_node(self._node)
        try:
            self._spin(executor, LOOK_S)
            begin_ns = time.time_ns()
            for monitor in self._topics.monitors.values():
                monitor.begin_episode(time.monotonic_ns())
            self._spin(executor, self._seconds)
            self._catch_up(executor)
        finally:
            executor.remove_node(self._node)
            executor.shutdown()
        return self._look(begin_ns)

    def _spin(self, executor: SingleThreadedExecutor, seconds: float) -> None:
        until_s, next_s = time.monotonic() + seconds, 0.0
        while (now_s := time.monotonic()) < until_s:
            if now_s >= next_s:
                self._topics.discover()
                next_s = now_s + _DISCOVERY_S
            executor.spin_once(timeout_sec=_SPIN_S)

    def _catch_up(self, executor: SingleThreadedExecutor) -> None:
        """Take what has arrived and still waits, on a machine that is busy."""
        until_s, before = time.monotonic() + _CATCH_UP_S, -1
        while self._count != before and time.monotonic() < until_s:
            before = self._count
            executor.spin_once(timeout_sec=0.0)

    def _receive(
        self, monitor: TopicMonitor, payload: bytes, receive_ns: int, _published_ns: int | None
    ) -> None:
        self._count += 1
        heard = self._heard[monitor.name]
        heard.receive_ns.append(receive_ns)
        heard.stamp_ns.append(monitor.newest_stamp_ns if self._has_header(monitor) else None)
        small = monitor.type not in IMAGE_TYPES and len(payload) < _LARGE_BYTES
        if small or receive_ns - heard.kept_ns >= self._keep_ns:
            heard.payloads.append(payload)
            heard.kept_ns = receive_ns

    def _has_header(self, monitor: TopicMonitor) -> bool:
        return self._topics.has_header(monitor.type)

    # -- what was seen -------------------------------------------------------------------------

    def _look(self, begin_ns: int) -> DomainLook:
        now_ns = time.monotonic_ns()
        there = [name for name, _ in self._node.get_topic_names_and_types() if self._publishers(name)]
        status = resolve_topic(RECORDER_STATUS_TOPIC, self._config.session.namespace)
        return DomainLook(
            topics={name: self._topic(name, begin_ns, now_ns, there) for name in self._heard},
            session=tuple(sorted(full_name(p) for p in self._publishers(status))),
            clocks=tuple(sorted(full_name(p) for p in self._publishers(_CLOCK_TOPIC))),
        )

    def _publishers(self, name: str) -> list[TopicEndpointInfo]:
        return self._node.get_publishers_info_by_topic(name)

    def _topic(self, name: str, begin_ns: int, now_ns: int, there: Sequence[str]) -> TopicLook:
        monitor, heard = self._topics.monitors[name], self._heard[name]
        found = [Publisher(node=full_name(p), type=p.topic_type, qos=_qos(p)) for p in self._publishers(name)]
        publishers = tuple(sorted(found, key=lambda publisher: publisher.node))
        near = () if publishers else tuple(get_close_matches(name, there, n=3))
        receive_ns = np.array(heard.receive_ns, dtype=np.int64)
        late = receive_ns >= begin_ns
        chosen = late if late.any() else np.ones(len(late), dtype=np.bool_)
        bare = any(stamp is None for stamp in heard.stamp_ns)
        stamps = np.array([stamp or 0 for stamp in heard.stamp_ns], dtype=np.int64)
        reasons = self._unread(name, heard.payloads)
        return TopicLook(
            publishers=publishers,
            refusal=monitor.reason(now_ns, int(self._config.recorder.fresh_s * 1e9)),
            receive_ns=receive_ns[chosen],
            stamp_ns=None if bare else stamps[chosen],
            lost=monitor.lost,
            read=len(heard.payloads),
            unread=len(reasons),
            unread_first=reasons[0] if reasons else "",
            pictures=self._pictures(name, heard.payloads),
            near_names=near,
        )

    def _unread(self, name: str, payloads: Sequence[bytes]) -> list[str]:
        reasons = [reason for payload in payloads if (reason := self._topics.unread_reason(name, payload))]
        joints = self._vendor_joints()
        return reasons if reasons or name != joints else self._unread_joints(name, payloads)

    def _vendor_joints(self) -> str:
        if self._config.devices.arm != "bridge":
            return ""
        joints = vendor_names(self._config.bridge).joint_states
        return resolve_topic(joints, self._config.session.namespace)

    def _unread_joints(self, name: str, payloads: Sequence[bytes]) -> list[str]:
        """Joint states of which the arm bridge can make nothing, and why."""
        feedback, reasons = JointFeedback(), []
        for payload in payloads:
            message = self._topics.decode(name, payload)
            taken = feedback.take(
                names=message.name, position=message.position, stamp_ns=stamp_ns(message.header.stamp)
            )
            if taken in (UNNAMED, NOT_FINITE, UNMEASURED):
                reasons.append(f"{taken} (named {', '.join(message.name) or 'nothing'})")
        return reasons

    def _pictures(self, name: str, payloads: Sequence[bytes]):
        if self._topics.monitors[name].type not in IMAGE_TYPES:
            return None
        messages = []
        for payload in payloads:
            try:
                messages.append(self._topics.decode(name, payload))
            except BagError:
                continue  # counted as unread
        return look_at_pictures(name, messages)


def _qos(publisher: TopicEndpointInfo) -> Qos:
    offered = offered_profile(publisher)
    return Qos(
        reliability=offered.reliability, durability=offered.durability, deadline_ns=offered.deadline_ns
    )

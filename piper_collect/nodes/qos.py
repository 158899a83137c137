"""QoS: what our own topics offer, and what a subscriber must ask for to hear a foreign publisher."""

from collections.abc import Sequence

from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy
from rclpy.topic_endpoint_info import TopicEndpointInfo

from piper_collect.bag.qos import QosProfile

DEPTH = 100
DEPTH_OF_NUMBERS = 1000
"""What the recorder keeps of a topic of small messages: 5 s at 200 Hz, should it get no processor time."""

STREAM_QOS = QoSProfile(
    depth=DEPTH, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.VOLATILE
)
LATEST_QOS = QoSProfile(depth=1, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.VOLATILE)
LATCHED_QOS = QoSProfile(
    depth=1, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL
)


def matching_qos(publishers: Sequence[TopicEndpointInfo], depth: int = DEPTH) -> QoSProfile:
    """A profile that every one of ``publishers`` is compatible with, the strongest such; depth is ours."""
    offered = [publisher.qos_profile for publisher in publishers]
    reliable = all(qos.reliability == ReliabilityPolicy.RELIABLE for qos in offered)
    latched = all(qos.durability == DurabilityPolicy.TRANSIENT_LOCAL for qos in offered)
    return QoSProfile(
        depth=depth,
        history=HistoryPolicy.KEEP_LAST,
        reliability=ReliabilityPolicy.RELIABLE if reliable else ReliabilityPolicy.BEST_EFFORT,
        durability=DurabilityPolicy.TRANSIENT_LOCAL if latched else DurabilityPolicy.VOLATILE,
    )


def offered_profile(publisher: TopicEndpointInfo) -> QosProfile:
    """What ``publisher`` offers, as a bag keeps it (discovery knows neither history nor depth)."""
    qos = publisher.qos_profile
    return QosProfile(
        history=qos.history.name.lower(),
        depth=qos.depth,
        reliability=qos.reliability.name.lower(),
        durability=qos.durability.name.lower(),
        deadline_ns=qos.deadline.nanoseconds,
        lifespan_ns=qos.lifespan.nanoseconds,
        liveliness=qos.liveliness.name.lower(),
        lease_ns=qos.liveliness_lease_duration.nanoseconds,
        avoid_ros_namespace_conventions=qos.avoid_ros_namespace_conventions,
    )

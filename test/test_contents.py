"""What the recorder reads of messages: the arm's firmware, and the numbers of a headset's samples."""

from dataclasses import replace

import pytest

pytest.importorskip("piper_collect.msg", reason="the messages are not built here", exc_type=ImportError)

from piper_collect.msg import ArmStatus, QuestInput
from rclpy.serialization import serialize_message

from piper_collect.config.schema import SessionConfig
from piper_collect.core.topics import TopicMonitor, topic_counts
from piper_collect.nodes.contents import Contents


def contents(firmware=""):
    base = SessionConfig()
    return Contents(replace(base, arm=replace(base.arm, firmware=firmware)))


def test_the_firmware_is_what_the_arm_says_else_what_is_configured():
    read = contents("S-V1.6-3")
    monitor = TopicMonitor(name="/arm/status", required=False, type="piper_collect/msg/ArmStatus")
    assert (read.firmware, read.firmware_source) == ("S-V1.6-3", "configuration")
    read.take(monitor, serialize_message(ArmStatus()))
    assert read.firmware_source == "configuration"
    read.take(monitor, serialize_message(ArmStatus(firmware="S-V1.8-5")))
    assert (read.firmware, read.firmware_source) == ("S-V1.8-5", "arm/status")
    assert contents().firmware_source is None


def test_numbers_of_the_headset_that_are_missing_are_counted():
    read = contents()
    monitor = TopicMonitor(name="/quest/input", required=False, type="piper_collect/msg/QuestInput")
    for number in (1, 2, 5, 6):
        read.take(monitor, serialize_message(QuestInput(sequence=number)))
    assert topic_counts([monitor])["/quest/input"]["missing_by_sequence"] == 2
    monitor.begin_episode(0)
    read.take(monitor, serialize_message(QuestInput(sequence=9)))
    read.take(monitor, serialize_message(QuestInput(sequence=10)))
    assert topic_counts([monitor])["/quest/input"]["missing_by_sequence"] == 0


def test_other_messages_are_not_looked_into():
    read = contents()
    read.take(TopicMonitor(name="/a", required=True, type="std_msgs/msg/String"), b"no message")
    read.take(TopicMonitor(name="/a", required=True, type="piper_collect/msg/ArmStatus"), b"no message")
    assert read.firmware_source is None


@pytest.mark.parametrize("noise", [b"", b"no message", b"\0\1\0\0" + b"\xff" * 64])
@pytest.mark.parametrize("kind", ["ArmStatus", "QuestInput"])
def test_bytes_that_are_no_message_end_nothing(kind, noise):
    read = contents()
    monitor = TopicMonitor(name="/arm/status", required=False, type=f"piper_collect/msg/{kind}")
    read.take(monitor, noise)
    assert (read.firmware_source, monitor.numbers) == (None, None)

"""What the recorder reads of messages that it otherwise passes on as they are."""

from rclpy.serialization import deserialize_message

from piper_collect.config.names import ARM_STATUS_TOPIC, resolve_topic
from piper_collect.config.schema import SessionConfig
from piper_collect.core.provenance import FirmwareSource
from piper_collect.core.stamp_gaps import NumberGaps
from piper_collect.core.topics import TopicMonitor
from piper_collect.msg import ArmStatus, QuestInput

_ARM_STATUS = "piper_collect/msg/ArmStatus"
_QUEST_INPUT = "piper_collect/msg/QuestInput"


class Contents:
    """Reads the arm's firmware, and the numbers that a headset gives its samples.

    Args:
        config: The session.

    Attributes:
        firmware: As the arm reports it, else as configured; empty for unknown.
        firmware_source: Who says so; None for nobody.
    """

    def __init__(self, config: SessionConfig) -> None:
        self._arm_status = resolve_topic(ARM_STATUS_TOPIC, config.session.namespace)
        self.firmware = config.arm.firmware
        self.firmware_source: FirmwareSource | None = "configuration" if self.firmware else None

    def take(self, monitor: TopicMonitor, payload: bytes) -> None:
        """Look into one message, where there is something to be found; bytes that are none tell nothing."""
        try:
            if monitor.type == _ARM_STATUS and monitor.name == self._arm_status:
                self._take_firmware(deserialize_message(payload, ArmStatus).firmware)
            elif monitor.type == _QUEST_INPUT:
                self._take_number(monitor, deserialize_message(payload, QuestInput).sequence)
        except RuntimeError:  # RMWError; it is recorded as it came
            return

    def _take_firmware(self, reported: str) -> None:
        if reported:
            self.firmware, self.firmware_source = reported, "arm/status"

    def _take_number(self, monitor: TopicMonitor, number: int) -> None:
        if monitor.numbers is None:
            monitor.numbers = NumberGaps()
        monitor.numbers.add(number)

"""A camera as a device: what it says of itself, against what is configured."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CameraDevice:
    """One device; what is not known is empty.

    Attributes:
        serial: Serial number, without the leading underscore of launch arguments.
        firmware: Firmware version.
        name: Model, e.g. ``Intel RealSense D435``.
        usb_type: The USB version that it is connected by, e.g. ``3.2``.
    """

    serial: str = ""
    firmware: str = ""
    name: str = ""
    usb_type: str = ""

    def record(self, *, reported: bool) -> dict[str, object]:
        """For the provenance record; ``reported`` says whether the device itself said it."""
        source = ("device_info" if reported else "configuration") if self.serial else ""
        return {
            "serial": self.serial,
            "firmware": self.firmware,
            "name": self.name,
            "usb_type": self.usb_type,
            "serial_source": source,
        }


def device_refusal(camera: str, pinned: str, device: CameraDevice) -> str:
    """Why a camera with the configured serial number may not be ``device``; empty when it may."""
    if not pinned or not device.serial or device.serial.lstrip("_") == pinned:
        return ""
    return (
        f"camera {camera}: the device with serial number {device.serial} is connected, but"
        f" cameras.{camera}.serial is {pinned}"
    )

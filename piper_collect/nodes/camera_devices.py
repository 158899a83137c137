"""Which devices are behind the cameras: asked of realsense2_camera, held against what is configured."""

from collections.abc import Mapping
from dataclasses import dataclass

from rclpy.client import Client
from rclpy.node import Node
from rclpy.task import Future

from piper_collect.config.names import resolve_topic
from piper_collect.config.realsense import DEVICE_INFO, realsense_node
from piper_collect.config.schema import SessionConfig
from piper_collect.core.camera_device import CameraDevice, device_refusal
from piper_collect.nodes.vendor_types import vendor_type

PATIENCE_S = 5.0
"""A camera that sends images and does not say who it is for so long is taken as configured."""

_TYPE = "realsense2_camera_msgs/DeviceInfo"


@dataclass(slots=True, kw_only=True)
class _Camera:
    """What is known of one camera."""

    client: Client
    serial: str
    device: CameraDevice | None = None
    asked: Future | None = None
    sends_since_ns: int = 0
    given_up: bool = False


class CameraDevices:
    """Asks each RealSense for serial number, firmware and USB type, and again when its driver comes back.

    Args:
        node: The node that owns the clients.
        config: The session.
    """

    def __init__(self, node: Node, config: SessionConfig) -> None:
        self._node = node
        self._configured = {name: camera.serial for name, camera in config.cameras.items()}
        self._cameras: dict[str, _Camera] = {}
        self._type = vendor_type("srv", _TYPE)
        if config.devices.cameras != "realsense":
            return
        if self._type is None:
            node.get_logger().warning(
                "realsense2_camera_msgs is not installed here: serial numbers are taken from the"
                " configuration and not checked; firmware is unknown"
            )
            return
        for name, camera in config.cameras.items():
            service = resolve_topic(realsense_node(camera.topic) + DEVICE_INFO, config.session.namespace)
            client = node.create_client(self._type, service)
            self._cameras[name] = _Camera(client=client, serial=camera.serial)

    def poll(self, now_ns: int, sending: Mapping[str, bool]) -> None:
        """Ask who has not been asked, take answers; ``sending`` says which cameras publish images."""
        for name, camera in self._cameras.items():
            if not sending.get(name, False):
                camera.sends_since_ns = 0
            elif not camera.sends_since_ns:
                camera.sends_since_ns = now_ns
            if not camera.client.service_is_ready():
                camera.device, camera.asked = None, None
            elif camera.asked is None:
                camera.asked = camera.client.call_async(self._type.Request())
                camera.asked.add_done_callback(lambda future, name=name: self._answered(name, future))
            self._give_up(name, camera, now_ns)

    def refusal(self) -> str:
        """Why no episode may start with these devices; empty when one may."""
        reasons = []
        for name, camera in self._cameras.items():
            if camera.device is not None:
                reasons.append(device_refusal(name, camera.serial, camera.device))
            elif camera.serial and camera.sends_since_ns and not camera.given_up:
                reasons.append(f"camera {name}: {camera.client.srv_name} has not said yet which device it is")
        return "; ".join(reason for reason in reasons if reason)

    def records(self) -> dict[str, dict[str, object]]:
        """For the provenance of each camera: what it said, else what is configured."""
        records = {}
        for name, serial in self._configured.items():
            camera = self._cameras.get(name)
            device = camera.device if camera else None
            records[name] = (device or CameraDevice(serial=serial)).record(reported=device is not None)
        return records

    def _answered(self, name: str, future: Future) -> None:
        camera, answer = self._cameras[name], future.result()
        if camera.asked is not future or answer is None:
            return
        camera.given_up = False
        camera.device = device = CameraDevice(
            serial=answer.serial_number,
            firmware=answer.firmware_version,
            name=answer.device_name,
            usb_type=answer.usb_type_descriptor,
        )
        refusal = device_refusal(name, camera.serial, device)
        if refusal:
            self._node.get_logger().error(refusal)
            return
        facts = f"{device.name} {device.serial}, firmware {device.firmware}, USB {device.usb_type}"
        self._node.get_logger().info(f"camera {name}: {facts}")

    def _give_up(self, name: str, camera: _Camera, now_ns: int) -> None:
        waits = camera.device is None and camera.sends_since_ns and not camera.given_up
        if waits and (now_ns - camera.sends_since_ns) / 1e9 > PATIENCE_S:
            camera.given_up = True
            self._node.get_logger().warning(
                f"camera {name}: {camera.client.srv_name} does not answer: its serial number is taken from"
                " the configuration and not checked"
            )

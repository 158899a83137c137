"""Devices of a session replaced from the command line, and what must change with them to stay true."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, get_args, get_type_hints

from piper_collect.config.realsense import COLOR_TOPIC, realsense_node
from piper_collect.config.schema import (
    CameraSettings,
    ControlSettings,
    DeviceSettings,
    SessionConfig,
    SessionSettings,
)
from piper_collect.errors import ConfigError

_SIMULATED = "sim"
_SWITCH = {"": None, "true": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceWords:
    """What a command line says of the devices; an empty word leaves the configuration's.

    Attributes:
        sim: Whether all devices are simulated that the other words do not name.
        arm: As ``devices.arm``.
        cameras: As ``devices.cameras``.
        operator: As ``devices.operator``.
    """

    sim: bool = False
    arm: str = ""
    cameras: str = ""
    operator: str = ""


def device_choices(device: str) -> tuple[str, ...]:
    """The valid words for ``arm``, ``cameras`` or ``operator``."""
    return get_args(get_type_hints(DeviceSettings)[device])


def switch(name: str, word: str) -> bool | None:
    """A launch argument that is on or off; None where it is empty.

    Raises:
        ConfigError: It is neither.
    """
    if word.lower() not in _SWITCH:
        raise ConfigError("neither on nor off", where=name, got=word, valid=("true", "false"))
    return _SWITCH[word.lower()]


def override_devices(config: SessionConfig, words: DeviceWords) -> SessionConfig:
    """``config`` with other devices, and with the settings that would not be true of them any more.

    A simulated arm has no gains and no firmware but its own, and a real one no simulated controller; a
    simulated camera has not the serial number of a real one; what the operator holds is not known once
    somebody else operates.

    Raises:
        ConfigError: A word is not valid, or the configuration does not fit the devices.
    """
    chosen: dict[str, Any] = {}
    for device in (field.name for field in fields(DeviceSettings)):
        word = getattr(words, device) or (_SIMULATED if words.sim else getattr(config.devices, device))
        if word not in device_choices(device):
            raise ConfigError(
                "not a valid choice", where=f"devices.{device}", got=word, valid=device_choices(device)
            )
        chosen[device] = word
    devices = DeviceSettings(**chosen)
    if devices == config.devices:
        return config
    try:
        return replace(
            config,
            devices=devices,
            session=_session(config, devices.operator),
            control=_control(config, devices.arm),
            arm=replace(config.arm, firmware="") if devices.arm == _SIMULATED else config.arm,
            cameras=_cameras(config, devices.cameras),
        )
    except ValueError as err:
        raise ConfigError(str(err), where="devices") from err


def _session(config: SessionConfig, operator: str) -> SessionSettings:
    if operator == config.devices.operator:
        return config.session
    simulated = SessionSettings().input_device
    return replace(config.session, input_device=simulated if operator == _SIMULATED else "")


def _control(config: SessionConfig, arm: str) -> ControlSettings:
    control = config.control
    if arm == config.devices.arm:
        return control
    if arm == _SIMULATED:
        return ControlSettings(backend="simulated")
    return replace(control, backend="position") if control.backend == "simulated" else control


def _cameras(config: SessionConfig, cameras: str) -> dict[str, CameraSettings]:
    before = config.devices.cameras
    if cameras == before or _SIMULATED not in (cameras, before):
        return dict(config.cameras)
    if cameras == _SIMULATED:
        return {name: replace(camera, serial="") for name, camera in config.cameras.items()}
    topics = _realsense_topics(config.cameras) if cameras == "realsense" else {}
    return {
        name: replace(camera, serial="", topic=topics.get(name, camera.topic))
        for name, camera in config.cameras.items()
    }


def _realsense_topics(cameras: Mapping[str, CameraSettings]) -> dict[str, str]:
    """Where realsense2_camera publishes the cameras whose topics are not its own, by the camera's name."""
    topics = {}
    for name, camera in cameras.items():
        try:
            realsense_node(camera.topic)
        except ValueError:
            topics[name] = f"/camera/{name}{COLOR_TOPIC}"
    return topics

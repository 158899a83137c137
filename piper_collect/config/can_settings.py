"""Settings of a Piper that is driven over its CAN bus: sections ``can`` and ``control.gravity``."""

from dataclasses import dataclass
from typing import Literal

from piper_collect.core.gravity import GRAVITY_M_S2, LINK_COM_M, LINK_MASS_KG


@dataclass(frozen=True, slots=True, kw_only=True)
class CanSettings:
    """A Piper on a CAN bus, for ``devices.arm: can``.

    Attributes:
        channel: Interface name, e.g. ``can0``; for ``udp_multicast`` a multicast address.
        interface: ``socketcan`` for a real arm; the others reach an emulated one.
        bitrate: Of the bus, bit/s.
        speed_percent: Greatest speed of the arm's own position control, 1 to 100. Begin with 20.
        gripper_effort_n_m: Greatest gripper torque, 0 to 5.
        enable_on_start: Whether the motors are switched on at the start; otherwise the arm is listened to and
            never commanded.
        on_stop: What is done with the arm at the end. ``hold``: its motors stay on and hold it. ``disable``:
            they are switched off, and the arm falls.
        connect_timeout_s: How long the first feedback may take.
        enable_timeout_s: How long the motors may take to switch on.
        silence_s: The arm is not commanded while its last feedback is older.
        watchdog_s: A joint command older than this is not followed; the arm holds.
        max_step_rad: No joint is sent further than this from where it is, and a command that jumps further is
            refused.
    """

    channel: str = "can0"
    interface: Literal["socketcan", "virtual", "udp_multicast"] = "socketcan"
    bitrate: int = 1_000_000
    speed_percent: int = 100
    gripper_effort_n_m: float = 1.0
    enable_on_start: bool = True
    on_stop: Literal["hold", "disable"] = "hold"
    connect_timeout_s: float = 5.0
    enable_timeout_s: float = 5.0
    silence_s: float = 0.25
    watchdog_s: float = 0.5
    max_step_rad: float = 0.3

    def __post_init__(self) -> None:
        timeouts = ("connect_timeout_s", "enable_timeout_s", "silence_s", "watchdog_s")
        for name in ("bitrate", "max_step_rad", *timeouts):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be above 0 (got {getattr(self, name)})")
        if not self.channel.strip():
            raise ValueError("channel is empty (expected an interface such as can0)")
        if not 1 <= self.speed_percent <= 100:
            raise ValueError(f"speed_percent must be from 1 to 100 (got {self.speed_percent})")
        if not 0.0 <= self.gripper_effort_n_m <= 5.0:
            raise ValueError(f"gripper_effort_n_m must be from 0 to 5 (got {self.gripper_effort_n_m:g})")


@dataclass(frozen=True, slots=True, kw_only=True)
class GravitySettings:
    """The rigid-body model behind ``control.impedance.gravity_ff``; the defaults are AgileX's URDF.

    Attributes:
        link_mass_kg: Masses of links 1 to 6, and of the gripper with what it always carries.
        link_com_m: Their centres of mass x, y, z in the link frames, one after the other; the gripper's in
            the flange's frame.
        gravity_m_s2: Gravity in the base frame; another direction for an arm that hangs or stands sideways.
    """

    link_mass_kg: tuple[float, ...] = LINK_MASS_KG
    link_com_m: tuple[float, ...] = LINK_COM_M
    gravity_m_s2: tuple[float, float, float] = GRAVITY_M_S2

"""MIT (impedance) commands of the Piper's joints: what fits into the frame, and what arrives.

A joint's motor applies ``kp (position - q) + kd (speed - qdot) + torque``. Each number travels as an unsigned
integer over a fixed range (``piper_sdk`` 0.6.2 ``C_PiperInterface_V2.__JointMitCtrl``; its docstring's 18 N·m
is stale), by truncation, and nothing in the SDK keeps a number inside its range. So a gain of 10 arrives as
9.89 and a torque of 0 as -0.03.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from piper_collect.core.kinematics import JOINT_NAMES
from piper_collect.core.piper_firmware import MitQuirks, Six, firmware_version, mit_quirks
from piper_collect.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class MitRange:
    """How one number travels.

    Attributes:
        low: Least value.
        high: Greatest value.
        bits: Width of the integer.
    """

    low: float
    high: float
    bits: int

    def encode(self, value: float) -> int:
        """The integer that the SDK sends for a value inside the range."""
        return int((value - self.low) * float((1 << self.bits) - 1) / (self.high - self.low))

    def decode(self, number: int) -> float:
        """The value that an integer stands for."""
        return number * (self.high - self.low) / ((1 << self.bits) - 1) + self.low

    def quantised(self, value: float) -> float:
        """What arrives of a value inside the range."""
        return self.decode(self.encode(value))

    def clamp(self, value: float) -> float:
        """The value of the range that is nearest."""
        return min(max(value, self.low), self.high)


POSITION_RAD = MitRange(low=-12.5, high=12.5, bits=16)
SPEED_RAD_S = MitRange(low=-45.0, high=45.0, bits=12)
KP_N_M_RAD = MitRange(low=0.0, high=500.0, bits=12)
KD_N_M_S_RAD = MitRange(low=-5.0, high=5.0, bits=12)
TORQUE_N_M = MitRange(low=-8.0, high=8.0, bits=8)

_ZEROS: Six = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImpedanceGains:
    """Gains of the six joints.

    Attributes:
        kp: Stiffness in N·m/rad.
        kd: Damping in N·m·s/rad.
        t_ff: Constant feed-forward torque in N·m.
    """

    kp: Six
    kd: Six
    t_ff: Six = field(default=_ZEROS)


@dataclass(frozen=True, slots=True, kw_only=True)
class MitCommand:
    """What one joint is sent, in the firmware's own signs and scale.

    Attributes:
        position_rad: Where the spring rests.
        speed_rad_s: What the damper compares with.
        kp: Stiffness.
        kd: Damping.
        torque_n_m: Feed-forward torque.
    """

    position_rad: float
    speed_rad_s: float
    kp: float
    kd: float
    torque_n_m: float


def impedance_gains(
    kp: Sequence[float], kd: Sequence[float], t_ff: Sequence[float] = (), where: str = "control.impedance"
) -> ImpedanceGains:
    """Gains that can be sent; an empty ``t_ff`` means none.

    Raises:
        ConfigError: Not six of them, or one that does not fit.
    """
    return ImpedanceGains(
        kp=_six(kp, KP_N_M_RAD.low, KP_N_M_RAD.high, f"{where}.kp"),
        kd=_six(kd, 0.0, KD_N_M_S_RAD.high, f"{where}.kd"),
        t_ff=_six(t_ff or _ZEROS, TORQUE_N_M.low, TORQUE_N_M.high, f"{where}.t_ff"),
    )


def mit_commands(
    q: Sequence[float], gains: ImpedanceGains, torque_n_m: Sequence[float], quirks: MitQuirks
) -> tuple[MitCommand, ...]:
    """Commands [6] that hold joints ``q`` (rad), with a torque beside the gains' own ``t_ff``.

    What the motor executes of the sum of the torques is kept inside the range of a frame, whatever the
    firmware makes of it.
    """
    return tuple(
        MitCommand(
            position_rad=POSITION_RAD.clamp(sign * angle),
            speed_rad_s=0.0,
            kp=kp,
            kd=kd,
            torque_n_m=sign * TORQUE_N_M.clamp(constant + more) / times,
        )
        for angle, kp, kd, constant, more, sign, times in zip(
            q, gains.kp, gains.kd, gains.t_ff, torque_n_m, quirks.signs, quirks.torque_gain, strict=True
        )
    )


def gains_record(
    kp: Sequence[float], kd: Sequence[float], t_ff: Sequence[float], firmware: str
) -> dict[str, dict[str, list[float] | None]]:
    """The provenance of gains: ``requested``, and ``quantised`` as the motors execute them.

    ``quantised.t_ff`` depends on the firmware and is None where that is not known.

    Raises:
        ConfigError: The gains cannot be sent.
    """
    gains = impedance_gains(kp, kd, t_ff)
    torques: list[float] | None = None
    if firmware_version(firmware) is not None:
        quirks = mit_quirks(firmware)
        sent = mit_commands(_ZEROS, gains, _ZEROS, quirks)
        torques = [
            sign * times * TORQUE_N_M.quantised(command.torque_n_m)
            for command, sign, times in zip(sent, quirks.signs, quirks.torque_gain, strict=True)
        ]
    return {
        "requested": {"kp": list(gains.kp), "kd": list(gains.kd), "t_ff": list(gains.t_ff)},
        "quantised": {
            "kp": [KP_N_M_RAD.quantised(value) for value in gains.kp],
            "kd": [KD_N_M_S_RAD.quantised(value) for value in gains.kd],
            "t_ff": torques,
        },
    }


def control_record(control: Mapping[str, Any], *, over_can: bool, firmware: str) -> dict[str, Any]:
    """The provenance of a session's controller.

    Args:
        control: Its settings: ``backend``, ``impedance``, ``gravity``.
        over_can: Whether we send the gains to a Piper ourselves; then ``impedance`` has ``requested`` and
            ``quantised`` beside them.
        firmware: Of the arm; empty for unknown.

    Raises:
        ConfigError: The gains cannot be sent.
    """
    record = {name: value for name, value in control.items() if name != "gravity"}
    gains = control["impedance"]
    if over_can and control["backend"] == "impedance":
        known = gains_record(gains["kp"], gains["kd"], gains["t_ff"], firmware)
        record["impedance"] = {**gains, **known}
        if gains["gravity_ff"]:
            record["gravity"] = control["gravity"]
    return record


def _six(values: Sequence[float], low: float, high: float, where: str) -> Six:
    if len(values) != len(JOINT_NAMES):
        raise ConfigError("one gain a joint is needed", where=where, expected="6 numbers", got=len(values))
    for name, value in zip(JOINT_NAMES, values, strict=True):
        if not math.isfinite(value) or not low <= value <= high:
            raise ConfigError(
                "not a usable gain", where=f"{where}, {name}", expected=f"{low:g} to {high:g}", got=value
            )
    q1, q2, q3, q4, q5, q6 = (float(value) for value in values)
    return q1, q2, q3, q4, q5, q6

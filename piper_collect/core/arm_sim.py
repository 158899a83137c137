"""A simulated arm: joints and gripper follow their command with a lag, no faster than they can.

Each axis obeys ``qdot = clamp((command - q) / tau, -speed, speed)``. The step is the exact solution of
that: full speed until the error is ``tau * speed``, then an exponential. So the motion does not depend
on how time is cut into steps.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from piper_collect.core.kinematics import GRIPPER_WIDTH_M, JOINT_LIMITS_RAD, JOINT_SPEED_RAD_S, Joints
from piper_collect.errors import ConfigError, KinematicsError


@dataclass(frozen=True, slots=True, kw_only=True)
class SimArm:
    """What the simulated arm can do.

    Attributes:
        tau_s: Time constant of the lag.
        limits_rad: Joint limits; commands outside are followed to the limit.
        speeds_rad_s: Joint speeds.
        width_m: Least and greatest gripper width.
        gripper_tau_s: Time constant of the gripper.
        gripper_speed_m_s: Speed of the width.
    """

    tau_s: float = 0.05
    limits_rad: tuple[tuple[float, float], ...] = JOINT_LIMITS_RAD
    speeds_rad_s: tuple[float, ...] = JOINT_SPEED_RAD_S
    width_m: tuple[float, float] = GRIPPER_WIDTH_M
    gripper_tau_s: float = 0.05
    gripper_speed_m_s: float = 0.2

    def __post_init__(self) -> None:
        """Refuse what no arm can be.

        Raises:
            ConfigError: A time constant or speed is not positive, or there are not six joints.
        """
        positive = (self.tau_s, self.gripper_tau_s, self.gripper_speed_m_s, *self.speeds_rad_s)
        if not all(0.0 < number < math.inf for number in positive):
            raise ConfigError("not an arm", expected="time constants and speeds above 0", got=positive)
        if len(self.limits_rad) != 6 or len(self.speeds_rad_s) != 6:
            raise ConfigError("not an arm", expected="six limits and six speeds")


@dataclass(frozen=True, slots=True, kw_only=True)
class SimArmState:
    """Where the simulated arm is.

    Attributes:
        q: Joints in rad.
        qdot: Joint velocities in rad/s at this moment.
        width_m: Gripper width.
    """

    q: Joints
    qdot: Joints = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    width_m: float = 0.0


def sim_arm_step(
    config: SimArm,
    state: SimArmState,
    command_q: Sequence[float] | None,
    command_width_m: float | None,
    dt_s: float,
) -> SimArmState:
    """Let ``dt_s`` pass.

    Args:
        config: The arm.
        state: Where it is.
        command_q: The command in force, joints [6] in rad; None leaves the joints at rest where they are.
        command_width_m: The width in force; None leaves the gripper where it is.
        dt_s: Time that passes.

    Raises:
        KinematicsError: A command is not finite or not six joints, or ``dt_s`` is negative or not finite.
    """
    if not 0.0 <= dt_s < math.inf:
        raise KinematicsError("no such time step", expected="0 or more seconds", got=dt_s)
    width = state.width_m
    if command_width_m is not None:
        _check_finite((command_width_m,), 1)
        wanted = min(max(command_width_m, config.width_m[0]), config.width_m[1])
        width, _ = _lag(width, wanted, config.gripper_tau_s, config.gripper_speed_m_s, dt_s)
    if command_q is None:
        return SimArmState(q=state.q, width_m=width)
    _check_finite(command_q, 6)
    moved = [
        _lag(q, min(max(float(wanted), low), high), config.tau_s, speed, dt_s)
        for q, wanted, (low, high), speed in zip(
            state.q, command_q, config.limits_rad, config.speeds_rad_s, strict=True
        )
    ]
    q1, q2, q3, q4, q5, q6 = (position for position, _ in moved)
    v1, v2, v3, v4, v5, v6 = (speed for _, speed in moved)
    return SimArmState(q=(q1, q2, q3, q4, q5, q6), qdot=(v1, v2, v3, v4, v5, v6), width_m=width)


def _lag(position: float, wanted: float, tau_s: float, speed: float, dt_s: float) -> tuple[float, float]:
    """Position and velocity after ``dt_s``."""
    error = wanted - position
    knee = tau_s * speed
    at_full_speed_s = max(0.0, (abs(error) - knee) / speed)
    if dt_s < at_full_speed_s:
        return position + math.copysign(speed * dt_s, error), math.copysign(speed, error)
    left = math.copysign(min(abs(error), knee), error) * math.exp(-(dt_s - at_full_speed_s) / tau_s)
    return wanted - left, left / tau_s


def _check_finite(command: Sequence[float], count: int) -> None:
    if len(command) != count or not all(math.isfinite(number) for number in command):
        raise KinematicsError("not a command", expected=f"{count} finite numbers", got=command)

"""The torques that hold the arm against gravity: a rigid-body model of point masses.

Each link, and the gripper on the flange, is its mass at its centre of mass; friction, motors and cables are
left out. The frames are the DH frames of ``core.kinematics``, which are the link frames of AgileX's URDF
(within 0.13 mm), so the inertial origins of that file can be used as they are.
"""

from collections.abc import Sequence

import numpy as np

from piper_collect.core.kinematics import JOINT_LIMITS_RAD, PiperKinematics
from piper_collect.core.piper_firmware import Six
from piper_collect.errors import ConfigError

LINK_MASS_KG = (0.71, 1.16, 0.5, 0.38, 0.383, 0.007, 0.5)
"""Links 1 to 6 and the gripper: ``piper_description.urdf`` of AgileX's Piper_ros at 116596ce, the gripper's
base and two fingers taken together."""

LINK_COM_M = (
    0.00032, -0.00041, -0.00348,
    0.21852, -0.00861, 0.00126,
    -0.01999, -0.14808, -0.00053,
    0.00013, -0.00076, -0.00394,
    0.00018, -0.06104, -0.00227,
    -0.00003, 0.00006, 0.04618,
    0.0, 0.0, 0.03759,
)  # fmt: skip
"""Centres of mass x, y, z in the links' own frames, the gripper's in the flange's; same source."""

GRAVITY_M_S2 = (0.0, 0.0, -9.81)
"""In base_link of an arm that stands upright."""

BODIES = len(LINK_MASS_KG)


class GravityModel:
    """The gravity torques of one arm.

    Args:
        kinematics: Of the arm.
        link_mass_kg: Masses [7] of links 1 to 6 and the gripper with what it always carries.
        link_com_m: Their centres of mass, 7 times x, y, z.
        gravity_m_s2: Gravity in base_link.

    Raises:
        ConfigError: A list has another length, a mass is negative, or a number is not finite.
    """

    def __init__(
        self,
        kinematics: PiperKinematics,
        link_mass_kg: Sequence[float] = LINK_MASS_KG,
        link_com_m: Sequence[float] = LINK_COM_M,
        gravity_m_s2: Sequence[float] = GRAVITY_M_S2,
    ) -> None:
        _check("control.gravity.link_mass_kg", link_mass_kg, BODIES)
        _check("control.gravity.link_com_m", link_com_m, 3 * BODIES)
        _check("control.gravity.gravity_m_s2", gravity_m_s2, 3)
        if min(link_mass_kg) < 0.0:
            raise ConfigError(
                "a mass is negative", where="control.gravity.link_mass_kg", got=min(link_mass_kg)
            )
        self._kinematics = kinematics
        self._weight_n = np.outer(link_mass_kg, gravity_m_s2)
        com = np.ones((BODIES, 4))
        com[:, :3] = np.reshape(link_com_m, (BODIES, 3))
        self._com = com

    def torques(self, q: Sequence[float]) -> Six:
        """Torques [6] in N·m that hold joints ``q`` (rad): the slope of the potential energy.

        Raises:
            KinematicsError: ``q`` is not six finite angles.
        """
        frames = self._kinematics.frames(q)
        bodies = np.concatenate((frames, frames[-1:]))
        com = np.einsum("bij,bj->bi", bodies, self._com)[:, :3]
        axes, origins = frames[:, :3, 2], frames[:, :3, 3]
        lever = com[None, :, :] - origins[:, None, :]
        slope = np.einsum("jbi,bi->jb", np.cross(axes[:, None, :], lever), self._weight_n)
        moved = np.arange(BODIES)[None, :] >= np.arange(len(frames))[:, None]
        t1, t2, t3, t4, t5, t6 = (-(slope * moved).sum(axis=1)).tolist()
        return t1, t2, t3, t4, t5, t6


def greatest_loads(model: GravityModel, samples: int = 1000) -> Six:
    """About the greatest torque [6] in N·m that each joint must hold anywhere inside its limits."""
    low, high = np.transpose(JOINT_LIMITS_RAD)
    poses = np.random.default_rng(0).uniform(low, high, (samples, len(low)))
    l1, l2, l3, l4, l5, l6 = np.max([np.abs(model.torques(q)) for q in poses.tolist()], axis=0).tolist()
    return l1, l2, l3, l4, l5, l6


def _check(where: str, values: Sequence[float], count: int) -> None:
    if len(values) != count or not np.all(np.isfinite(values)):
        raise ConfigError(
            "not a gravity model", where=where, expected=f"{count} finite numbers", got=len(values)
        )

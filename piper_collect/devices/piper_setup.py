"""A session's configuration to the Piper it describes."""

from piper_collect.config.schema import SessionConfig
from piper_collect.core.arm_guard import GuardConfig
from piper_collect.core.gravity import GravityModel, greatest_loads
from piper_collect.core.kinematics import JOINT_NAMES, PiperKinematics
from piper_collect.core.mit import TORQUE_N_M, ImpedanceGains, impedance_gains
from piper_collect.devices.arm_control import ArmControl, ArmControlConfig
from piper_collect.devices.piper_can import PiperCan
from piper_collect.errors import ConfigError


def piper_control(config: SessionConfig) -> ArmControl:
    """The control of the Piper of section ``can``; nothing is opened yet.

    Raises:
        ConfigError: The control settings cannot be used with it.
    """
    can = config.can
    device = PiperCan(
        channel=can.channel,
        interface=can.interface,
        bitrate=can.bitrate,
        speed_percent=can.speed_percent,
        gripper_effort_n_m=can.gripper_effort_n_m,
        connect_timeout_s=can.connect_timeout_s,
        silence_s=can.silence_s,
    )
    return ArmControl(device, control_config(config))


def control_config(config: SessionConfig) -> ArmControlConfig:
    """How the session's arm is controlled.

    Raises:
        ConfigError: A setting of ``control`` or ``can`` cannot be used.
    """
    can = config.can
    gains = _gains(config)
    carried = gains is not None and config.control.impedance.gravity_ff
    return ArmControlConfig(
        guard=GuardConfig(
            max_step_rad=can.max_step_rad,
            watchdog_s=can.watchdog_s,
            control_period_s=1.0 / config.session.control_rate_hz,
        ),
        dh_offset=config.arm.dh_offset,
        firmware=config.arm.firmware,
        gains=gains,
        gravity=_gravity(config) if carried else None,
        enable_on_start=can.enable_on_start,
        enable_timeout_s=can.enable_timeout_s,
        disable_on_stop=can.on_stop == "disable",
    )


def cautions(config: SessionConfig) -> tuple[str, ...]:
    """Joints that impedance control cannot hold everywhere, by the model of ``control.gravity``; in words.

    No spring is stretched further than ``can.max_step_rad`` while it follows, so what it gives is limited.

    Raises:
        ConfigError: A setting of ``control`` cannot be used.
    """
    gains = _gains(config)
    if gains is None:
        return ()
    ahead = TORQUE_N_M.high if config.control.impedance.gravity_ff else 0.0
    told = []
    for name, load, kp in zip(JOINT_NAMES, greatest_loads(_gravity(config)), gains.kp, strict=True):
        holds = kp * config.can.max_step_rad + min(ahead, load)
        if holds < load:
            told.append(
                f"{name} may sink: it must hold up to {load:.1f} N·m and gets {holds:.1f} "
                "from its spring (kp times can.max_step_rad) and control.impedance.gravity_ff"
            )
    return tuple(told)


def _gravity(config: SessionConfig) -> GravityModel:
    model = config.control.gravity
    kinematics = PiperKinematics(config.arm.dh_offset)
    return GravityModel(kinematics, model.link_mass_kg, model.link_com_m, model.gravity_m_s2)


def _gains(config: SessionConfig) -> ImpedanceGains | None:
    control = config.control
    if control.backend == "position":
        return None
    if control.backend == "impedance":
        return impedance_gains(control.impedance.kp, control.impedance.kd, control.impedance.t_ff)
    raise ConfigError(
        "a real arm has no such backend",
        where="control.backend",
        got=control.backend,
        valid=("position", "impedance"),
    )

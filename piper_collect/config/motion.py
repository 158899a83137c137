"""What the arm may do, out of the session configuration."""

from piper_collect.config.schema import SessionConfig
from piper_collect.core.motion import MotionConfig


def motion_config(config: SessionConfig) -> MotionConfig:
    """The limits of the motion layer under ``config``, the same for all that moves the arm.

    Raises:
        ConfigError: A limit is none.
    """
    settings = config.teleop
    return MotionConfig(
        dh_offset=config.arm.dh_offset,
        workspace_min_m=settings.workspace_min_m,
        workspace_max_m=settings.workspace_max_m,
        max_linear_m_s=settings.max_linear_m_s,
        max_angular_rad_s=settings.max_angular_rad_s,
        max_gripper_m_s=settings.max_gripper_m_s,
        joint_speed_scale=settings.joint_speed_scale,
        home_speed_rad_s=settings.home_speed_rad_s,
        max_deviation_rad=settings.max_deviation_rad,
        control_period_s=1.0 / config.session.control_rate_hz,
    )

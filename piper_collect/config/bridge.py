"""The vendor's arm node, which the arm bridge talks to: its names, and what is known of it."""

from dataclasses import dataclass, replace
from typing import Literal

from piper_collect.config.checks import check_topic

Vendor = Literal["piper_ros", "agx_arm_ros"]
FlangePose = Literal["kinematics", "vendor", "vendor_unstamped"]
Degrees = Literal["by_vendor", "corrected", "as_sent"]

_EFFORT_N_M = (0.5, 3.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class BridgeSettings:
    """The arm's vendor node, for ``devices.arm: bridge``.

    Attributes:
        vendor: Whose node it is; decides the names below, the message types, and what is put right.
        joint_states: Topic of the measured joints; empty for the vendor's name, here and below.
        end_pose: Topic of the measured flange pose.
        arm_status: Topic of the arm's status.
        joint_command: Topic that the arm takes joint commands from.
        enable_service: Service that switches the motors.
        flange_pose: Where the flange pose comes from: ``kinematics`` of the joints, or the ``vendor``'s own;
            ``vendor_unstamped`` for a node that has it without a header, stamped here when it arrives.
        degrees: Whether the wrong degree constant of piper_ros is ``corrected``, joints and commands, or
            taken ``as_sent``; ``by_vendor`` corrects piper_ros and leaves agx_arm_ros alone.
        gripper_factor: The reported gripper position times this is the full opening in m: 2.0 where half of
            it is reported, negative where it comes with the wrong sign.
        gripper_multiple: What the vendor's node multiplies a commanded width by: its parameter
            ``gripper_val_mutiple``, or 2.0 where ``rviz_ctrl_flag`` is set.
        gripper_max_m: Greatest opening of the gripper; more is never sent.
        gripper_effort_n_m: Torque that the gripper may close with, 0.5 to 3 (piper_ros).
        speed_percent: Share of the arm's own speed that each command allows (piper_ros).
        command_rate_hz: Commands a second that are passed on, the newest each time.
        watchdog_s: A command older than this is not passed on.
        silence_s: Nothing is passed on while the newest measurement is older than this.
        max_step_rad: A command that sends a joint further than this from where it is is not passed on.
        enable_on_start: Whether to switch the motors on as soon as the arm is heard.
        enable_timeout_s: How long the vendor's node may take to answer that.
    """

    vendor: Vendor = "piper_ros"
    joint_states: str = ""
    end_pose: str = ""
    arm_status: str = ""
    joint_command: str = ""
    enable_service: str = ""
    flange_pose: FlangePose = "kinematics"
    degrees: Degrees = "by_vendor"
    gripper_factor: float = 1.0
    gripper_multiple: float = 1.0
    gripper_max_m: float = 0.07
    gripper_effort_n_m: float = 1.0
    speed_percent: int = 100
    command_rate_hz: float = 100.0
    watchdog_s: float = 0.5
    silence_s: float = 0.25
    max_step_rad: float = 0.5
    enable_on_start: bool = False
    enable_timeout_s: float = 8.0

    def __post_init__(self) -> None:
        for name in (
            "gripper_multiple",
            "gripper_max_m",
            "command_rate_hz",
            "watchdog_s",
            "silence_s",
            "max_step_rad",
            "enable_timeout_s",
        ):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be above 0 (got {getattr(self, name)})")
        for name in ("joint_states", "end_pose", "arm_status", "joint_command", "enable_service"):
            if getattr(self, name):
                check_topic(name, getattr(self, name))
        if self.flange_pose == "vendor_unstamped" and self.vendor == "agx_arm_ros":
            raise ValueError("agx_arm_ros has no pose without a header: flange_pose must be another")
        if self.gripper_factor == 0:
            raise ValueError("gripper_factor must not be 0")
        if not _EFFORT_N_M[0] <= self.gripper_effort_n_m <= _EFFORT_N_M[1]:
            raise ValueError(f"gripper_effort_n_m must be from 0.5 to 3 (got {self.gripper_effort_n_m:g})")
        if not 1 <= self.speed_percent <= 100:
            raise ValueError(f"speed_percent must be from 1 to 100 (got {self.speed_percent})")

    @property
    def corrects_degrees(self) -> bool:
        """Whether radians of the vendor's node are put right, both ways."""
        return self.degrees == "corrected" or (self.degrees == "by_vendor" and self.vendor == "piper_ros")


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorNames:
    """Topics, service and types of a vendor's node; relative names.

    Attributes:
        joint_states: JointState.
        end_pose: PoseStamped.
        end_pose_unstamped: Pose; empty where there is none.
        arm_status: Of ``status_type``.
        joint_command: JointState.
        enable_service: Of ``enable_type``.
        status_type: ``package/Name`` of the status message.
        enable_type: ``package/Name`` of the enabling service.
        package: ROS package of the node.
        start: The command that starts it.
    """

    joint_states: str
    end_pose: str
    end_pose_unstamped: str = ""
    arm_status: str
    joint_command: str
    enable_service: str
    status_type: str
    enable_type: str
    package: str
    start: str


VENDORS: dict[Vendor, VendorNames] = {
    # agilexrobotics/Piper_ros, piper_ctrl_single_node
    "piper_ros": VendorNames(
        joint_states="joint_states_single",
        end_pose="end_pose_stamped",
        end_pose_unstamped="end_pose",
        arm_status="arm_status",
        joint_command="joint_ctrl_single",
        enable_service="enable_srv",
        status_type="piper_msgs/PiperStatusMsg",
        enable_type="piper_msgs/Enable",
        package="piper",
        start="ros2 run piper piper_single_ctrl --ros-args -p can_port:=can0 -p auto_enable:=false",
    ),
    # agilexrobotics/agx_arm_ros, agx_arm_ctrl_single_node
    "agx_arm_ros": VendorNames(
        joint_states="feedback/joint_states",
        end_pose="feedback/tcp_pose",
        arm_status="feedback/arm_status",
        joint_command="control/joint_states",
        enable_service="enable_agx_arm",
        status_type="agx_arm_msgs/AgxArmStatus",
        enable_type="std_srvs/SetBool",
        package="agx_arm_ctrl",
        start="ros2 launch agx_arm_ctrl start_single_agx_arm.launch.py can_port:=can0 arm_type:=piper "
        "effector_type:=agx_gripper auto_enable:=false",
    ),
}


def vendor_names(settings: BridgeSettings) -> VendorNames:
    """The names in force: the vendor's, with those that are set in their place."""
    names = VENDORS[settings.vendor]
    pose = "end_pose_unstamped" if settings.flange_pose == "vendor_unstamped" else "end_pose"
    changed = {
        "joint_states": settings.joint_states,
        pose: settings.end_pose,
        "arm_status": settings.arm_status,
        "joint_command": settings.joint_command,
        "enable_service": settings.enable_service,
    }
    return replace(names, **{key: name for key, name in changed.items() if name})

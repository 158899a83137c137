"""The arm bridge as a process of its own, with a vendor's node of the test before it."""

import math
from dataclasses import replace

from fake_piper_ros import NAMES, REST_DEG

from piper_collect.config.bridge import BridgeSettings
from piper_collect.config.schema import SessionConfig

REST_RAD = [math.radians(d) for d in REST_DEG]
ELSEWHERE = [q + d for q, d in zip(REST_RAD, (0.2, -0.1, 0.1, 0.15, -0.2, 0.3), strict=True)]
BUS_RAD = math.radians(0.001)


def bridge_config(*, dh_offset="s_v1_6_3", vendor_name="piper_ros", **settings):
    base = SessionConfig()
    return replace(
        base,
        devices=replace(base.devices, arm="bridge"),
        arm=replace(base.arm, dh_offset=dh_offset),
        bridge=BridgeSettings(vendor=vendor_name, silence_s=1.0, **settings),
    )


class Bridge:
    """A bridge, the vendor's node before it, and what the session hears."""

    def __init__(self, rig, vendor, *, site=None, parameters=None, **settings):
        from geometry_msgs.msg import PoseStamped
        from piper_collect.msg import ArmStatus
        from sensor_msgs.msg import JointState

        self.rig, self.vendor = rig, vendor
        self.joints = rig.listen(JointState, "/arm/joint_states")
        self.poses = rig.listen(PoseStamped, "/arm/flange_pose")
        self.statuses = rig.listen(ArmStatus, "/arm/status")
        self.commands = rig.publisher(JointState, "/arm/joint_command")
        self.process = rig.start(
            "arm_bridge_node", bridge_config(**settings), site=site, **(parameters or {})
        )

    def heard(self, count=1):
        """Wait for ``count`` more joint states."""
        first = len(self.joints)
        self.rig.until(lambda: len(self.joints) >= first + count, "the bridge is silent")
        return self.joints[first : first + count]

    def command(self, q, width_m=0.05, names=NAMES, age_s=0.0, at_ns=None):
        from sensor_msgs.msg import JointState

        from piper_collect.nodes.convert import stamp_msg

        message = JointState(name=list(names), position=[*q, width_m][: len(names)])
        sent_ns = self.rig.now_ns() - int(age_s * 1e9) if at_ns is None else at_ns
        message.header.stamp = stamp_msg(sent_ns)
        self.commands.publish(message)

    def until_logged(self, text, *, meanwhile=None):
        self.rig.until(lambda: text in self.process.log(), f"not told: {text}", meanwhile=meanwhile)

    def faults(self):
        """What the last status says is wrong, in one text."""
        return "; ".join(self.statuses[-1].faults) if self.statuses else ""

    def enable(self, on=True):
        """Switch the motors; asked again while the bridge has not found the vendor's service yet."""
        from std_srvs.srv import SetBool

        answers = []

        def settled():
            answers.append(self.rig.call(SetBool, "/arm/enable", data=on))
            return not answers[-1].message.startswith("nobody serves")

        self.rig.until(settled, "the bridge does not find the vendor's service")
        return answers[-1]


class RosClock:
    """The clock of nodes on simulation time: that of this machine, until the test sets it."""

    def __init__(self, rig):
        from rosgraph_msgs.msg import Clock

        self.rig, self.ahead_ns = rig, 0
        self._publisher = rig.publisher(Clock, "/clock")

    def now_ns(self):
        return self.rig.now_ns() + self.ahead_ns

    def show(self):
        """Let the nodes know what time it is."""
        from rosgraph_msgs.msg import Clock

        from piper_collect.nodes.convert import stamp_msg

        self._publisher.publish(Clock(clock=stamp_msg(self.now_ns())))


def stamps_ns(messages):
    return [m.header.stamp.sec * 10**9 + m.header.stamp.nanosec for m in messages]

"""An arm and a clock that do exactly what a test says."""

import math
from dataclasses import replace

from piper_collect.core.arm_report import ArmReport
from piper_collect.core.kinematics import WORKING_POSE_RAD
from piper_collect.devices.arm import ArmSnapshot

ON = 1 << 6


class FakeArm:
    """Obeys at once, moves nowhere by itself, and keeps all it was told.

    Time is its own: ``sleep`` lets it pass.
    """

    def __init__(self, *, q=WORKING_POSE_RAD, width_m=0.04, firmware="S-V1.8-5") -> None:
        self.now_ns = 10**9
        self.q, self.width_m = q, width_m
        self.firmware = firmware
        self.told: list[tuple] = []
        self.state = ArmReport(
            control_mode=0, arm_status=0, move_mode=0, error_code=0, motor_flags=(0,) * 6, gripper_flags=ON
        )
        self.silent = self.failed = ""
        self.stuck: tuple[int, ...] = ()
        self.stubborn = False
        self.open_ = False
        self.closed = 0

    def clock_ns(self):
        return self.now_ns

    def sleep(self, seconds):
        self.now_ns += int(seconds * 1e9)

    def sent(self, kind):
        """What it was told of one kind."""
        return [what for known, *what in self.told if known == kind]

    # -- the device ----------------------------------------------------------------------------

    def open(self, on_snapshot):
        self.open_ = True
        on_snapshot(self.snapshot())

    def snapshot(self):
        return ArmSnapshot(
            stamp_ns=self.now_ns,
            q=self.q,
            qdot=None,
            effort_n_m=None,
            width_m=self.width_m,
            gripper_effort_n_m=math.nan,
        )

    def report(self):
        return self.state

    def silence(self):
        return self.silent

    def send_error(self):
        text, self.failed = self.failed, ""
        return text

    def enable(self):
        self.told.append(("enable",))
        flags = tuple(0 if n in self.stuck else ON for n in range(1, 7))
        self.state = replace(self.state, motor_flags=flags)

    def disable(self):
        self.told.append(("disable",))

    def set_mode(self, move_mode):
        self.told.append(("mode", move_mode))
        if not self.stubborn:
            self.state = replace(self.state, control_mode=1, move_mode=move_mode)

    def send_position(self, q):
        self.told.append(("position", q))

    def send_impedance(self, commands):
        self.told.append(("impedance", tuple(commands)))

    def send_width(self, width_m):
        self.told.append(("width", width_m))

    def close(self):
        self.closed += 1

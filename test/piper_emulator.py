"""A Piper at the level of its CAN frames, for the real piper_sdk to talk to.

It sends and obeys what a real arm does, as far as that is known: 2A1 to 2A8 and 251 to 256 at 200 Hz, 261 to
266 at 40 Hz, 4AF and 472 on request; 150, 151, 155 to 157, 159, 15A to 15F and 471 move it. Where the real
one is not known it is made unkind: it goes to an old target as soon as it is allowed to.

In a test it runs in a thread on a bus of python-can. As a process (``python test/piper_emulator.py``) it is
on udp_multicast; SIGUSR1 makes it silent, and again not, and at SIGTERM it writes what it has seen as JSON.
"""

import argparse
import json
import math
import re
import signal
import struct
import threading
import time
from pathlib import Path

import can
from scipy.spatial.transform import Rotation

from piper_collect.core.kinematics import WORKING_POSE_RAD, PiperKinematics

COMMANDS = {0x150, 0x151, 0x155, 0x156, 0x157, 0x159, *range(0x15A, 0x160), 0x471, 0x472, 0x4AF}
CURRENT_MA = 100
LAG_S = 0.03
TOP_SPEED_RAD_S = 3.0
GRIPPER_M_S = 0.2
INERTIA_KG_M2 = 0.05
FRICTION = 0.3
SUBSTEPS = 5


class PiperEmulator:
    """One arm on one bus. Everything public may be read, and the faults set, at any time."""

    def __init__(
        self,
        bus,
        *,
        firmware="S-V1.8-5",
        q=WORKING_POSE_RAD,
        width_m=0.05,
        old_target=(0.0, 2.0, -2.0, 0.5, 0.5, 1.0),
        gravity=None,
        deaf_requests=0,
        stuck=(),
        rate_hz=200.0,
    ) -> None:
        self.bus = bus
        self.firmware = firmware
        self.q, self.qd = list(q), [0.0] * 6
        self.width_m = width_m
        self.target, self.target_width_m = list(old_target), 0.0
        self.enabled, self.gripper_on = [False] * 6, False
        self.control_mode = self.move_mode = self.mit_switch = 0
        self.speed_percent = 100
        self.mit = [(0.0, 0.0, 0.0, 0.0, 0.0)] * 6
        self.gravity = gravity
        self.deaf_requests = deaf_requests
        self.stuck = set(stuck)
        self.period_s = 1.0 / rate_hz
        # faults
        self.silent = False
        self.mute: set[int] = set()
        self.mute_next: list[set[int]] = []
        self.wild = False
        self.arm_status = self.error_code = self.gripper_bits = 0
        self.motor_bits = [0] * 6
        self.taught = False
        # what happened
        self.received: list[tuple[int, bytes]] = []
        self.readings: list[tuple[int, ...]] = []
        self.said: list[tuple[int, ...]] = []
        self.bad_checksums = 0
        self._speed = [0.0] * 6
        self.widths: set[int] = set()
        self.ticks = 0
        self._kinematics = PiperKinematics("s_v1_6_3")
        self._running = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._running.set()
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._running.clear()
        self._thread.join(5.0)
        self.bus.shutdown()

    def frames(self, number):
        """Payloads that came with a CAN id."""
        return [payload for known, payload in list(self.received) if known == number]

    def moved(self, since_q):
        """Greatest distance of a joint from ``since_q``."""
        return max(abs(a - b) for a, b in zip(self.q, since_q, strict=True))

    # -- time ----------------------------------------------------------------------------------

    def _run(self):
        due_s = time.perf_counter()
        while self._running.is_set():
            self._receive_until(due_s)
            self._move()
            if not self.silent:
                self._send_cycle()
            self.ticks += 1
            due_s = max(due_s + self.period_s, time.perf_counter() + 0.9 * self.period_s)  # never in bursts

    def _receive_until(self, due_s):
        while True:
            left_s = due_s - time.perf_counter()
            message = self.bus.recv(max(0.0, left_s))
            if message is None:
                return
            if message.arbitration_id in COMMANDS:
                self._obey(message.arbitration_id, bytes(message.data))
            if left_s < -self.period_s:
                return

    def _send(self, number, payload):
        if number not in self.mute:
            self.bus.send(can.Message(arbitration_id=number, data=payload, is_extended_id=False))

    # -- what it hears -------------------------------------------------------------------------

    def _obey(self, number, data):
        self.received.append((number, data))
        if number == 0x150 and data[0] == 1:
            self.arm_status = 1
        elif number == 0x151 and not self.taught:
            self.control_mode, self.move_mode, self.speed_percent, self.mit_switch = data[:4]
        elif 0x155 <= number <= 0x157:
            first = 2 * (number - 0x155)
            self.target[first : first + 2] = [math.radians(raw / 1e3) for raw in struct.unpack(">ii", data)]
        elif number == 0x159:
            raw, _, code, _ = struct.unpack(">iHBB", data)
            self.target_width_m, self.gripper_on = raw / 1e6, code in (1, 3)
        elif 0x15A <= number <= 0x15F:
            self._obey_mit(number - 0x15A, data)
        elif number == 0x471:
            self._obey_enable(data[0], on=data[1] == 2)
        elif number == 0x472:
            self._send(0x473, struct.pack(">BhhHB", data[0], 1500, -1500, 3000, 0))
        elif number == 0x4AF and data[0] == 1:
            self._say_firmware()

    def _obey_enable(self, motor, *, on):
        for index in range(6) if motor in (7, 0xFF) else [motor - 1]:
            self.enabled[index] = on and index + 1 not in self.stuck

    def _obey_mit(self, index, d):
        nibbles = d[0] ^ d[1] ^ d[2] ^ d[3] ^ d[4] ^ d[5] ^ d[6]
        self.bad_checksums += (nibbles & 0xF) != d[7] & 0xF
        self.mit[index] = (
            ((d[0] << 8) | d[1]) * 25.0 / 65535 - 12.5,
            ((d[2] << 4) | (d[3] >> 4)) * 90.0 / 4095 - 45.0,
            (((d[3] & 15) << 8) | d[4]) * 500.0 / 4095,
            ((d[5] << 4) | (d[6] >> 4)) * 10.0 / 4095 - 5.0,
            (((d[6] & 15) << 4) | (d[7] >> 4)) * 16.0 / 255 - 8.0,
        )

    def _say_firmware(self):
        if self.deaf_requests > 0:
            self.deaf_requests -= 1
            return
        text = f"Piper__ H-V1.2-1{self.firmware:<8}2025-01-01      ".encode()
        for first in range(0, len(text), 8):
            self._send(0x4AF, text[first : first + 8])

    # -- how it moves --------------------------------------------------------------------------

    def _move(self):
        commanded = self.control_mode == 1 and self.arm_status != 1
        before = list(self.q)
        if commanded and self.move_mode == 1 and not self.mit_switch:
            self._move_to_target()
        elif commanded and self.move_mode == 4 and self.mit_switch == 0xAD:
            for _ in range(SUBSTEPS):
                self._spring(self.period_s / SUBSTEPS)
        self.qd = [(a - b) / self.period_s for a, b in zip(self.q, before, strict=True)]
        if self.gripper_on:
            step = GRIPPER_M_S * self.period_s
            self.width_m += min(max(self.target_width_m - self.width_m, -step), step)

    def _move_to_target(self):
        most = TOP_SPEED_RAD_S * self.speed_percent / 100 * self.period_s
        share = 1.0 - math.exp(-self.period_s / LAG_S)
        for index, wanted in enumerate(self.target):
            if self.enabled[index]:
                self.q[index] += min(max((wanted - self.q[index]) * share, -most), most)
        self._speed = [0.0] * 6

    def _spring(self, dt_s):
        version = tuple(map(int, re.findall(r"\d+", self.firmware)))
        load = self.gravity.torques(self.q) if self.gravity else [0.0] * 6
        for index, (position, speed, kp, kd, torque) in enumerate(self.mit):
            sign = -1.0 if version < (1, 7, 3) and index + 1 in (1, 2, 4, 6) else 1.0
            times = 4.0 if version <= (1, 8, 2) and index + 1 in (1, 2, 3) else 1.0
            qd = self._speed[index]
            drive = kp * (sign * position - self.q[index]) + kd * (sign * speed - qd) + sign * times * torque
            if self.enabled[index]:
                self._speed[index] = qd + (drive - load[index] - FRICTION * qd) / INERTIA_KG_M2 * dt_s
                self.q[index] += self._speed[index] * dt_s

    # -- what it says --------------------------------------------------------------------------

    def _send_cycle(self):
        raw = tuple(round(math.degrees(angle) * 1e3) for angle in self.q)
        lost = self.mute_next.pop(0) if self.mute_next else set()
        said = (*raw[:2], 4_000_000, *raw[3:]) if self.wild else raw
        for pair in range(3):
            if 0x2A5 + pair not in lost:
                self._send(0x2A5 + pair, struct.pack(">ii", *said[2 * pair : 2 * pair + 2]))
        if not (self.mute | lost) & {0x2A5, 0x2A6, 0x2A7} and not self.wild:
            self.readings.append(raw)
        pose = self._send_pose(raw)
        width = round(self.width_m * 1e6)
        self.widths.add(width)
        self.said.append((time.time_ns(), *raw, *pose, width))
        bits = self.gripper_bits | self.gripper_on << 6 | 1 << 7
        self._send(0x2A8, struct.pack(">ihBB", width, 500, bits, 0))
        mode = 2 if self.taught else self.control_mode
        self._send(
            0x2A1, struct.pack(">6BH", mode, self.arm_status, self.move_mode, 0, 0, 0, self.error_code)
        )
        for index in range(6):
            speed = round(self.qd[index] * 1e3)
            self._send(0x251 + index, struct.pack(">hhi", speed, CURRENT_MA * (index + 1), 0))
        if self.ticks % 5 == 0:
            for index in range(6):
                flags = self.motor_bits[index] | self.enabled[index] << 6
                self._send(0x261 + index, struct.pack(">HhbBH", 480, 35, 30, flags, 200))

    def _send_pose(self, raw):
        """Send the flange pose as the firmware does, in µm and 0.001 degrees; what was sent."""
        x, y, z, w, i, j, k = self._kinematics.forward_scalar([math.radians(value / 1e3) for value in raw])
        roll, pitch, yaw = Rotation.from_quat((i, j, k, w)).as_euler("xyz", degrees=True)
        values = [round(v * 1e6) for v in (x, y, z)] + [round(v * 1e3) for v in (roll, pitch, yaw)]
        for pair in range(3):
            self._send(0x2A2 + pair, struct.pack(">ii", *values[2 * pair : 2 * pair + 2]))
        return values


def main() -> None:
    """Run one arm on udp_multicast until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--channel", default="239.74.163.2")
    parser.add_argument("--firmware", default="S-V1.8-5")
    parser.add_argument("--q", type=float, nargs=6, default=WORKING_POSE_RAD)
    parser.add_argument("--report", type=Path)
    arguments = parser.parse_args()
    end = threading.Event()
    bus = can.Bus(interface="udp_multicast", channel=arguments.channel, fd=False)
    with PiperEmulator(bus, firmware=arguments.firmware, q=arguments.q) as arm:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: end.set())
        signal.signal(signal.SIGUSR1, lambda *_: setattr(arm, "silent", not arm.silent))
        print("running", flush=True)
        while not end.wait(0.1):
            pass
        seen = {
            "q": arm.q,
            "width_m": arm.width_m,
            "enabled": arm.enabled,
            "control_mode": arm.control_mode,
            "move_mode": arm.move_mode,
            "target": arm.target,
            "readings": len(arm.readings),
            "least_width_m": min(arm.widths) / 1e6,
            "mit_switch": arm.mit_switch,
            "mit": arm.mit,
            "said": arm.said,
        }
    if arguments.report:
        arguments.report.write_text(json.dumps(seen), encoding="utf-8")


if __name__ == "__main__":
    main()

"""A Piper on its CAN bus, through AgileX's ``piper_sdk`` 0.6.2.

What the SDK does, and what is done about it here:

- Its getters return one live object, and the joints arrive in three frames: a reader in another thread sees
  parts of two readings. So everything is read in the SDK's own thread, right after it has parsed a frame, and
  a reading is taken only when the three frames came in order and close together.
- It leaves out a frame with wild values and keeps the old ones: seen by the time stamp that stays behind.
- Velocities and torques are 0 until their frames come: they are left out until all six have come.
- It swallows whatever its frame callback raises, and only logs a failed send: ``send_error`` has both.
- It clears the firmware text after asking for it, so a quick answer can be cut: it is asked again.
- A bus that cannot be opened is not an error to it, and one object serves a channel as long as the process
  lives.
"""

import importlib
import logging
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

from piper_collect.core.arm_report import CAN_CONTROL, MOVE_J, MOVE_M, ArmReport
from piper_collect.core.kinematics import Joints
from piper_collect.core.mit import MitCommand
from piper_collect.core.piper_firmware import Six, firmware_version
from piper_collect.devices.arm import ArmSnapshot, OnSnapshot
from piper_collect.devices.can_port import check_can_port
from piper_collect.errors import ArmError

_STATUS, _GRIPPER = 0x2A1, 0x2A8
_JOINTS = (0x2A5, 0x2A6, 0x2A7)
_SPEEDS = tuple(range(0x251, 0x257))
_MOTORS = tuple(range(0x261, 0x267))

_READING_SPAN_S = 0.004
"""The three frames of a reading lie within 1 ms on the bus and readings 5 ms apart."""

_SPEEDS_FRESH_S = 0.1
_MOTORS_SLOWER = 5
"""The motors' status comes at 40 Hz, everything else at 200 Hz."""

_LOOK_S = 0.025
_FIRMWARE_TRIES = 20
_FIRMWARE_LOOKS = 4
_FRAME_BYTES = 8
_MIT_SWITCH = {MOVE_J: 0x00, MOVE_M: 0xAD}
_SDK_LOGGER = "PIPER"


class PiperCan:
    """One Piper.

    Args:
        channel: ``can0``; a name (``virtual``), or a multicast address (``udp_multicast``).
        interface: Interface of python-can: ``socketcan``, ``virtual`` or ``udp_multicast``.
        bitrate: Of the bus.
        speed_percent: How fast the arm's own position control may go.
        gripper_effort_n_m: Greatest gripper torque, to 5 N·m.
        connect_timeout_s: How long the first feedback may take.
        silence_s: Feedback that is older has stopped.
    """

    def __init__(
        self,
        *,
        channel: str,
        interface: str = "socketcan",
        bitrate: int = 1_000_000,
        speed_percent: int = 100,
        gripper_effort_n_m: float = 1.0,
        connect_timeout_s: float = 5.0,
        silence_s: float = 0.25,
    ) -> None:
        self._channel = channel
        self._interface = interface
        self._bitrate = bitrate
        self._speed_percent = speed_percent
        self._gripper_effort = round(gripper_effort_n_m * 1e3)
        self._connect_timeout_s = connect_timeout_s
        self._silence_s = silence_s
        self._sdk: Any = None
        self._parse: Callable[[Any], None] = lambda _frame: None
        self._on_snapshot: OnSnapshot = lambda _snapshot: None
        self._errors = _SdkErrors()
        self._firmware = ""
        self._snapshot: ArmSnapshot | None = None
        self._report: ArmReport | None = None
        self._heard_ns: dict[int, int] = {}
        self._stamp_s: dict[int, float] = {}
        self._expected = 0
        self.torn = 0
        """Readings left out: a frame was lost, late or wild, or the gripper silent."""

    @property
    def firmware(self) -> str:
        """As the arm reports it; empty when it did not."""
        return self._firmware

    # -- opening and closing -------------------------------------------------------------------

    def open(self, on_snapshot: OnSnapshot) -> None:
        """Connect, wait until every kind of feedback has come, read the firmware.

        Raises:
            ArmError: The SDK is not installed, the bus cannot be opened, or the arm is silent.
        """
        sdk = _sdk()
        if self._interface == "socketcan":
            check_can_port(self._channel, self._bitrate)
        logging.getLogger(_SDK_LOGGER).addHandler(self._errors)
        self._on_snapshot = on_snapshot
        self._sdk = sdk.C_PiperInterface_V2(
            self._channel, judge_flag=False, can_auto_init=False, logger_level=sdk.LogLevel.SILENT
        )
        try:
            self._open_bus()
            self._wait_for_feedback()
            self._firmware = self._read_firmware()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Leave the bus; nothing is sent. May be called at any time, also twice."""
        if self._sdk is None:
            return
        self._on_snapshot = lambda _snapshot: None
        sdk, self._sdk = self._sdk, None
        if sdk.get_connect_status():
            sdk.DisconnectPort()
        elif sdk.GetCanBus() is not None:
            sdk.GetCanBus().Close()
        logging.getLogger(_SDK_LOGGER).removeHandler(self._errors)

    def _open_bus(self) -> None:
        where = f"{self._interface} {self._channel}"
        try:
            self._sdk.CreateCanBus(self._channel, self._interface, self._bitrate, judge_flag=False)
        except ConnectionError as err:
            raise ArmError("the CAN bus cannot be opened", where=where, got=self._errors.take()) from err
        bus = self._sdk.GetCanBus()
        if bus.recv_bus is None or bus.send_bus is None:
            raise ArmError("the CAN bus cannot be opened", where=where)
        self._parse, bus.callback_function = bus.callback_function, self._listen
        self._sdk.ConnectPort(piper_init=False)

    def _wait_for_feedback(self) -> None:
        end_s = time.monotonic() + self._connect_timeout_s
        while self._snapshot is None or self._report is None:
            if time.monotonic() > end_s:
                heard = ", ".join(f"{number:X}" for number in sorted(self._heard_ns)) or "nothing"
                raise ArmError(
                    f"no whole feedback from the arm within {self._connect_timeout_s:g} s",
                    where=f"{self._interface} {self._channel}",
                    expected="joints, gripper, status and motors",
                    got=f"CAN ids {heard}",
                    hint="check power, cable and adapter; an arm without a gripper cannot be used",
                )
            time.sleep(_LOOK_S)

    def _read_firmware(self) -> str:
        """The firmware, eight characters as the SDK cuts them; empty when the arm does not say it."""
        for _ in range(_FIRMWARE_TRIES):
            self._sdk.SearchPiperFirmwareVersion()
            for _ in range(_FIRMWARE_LOOKS):
                time.sleep(_LOOK_S)
                text = self._sdk.GetPiperFirmwareVersion()
                if isinstance(text, str) and firmware_version(text):
                    return text.strip()
        return ""

    # -- what the arm says; in the SDK's thread ------------------------------------------------

    def _listen(self, frame: Any) -> None:
        if frame.is_error_frame or frame.is_remote_frame or frame.is_extended_id or frame.dlc != _FRAME_BYTES:
            return
        try:
            self._parse(frame)
            self._take(frame.arbitration_id, float(frame.timestamp))
        except Exception as err:  # the SDK would swallow it
            self._errors.keep(f"a CAN frame could not be taken: {err!r}")

    def _take(self, number: int, stamp_s: float) -> None:
        self._stamp_s[number] = stamp_s
        if number in _JOINTS:
            self._take_joints(_JOINTS.index(number), stamp_s)
            return
        self._heard_ns[number] = time.monotonic_ns()
        if number in (_STATUS, *_MOTORS) and all(
            known in self._heard_ns for known in (_STATUS, _GRIPPER, *_MOTORS)
        ):
            self._report = self._read_report()

    def _take_joints(self, part: int, stamp_s: float) -> None:
        sdk = self._sdk
        if sdk is None:
            return
        accepted = sdk.GetArmJointMsgs().time_stamp == stamp_s
        if part == 0 and self._expected != 0:
            self._leave_out()
        if not accepted or part not in (0, self._expected):
            if part == len(_JOINTS) - 1:
                self._leave_out()
            self._expected = 0
            return
        self._expected = part + 1
        if self._expected < len(_JOINTS):
            return
        self._expected = 0
        if self._is_whole(stamp_s):
            self._heard_ns[_JOINTS[-1]] = time.monotonic_ns()
            self._snapshot = snapshot = self._read_snapshot(stamp_s)
            self._on_snapshot(snapshot)
        else:
            self._leave_out()

    def _leave_out(self) -> None:
        self.torn += self._snapshot is not None  # before the first one there is nothing to lose

    def _is_whole(self, stamp_s: float) -> bool:
        """Whether the three frames are of one reading, not of the last one, and the gripper is known.

        A bus keeps its order: a stamp before the last one is of a clock that was set back, and followed.
        """
        gripper_ns = self._heard_ns.get(_GRIPPER)
        if gripper_ns is None or time.monotonic_ns() - gripper_ns > self._silence_s * 1e9:
            return False
        other = self._snapshot is None or round(stamp_s * 1e9) != self._snapshot.stamp_ns
        return other and abs(stamp_s - self._stamp_s[_JOINTS[0]]) <= _READING_SPAN_S

    def _read_snapshot(self, stamp_s: float) -> ArmSnapshot:
        joints = self._sdk.GetArmJointMsgs().joint_state
        gripper = self._sdk.GetArmGripperMsgs().gripper_state
        speeds = efforts = None
        if all(stamp_s - self._stamp_s.get(number, 0.0) < _SPEEDS_FRESH_S for number in _SPEEDS):
            motors = self._sdk.GetArmHighSpdInfoMsgs()
            speeds = _six(lambda n: getattr(motors, f"motor_{n}").motor_speed / 1e3)
            efforts = _six(lambda n: getattr(motors, f"motor_{n}").effort / 1e3)
        return ArmSnapshot(
            stamp_ns=round(stamp_s * 1e9),
            q=_six(lambda n: math.radians(getattr(joints, f"joint_{n}") / 1e3)),
            qdot=speeds,
            effort_n_m=efforts,
            width_m=gripper.grippers_angle / 1e6,
            gripper_effort_n_m=gripper.grippers_effort / 1e3,
        )

    def _read_report(self) -> ArmReport:
        status = self._sdk.GetArmStatus().arm_status
        motors = self._sdk.GetArmLowSpdInfoMsgs()
        return ArmReport(
            control_mode=int(status.ctrl_mode),
            arm_status=int(status.arm_status),
            move_mode=int(status.mode_feed),
            error_code=int(status.err_code),
            motor_flags=tuple(getattr(motors, f"motor_{n}").foc_status_code for n in range(1, 7)),
            gripper_flags=self._sdk.GetArmGripperMsgs().gripper_state.status_code,
        )

    # -- what is known of it -------------------------------------------------------------------

    def snapshot(self) -> ArmSnapshot | None:
        """The newest whole reading; None before the first."""
        return self._snapshot

    def report(self) -> ArmReport | None:
        """The arm's newest account of itself; None before the first."""
        return self._report

    def silence(self) -> str:
        """Which feedback has stopped, in a few words; empty while all of it comes."""
        if self._sdk is None or not self._sdk.isOk():
            return f"no feedback from the arm on {self._channel}"
        now_ns = time.monotonic_ns()
        for words, numbers, slower in (
            ("gripper", (_GRIPPER,), 1),  # first: without it there is no reading of the joints either
            ("joints", _JOINTS[-1:], 1),
            ("status", (_STATUS,), 1),
            ("motors", _MOTORS, _MOTORS_SLOWER),
        ):
            oldest_ns = min(self._heard_ns.get(number, 0) for number in numbers)
            if now_ns - oldest_ns > self._silence_s * slower * 1e9:
                return f"no feedback of the {words} on {self._channel}"
        return ""

    def send_error(self) -> str:
        """What went wrong in sending since the last call; empty if nothing."""
        return self._errors.take()

    # -- what it is told -----------------------------------------------------------------------

    def enable(self) -> None:
        """Ask for power to all motors."""
        self._sdk.EnableArm(7)

    def disable(self) -> None:
        """Take the power from all motors: the arm falls."""
        if self._sdk is not None:
            self._sdk.DisableArm(7)

    def set_mode(self, move_mode: int) -> None:
        """Ask for control over the bus, in ``MOVE_J`` or ``MOVE_M``."""
        switch = _MIT_SWITCH[move_mode]
        self._sdk.MotionCtrl_2(CAN_CONTROL, move_mode, 0 if switch else self._speed_percent, switch)

    def send_position(self, q: Joints) -> None:
        """Command joints in rad, in ``MOVE_J``."""
        self._sdk.JointCtrl(*(round(math.degrees(angle) * 1e3) for angle in q))

    def send_impedance(self, commands: Sequence[MitCommand]) -> None:
        """Command all six joints' springs, in ``MOVE_M``."""
        for number, c in enumerate(commands, start=1):
            self._sdk.JointMitCtrl(number, c.position_rad, c.speed_rad_s, c.kp, c.kd, c.torque_n_m)

    def send_width(self, width_m: float) -> None:
        """Command the gripper, and switch it on."""
        self._sdk.GripperCtrl(round(width_m * 1e6), self._gripper_effort, 1, 0)


class _SdkErrors(logging.Handler):
    """The newest error that the SDK logged, or that came up in its thread."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self._text = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Keep what the SDK says."""
        self.keep(f"piper_sdk: {record.getMessage()}")

    def keep(self, text: str) -> None:
        """Keep it until it is taken."""
        self._text = text

    def take(self) -> str:
        """The newest text, once; empty if there is none."""
        text, self._text = self._text, ""
        return text


def _sdk() -> Any:
    try:
        return importlib.import_module("piper_sdk")
    except ImportError as err:
        raise ArmError(
            f"{err.name} is not installed", where="devices.arm: can", hint="pip install 'piper_collect[can]'"
        ) from err


def _six(value: Callable[[int], float]) -> Six:
    return value(1), value(2), value(3), value(4), value(5), value(6)

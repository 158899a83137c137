"""The control of one real arm: switch it on where it stands, follow guarded commands, hold on any doubt."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from piper_collect.core.arm_guard import ArmCommand, GuardConfig, GuardState, guard_hold, guard_step
from piper_collect.core.arm_report import (
    MOVE_J,
    MOVE_M,
    ArmReport,
    ControlMode,
    MotorPower,
    driven_fault_words,
    fault_words,
    holding_fault,
    lost_control,
    taken,
)
from piper_collect.core.gravity import GravityModel
from piper_collect.core.kinematics import JOINT_NAMES, Joints, dh_offset_for_firmware
from piper_collect.core.mit import ImpedanceGains, mit_commands
from piper_collect.core.piper_firmware import MitQuirks, Six, mit_quirks
from piper_collect.devices.arm import ArmDevice, OnSnapshot
from piper_collect.errors import ArmError, ConfigError

_LOOK_S = 0.01
_LOOKS = 10
_LAST_SENDS = 3
_NO_TORQUE: Six = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmControlConfig:
    """How an arm is controlled.

    Attributes:
        guard: What may be sent.
        dh_offset: DH variant that the poses are computed with.
        firmware: What to believe when the arm does not report its firmware.
        gains: Impedance gains; None for position control.
        gravity: Model of the gravity torque to add; None for none.
        enable_on_start: Whether the motors are switched on; otherwise the arm is only listened to.
        enable_timeout_s: How long the arm may take to switch on, and to change its mode.
        disable_on_stop: Whether the motors are switched off at the end, and the arm falls.
    """

    guard: GuardConfig
    dh_offset: str
    firmware: str = ""
    gains: ImpedanceGains | None = None
    gravity: GravityModel | None = None
    enable_on_start: bool = True
    enable_timeout_s: float = 5.0
    disable_on_stop: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmCondition:
    """What the world is told of the arm.

    Attributes:
        power: Whether all motors are powered; unknown while the arm is silent.
        control: How it is controlled.
        error_code: The arm's own.
        faults: In plain words; one on which the arm is made to stand still ends with ``: holding``.
        firmware: As reported, else as configured.
    """

    power: MotorPower = "unknown"
    control: ControlMode = "unknown"
    error_code: int = 0
    faults: tuple[str, ...] = ()
    firmware: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sent:
    """The newest command, and when it was sent."""

    q: tuple[float, ...]
    width_m: float
    at_ns: int


class ArmControl:
    """Owns an arm from ``start`` to ``stop``. All calls come from one thread.

    Args:
        device: The arm.
        config: How to control it.
        clock_ns: Monotonic time.
        sleep: Waits so many seconds.
    """

    def __init__(
        self,
        device: ArmDevice,
        config: ArmControlConfig,
        *,
        clock_ns: Callable[[], int] = time.monotonic_ns,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._device = device
        self._config = config
        self._clock_ns = clock_ns
        self._sleep = sleep
        self._quirks = MitQuirks()
        self._command: _Sent | None = None
        self._state: GuardState | None = None
        self._lost = ""
        self._silent = ""
        self._stepped_ns = 0
        self._stopped = False

    @property
    def firmware(self) -> str:
        """As the arm reports it, else as configured; empty for unknown."""
        return self._device.firmware or self._config.firmware

    @property
    def move_mode(self) -> int:
        """The arm's mode in which it is commanded."""
        return MOVE_J if self._config.gains is None else MOVE_M

    def start(self, on_snapshot: OnSnapshot, stop_asked: Callable[[], bool] = lambda: False) -> None:
        """Connect, check the firmware, and take control where the arm stands.

        Args:
            on_snapshot: Called with every reading, in another thread.
            stop_asked: Looked at on the way; once it is true nothing more is switched on.

        Raises:
            ArmError: The arm cannot be reached, or does not switch on.
            ConfigError: The configuration does not fit the arm's firmware.
        """
        self._device.open(on_snapshot)
        self._check_firmware()
        if self._config.enable_on_start:
            self._switch_on(stop_asked)

    def command(self, q: tuple[float, ...], width_m: float, age_s: float) -> None:
        """A joint command came that was sent ``age_s`` ago; the next step follows it, if it may."""
        self._command = _Sent(q=q, width_m=width_m, at_ns=self._clock_ns() - int(age_s * 1e9))

    def step(self) -> None:
        """One control period: send what the guard lets through, or nothing while the arm does not listen."""
        now_ns = self._clock_ns()
        dt_s = (now_ns - self._stepped_ns) / 1e9
        self._stepped_ns = now_ns
        was_silent, self._silent = self._silent, self._device.silence()
        snapshot, report = self._device.snapshot(), self._device.report()
        if self._state is None or self._lost or snapshot is None or report is None:
            return
        if self._silent:
            self._command = None
            return
        if was_silent:  # it may stand elsewhere now
            self._state = guard_hold(self._config.guard, snapshot.q, snapshot.width_m)
        self._lost = lost_control(report, self.move_mode)
        if self._lost:
            return
        fault = self._device.send_error() or holding_fault(report)
        self._state = guard_step(
            self._config.guard, self._state, snapshot.q, self._newest(now_ns), fault, dt_s
        )
        self._send(self.move_mode, self._state, snapshot.q)

    def condition(self) -> ArmCondition:
        """What to tell of the arm now."""
        report = self._device.report()
        if report is None:
            return ArmCondition(firmware=self.firmware)
        return ArmCondition(
            power="unknown" if self._silent else "on" if all(report.enabled) else "off",
            control="unknown" if self._silent else report.controlled,
            error_code=report.error_code,
            faults=self._faults(report),
            firmware=self.firmware,
        )

    def stop(self) -> None:
        """Leave the arm holding itself in its own position control, where it stands; or off, if configured.

        The motors stay on: without power the arm falls. Safe at any time, also twice.
        """
        if self._stopped:
            return
        self._stopped = True
        try:
            if self._state is not None and not self._lost:  # it is ours
                self._leave(self._state)
        finally:
            self._device.close()

    # -- switching on --------------------------------------------------------------------------

    def _check_firmware(self) -> None:
        firmware = self.firmware
        variant = dh_offset_for_firmware(firmware)
        if variant is not None and variant != self._config.dh_offset:
            raise ConfigError(
                f"does not fit the arm's firmware {firmware}: every pose would be 9.95 mm off",
                where="arm.dh_offset",
                expected=variant,
                got=self._config.dh_offset,
            )
        if self._config.gains is not None:
            self._quirks = mit_quirks(firmware)

    def _switch_on(self, stop_asked: Callable[[], bool]) -> None:
        """Power, then position control where the arm stands, then impedance control if it is asked for."""
        self._check_free()
        if stop_asked():
            return
        self._until(self._ask_power, lambda: all(self._report().enabled), self._not_enabled)
        state = guard_hold(self._config.guard, *self._measured())
        for mode in dict.fromkeys((MOVE_J, self.move_mode)):
            if mode != MOVE_J and stop_asked():
                return
            self._until(
                partial(self._ask_mode, mode, state),
                partial(self._obeys, mode),
                partial(self._not_controlled, mode),
            )
            self._state = state
        self._stepped_ns = self._clock_ns()

    def _check_free(self) -> None:
        who = taken(self._report())
        if who:
            raise ArmError(
                f"the arm cannot be switched on: {who}",
                hint="leave teach mode (the button on the arm), release the emergency stop, then start again",
            )

    def _ask_power(self) -> None:
        """Power, with the pose to hold before it, so that no old target is gone to."""
        self._device.send_position(self._measured()[0])
        self._device.enable()

    def _ask_mode(self, mode: int, state: GuardState) -> None:
        """A mode, and the pose to hold in it; the gripper stays as wide as it is."""
        if mode == MOVE_J:
            self._device.send_position(state.q)
        self._device.set_mode(mode)
        self._send(mode, state, state.q)

    def _obeys(self, mode: int) -> bool:
        return not lost_control(self._report(), mode)

    def _until(
        self, ask: Callable[[], None], holds: Callable[[], bool], failure: Callable[[], ArmError]
    ) -> None:
        """Ask, and ask again, until it holds."""
        end_ns = self._clock_ns() + int(self._config.enable_timeout_s * 1e9)
        while self._clock_ns() <= end_ns:
            ask()
            for _ in range(_LOOKS):
                self._sleep(_LOOK_S)
                if holds():
                    return
        raise failure()

    def _measured(self) -> tuple[Joints, float]:
        snapshot = self._device.snapshot()
        if snapshot is None:
            raise ArmError("the arm has not reported its joints")
        return snapshot.q, snapshot.width_m

    def _report(self) -> ArmReport:
        report = self._device.report()
        if report is None:
            raise ArmError("the arm has not reported its state")
        return report

    def _not_enabled(self) -> ArmError:
        report = self._report()
        off = [name for name, on in zip(JOINT_NAMES, report.enabled, strict=True) if not on]
        return ArmError(
            f"the motors did not switch on within {self._config.enable_timeout_s:g} s",
            where=", ".join(off),
            got="; ".join(filter(None, (self._device.send_error(), *fault_words(report)))) or None,
            hint="support the arm, switch its power off and on, then start again",
        )

    def _not_controlled(self, mode: int) -> ArmError:
        return ArmError(
            f"the arm did not take commands over CAN within {self._config.enable_timeout_s:g} s",
            got=lost_control(self._report(), mode),
            hint="stop other programs that command it, then start again",
        )

    # -- sending -------------------------------------------------------------------------------

    def _newest(self, now_ns: int) -> ArmCommand | None:
        sent = self._command
        if sent is None:
            return None
        return ArmCommand(q=sent.q, width_m=sent.width_m, age_s=(now_ns - sent.at_ns) / 1e9)

    def _send(self, mode: int, state: GuardState, measured: Joints) -> None:
        gains = self._config.gains
        if mode == MOVE_M and gains is not None:
            torque = self._config.gravity.torques(measured) if self._config.gravity else _NO_TORQUE
            self._device.send_impedance(mit_commands(state.q, gains, torque, self._quirks))
        else:
            self._device.send_position(state.q)
        self._device.send_width(state.width_m)

    def _leave(self, state: GuardState) -> None:
        if self._config.disable_on_stop:
            self._device.disable()
            return
        if self._device.silence():
            return
        snapshot = self._device.snapshot()
        at = replace(state, q=state.q if snapshot is None else snapshot.q)
        for _ in range(_LAST_SENDS):
            self._ask_mode(MOVE_J, at)
            self._sleep(_LOOK_S)

    def _faults(self, report: ArmReport) -> tuple[str, ...]:
        own, words = [], fault_words(report)
        if self._lost:
            own.append(f"{self._lost}: the arm no longer follows; start again when it is safe")
        elif self._silent:
            own.append(self._silent)
        elif self._state is not None:
            own, words = [self._state.reason], driven_fault_words(report)
        return tuple(fault for fault in dict.fromkeys((*own, *words)) if fault)

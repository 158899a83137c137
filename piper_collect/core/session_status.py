"""What the operator needs to see of recorder, arm and teleoperation, put into one state and a few words."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from piper_collect.core.arm_report import MotorPower
from piper_collect.core.kinematics import GRIPPER_NAME

SessionState: TypeAlias = Literal["not_ready", "ready", "recording", "saving", "homing", "fault"]
RecorderState: TypeAlias = Literal["waiting", "ready", "recording", "saving", "fault"]
TeleopState: TypeAlias = Literal["waiting", "holding", "following", "homing"]

SILENT_S = 2.0
"""Recorder, arm and teleoperation report at 5 Hz or more; one that has not for so long has died."""

_MOST_LATE_NS = 1_000_000_000
"""A report that counts less of the same episode than that has come late; else another has begun."""

NO_RECORDER = "waiting for the recorder"
RECORDER_SILENT = "the recorder is silent"
NO_SESSION = "waiting for the session"
SESSION_SILENT = "the session is silent"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecorderReport:
    """What the recorder last said.

    Attributes:
        heard_ns: When it arrived, by a clock that nobody sets.
        state: What it does.
        episode_index: Number of the running episode, or of the next one.
        start_ns: When the running episode was started, by that clock; 0 between episodes.
        saved: Whole episodes in the session's folder.
        task: Task of the running episode, or of the next one.
        message: The last thing it said.
    """

    heard_ns: int
    state: RecorderState
    episode_index: int
    start_ns: int = 0
    saved: int = 0
    task: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmReport:
    """What the arm last said of itself.

    Attributes:
        heard_ns: When it arrived, by a clock that nobody sets.
        power: Whether the motors are on; that nobody knows it is no fault.
        error_code: The arm's own; 0 for none.
        faults: Its faults in words.
    """

    heard_ns: int
    power: MotorPower
    error_code: int = 0
    faults: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TeleopReport:
    """What teleoperation last said.

    Attributes:
        heard_ns: When it arrived, by a clock that nobody sets; where it is said, the stamp.
        state: What it does.
        text: Why, in words.
        fault: What is wrong; empty when nothing is.
    """

    heard_ns: int
    state: TeleopState
    text: str = ""
    fault: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionView:
    """The state of the session as the operator sees it; fields as in the SessionStatus message.

    But ``start_ns`` is by a clock that nobody sets, so that the length of the episode can be counted by it.
    """

    state: SessionState
    episode_index: int = -1
    start_ns: int = 0
    saved: int = 0
    task: str = ""
    text: str = ""
    teleop: str = ""
    faults: tuple[str, ...] = ()


def session_view(
    recorder: RecorderReport | None,
    arm: ArmReport | None,
    teleop: TeleopReport | None,
    now_ns: int,
    answer: str = "",
) -> SessionView:
    """Put the newest reports together; None is one that was never heard.

    A running episode stays RECORDING or SAVING whatever else is wrong, so that nobody thinks it ended.

    Args:
        recorder: Of the recorder.
        arm: Of the arm; an arm that never reports is no fault, since not every driver does.
        teleop: Of teleoperation.
        now_ns: Now, on the clock of ``heard_ns``.
        answer: What the operator's last request was answered, while that is the newest thing to tell.
    """
    faults = _faults(recorder, arm, teleop, now_ns)
    spoken = teleop.text if teleop is not None and not _silent(teleop.heard_ns, now_ns) else ""
    if recorder is None:
        return SessionView(
            state="fault" if faults else "not_ready", text=NO_RECORDER, teleop=spoken, faults=faults
        )
    return SessionView(
        state=_state(recorder, teleop, faults, now_ns),
        episode_index=recorder.episode_index,
        start_ns=recorder.start_ns,
        saved=recorder.saved,
        task=recorder.task,
        text=answer or recorder.message,
        teleop=spoken,
        faults=faults,
    )


def shown_view(newest: SessionView | None, heard_ns: int, now_ns: int) -> SessionView:
    """What a display shows: the newest view, unless it never came or is old.

    Args:
        newest: As it arrived; None before the first.
        heard_ns: When it arrived.
        now_ns: Now, on the clock of ``heard_ns``.
    """
    if newest is None:
        return SessionView(state="not_ready", text=NO_SESSION)
    if _silent(heard_ns, now_ns):
        return replace(newest, state="fault", start_ns=0, text="", teleop="", faults=(SESSION_SILENT,))
    return newest


def same_start(before: RecorderReport | None, report: RecorderReport) -> RecorderReport:
    """The report, with the running episode's start as the one before had it, where that came less late."""
    if before is None or not (before.start_ns and report.start_ns):
        return report
    same = before.episode_index == report.episode_index
    late = same and 0 <= report.start_ns - before.start_ns <= _MOST_LATE_NS
    return replace(report, start_ns=before.start_ns) if late else report


def arm_faults(arm: ArmReport) -> tuple[str, ...]:
    """Faults on which the arm is not led on: all but those of the gripper, which a firm grasp may cause."""
    moving = [fault for fault in arm.faults if not fault.startswith(f"{GRIPPER_NAME}: ")]
    code = 0 if arm.faults else arm.error_code
    return tuple(_device_faults(replace(arm, faults=tuple(moving), error_code=code), None, arm.heard_ns))


def start_hindrance(
    recorder: RecorderReport | None, arm: ArmReport | None, teleop: TeleopReport | None, now_ns: int
) -> str:
    """What must be mended before an episode can start; empty when nothing that is known here.

    What the recorder itself lacks it says when it is asked, and a storage that failed once is tried again.
    """
    faults = _device_faults(arm, teleop, now_ns)
    if recorder is not None and _silent(recorder.heard_ns, now_ns):
        faults.append(RECORDER_SILENT)
    return faults[0] if faults else ""


def _state(
    recorder: RecorderReport, teleop: TeleopReport | None, faults: Sequence[str], now_ns: int
) -> SessionState:
    running: dict[RecorderState, SessionState] = {"recording": "recording", "saving": "saving"}
    if recorder.state in running and not _silent(recorder.heard_ns, now_ns):
        return running[recorder.state]
    if faults:
        return "fault"
    if teleop is not None and teleop.state == "homing":
        return "homing"
    return "ready" if recorder.state == "ready" else "not_ready"


def _faults(
    recorder: RecorderReport | None, arm: ArmReport | None, teleop: TeleopReport | None, now_ns: int
) -> tuple[str, ...]:
    found = _device_faults(arm, teleop, now_ns)
    if recorder is not None:
        if _silent(recorder.heard_ns, now_ns):
            found.append(RECORDER_SILENT)
        elif recorder.state == "fault":
            found.append(recorder.message or "the recorder cannot write")
    return tuple(found)


def _device_faults(arm: ArmReport | None, teleop: TeleopReport | None, now_ns: int) -> list[str]:
    found: list[str] = []
    if arm is not None:
        if _silent(arm.heard_ns, now_ns):
            found.append("the arm's status is silent")
        else:
            found += [f"arm: {fault}" for fault in arm.faults]
            if arm.error_code and not arm.faults:
                found.append(f"arm: error code {arm.error_code}")
            if arm.power == "off":
                found.append("arm: the motors are off")
    if teleop is not None:
        silent = _silent(teleop.heard_ns, now_ns)
        found += ["teleoperation is silent"] if silent else [teleop.fault] if teleop.fault else []
    return found


def _silent(heard_ns: int, now_ns: int) -> bool:
    return now_ns - heard_ns > SILENT_S * 1e9

"""One state and a few words for the operator, out of what recorder, arm and teleoperation report."""

from dataclasses import replace

import pytest

from piper_collect.core.haptics import answer, let_go, refusal, tick
from piper_collect.core.operator_actions import Request
from piper_collect.core.session_status import (
    ArmReport,
    RecorderReport,
    TeleopReport,
    arm_faults,
    same_start,
    session_view,
    start_hindrance,
)

NOW = 10**18
READY = RecorderReport(
    heard_ns=NOW, state="ready", episode_index=3, saved=3, task="stack", message="episode 2 saved"
)
ARM = ArmReport(heard_ns=NOW, power="on")
HOLDING = TeleopReport(heard_ns=NOW, state="holding", text="clutch open")
LONG_AGO = NOW - 2_100_000_000


def test_before_the_recorder_speaks_nothing_is_ready_and_no_number_is_invented() -> None:
    view = session_view(None, None, None, NOW)
    assert (view.state, view.episode_index, view.saved, view.faults) == ("not_ready", -1, 0, ())
    assert view.text == "waiting for the recorder"
    broken = session_view(None, replace(ARM, faults=("joint 2 over temperature",)), None, NOW)
    assert (broken.state, broken.faults) == ("fault", ("arm: joint 2 over temperature",))


def test_what_the_recorder_says_is_shown() -> None:
    view = session_view(READY, ARM, HOLDING, NOW)
    assert (view.state, view.episode_index, view.saved, view.task) == ("ready", 3, 3, "stack")
    assert (view.text, view.teleop, view.start_ns) == ("episode 2 saved", "clutch open", 0)
    waiting = replace(READY, state="waiting", message="/cam: silent for 2.0 s")
    view = session_view(waiting, ARM, HOLDING, NOW)
    assert (view.state, view.text) == ("not_ready", "/cam: silent for 2.0 s")
    view = session_view(replace(READY, state="recording", start_ns=NOW - 5), ARM, HOLDING, NOW)
    assert (view.state, view.start_ns) == ("recording", NOW - 5)
    assert session_view(replace(READY, state="saving"), ARM, HOLDING, NOW).state == "saving"
    assert session_view(READY, None, None, NOW).state == "ready"


def test_an_answer_is_shown_in_place_of_what_the_recorder_said_before() -> None:
    assert session_view(READY, ARM, HOLDING, NOW, "homing refused").text == "homing refused"


def test_homing_is_shown_unless_an_episode_runs() -> None:
    homing = replace(HOLDING, state="homing", text="moving home")
    assert session_view(READY, ARM, homing, NOW).state == "homing"
    assert session_view(replace(READY, state="waiting"), ARM, homing, NOW).state == "homing"
    recording = session_view(replace(READY, state="recording"), ARM, homing, NOW)
    assert (recording.state, recording.teleop) == ("recording", "moving home")


@pytest.mark.parametrize(
    ("recorder", "arm", "teleop", "fault"),
    [
        (READY, replace(ARM, power="off"), HOLDING, "arm: the motors are off"),
        (READY, replace(ARM, error_code=7), HOLDING, "arm: error code 7"),
        (READY, replace(ARM, error_code=7, faults=("stall",)), HOLDING, "arm: stall"),
        (READY, replace(ARM, heard_ns=LONG_AGO), HOLDING, "the arm's status is silent"),
        (READY, ARM, replace(HOLDING, fault="no way to the goal"), "no way to the goal"),
        (READY, ARM, replace(HOLDING, heard_ns=LONG_AGO), "teleoperation is silent"),
        (replace(READY, heard_ns=LONG_AGO), ARM, HOLDING, "the recorder is silent"),
        (replace(READY, state="fault", message="disk full"), ARM, HOLDING, "disk full"),
    ],
)
def test_each_fault_is_named_and_makes_the_state_a_fault(recorder, arm, teleop, fault) -> None:
    view = session_view(recorder, arm, teleop, NOW)
    assert (view.state, view.faults) == ("fault", (fault,))


def test_a_running_episode_stays_running_whatever_else_is_wrong() -> None:
    recording = replace(READY, state="recording", start_ns=NOW - 10)
    view = session_view(recording, replace(ARM, faults=("stall",)), replace(HOLDING, fault="no IK"), NOW)
    assert (view.state, view.faults) == ("recording", ("arm: stall", "no IK"))
    # of a recorder that died nobody knows whether it still records
    assert session_view(replace(recording, heard_ns=LONG_AGO), ARM, HOLDING, NOW).state == "fault"


def test_teleoperation_that_died_says_nothing_any_more() -> None:
    assert session_view(READY, ARM, replace(HOLDING, heard_ns=LONG_AGO), NOW).teleop == ""


def test_each_answer_feels_different_and_goes_to_the_hand_that_asked() -> None:
    felt = {request: answer(request, "left", success=True) for request in Request}
    patterns = {tuple((p.intensity, p.duration_s) for p in pulses) for pulses in felt.values()}
    assert len(patterns) == 4  # what is discarded and what is deleted is gone alike
    assert felt[Request.DISCARD] == felt[Request.DELETE_LAST]
    assert (len(felt[Request.START]), len(felt[Request.STOP])) == (1, 2)
    assert all(answer(request, "left", success=False) == refusal("left") for request in Request)
    every = [
        *tick("left"),
        *refusal("left"),
        *let_go("left"),
        *(p for pulses in felt.values() for p in pulses),
    ]
    assert {pulse.hand for pulse in every} == {"left"}
    assert all(0 < pulse.intensity <= 1 and 0 < pulse.duration_s <= 1 for pulse in every)


@pytest.mark.parametrize(
    ("recorder", "arm", "teleop", "hindrance"),
    [
        (READY, ARM, HOLDING, ""),
        (READY, replace(ARM, power="unknown"), HOLDING, ""),
        (None, None, None, ""),
        (replace(READY, state="waiting", message="/cam: silent"), ARM, HOLDING, ""),
        (replace(READY, state="fault", message="not saved: disk full"), ARM, HOLDING, ""),
        (replace(READY, heard_ns=LONG_AGO), ARM, HOLDING, "the recorder is silent"),
        (READY, replace(ARM, power="off"), HOLDING, "arm: the motors are off"),
        (READY, ARM, replace(HOLDING, fault="no way to the goal"), "no way to the goal"),
    ],
)
def test_what_keeps_an_episode_from_starting_is_what_the_recorder_cannot_know(
    recorder, arm, teleop, hindrance
) -> None:
    assert start_hindrance(recorder, arm, teleop, NOW) == hindrance


def test_an_arm_is_led_on_while_nobody_knows_its_power_and_whatever_its_gripper_feels() -> None:
    assert arm_faults(ARM) == arm_faults(replace(ARM, power="unknown")) == ()
    failing = replace(ARM, power="off", error_code=3, faults=("joint 2 stalled",))
    assert arm_faults(failing) == ("arm: joint 2 stalled", "arm: the motors are off")
    assert arm_faults(replace(ARM, faults=("gripper: overcurrent",), error_code=4)) == ()
    both = replace(ARM, faults=("gripper: overcurrent", "joint 2 stalled"))
    assert arm_faults(both) == ("arm: joint 2 stalled",)
    assert arm_faults(replace(ARM, error_code=4)) == ("arm: error code 4",)


def test_the_start_of_an_episode_is_that_of_the_report_that_came_least_late() -> None:
    reports = [replace(READY, state="recording", start_ns=NOW + late_ns) for late_ns in (30, 10, 900, 0, 20)]
    heard, starts = None, []
    for report in reports:
        heard = same_start(heard, report)
        starts.append(heard.start_ns - NOW)
    assert starts == [30, 10, 10, 0, 0]
    assert same_start(heard, READY) == READY
    for other in (replace(reports[0], episode_index=4), replace(reports[0], start_ns=NOW + 2 * 10**9)):
        assert same_start(heard, other) == other

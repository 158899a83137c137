"""A person with a headset, from browser to dataset: real Chromium, emulated Quest 3, real nodes and DDS."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from quest_support import (
    Made,
    Stage,
    check_actions,
    made_of,
    open_stage,
    quest_session,
    record_an_episode,
)
from ros_support import RosRun, rig_in
from teleop_cell import held
from xr_support import headset_browser

EPISODE_S = 4.0


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with headset_browser() as browser:
        yield browser


# -- an episode, recorded from the headset ------------------------------------------------------


@pytest.fixture(scope="module")
def stage(ros_run: RosRun, chromium: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """One session with its headset, for all that is done with it here."""
    root = tmp_path_factory.mktemp("quest_session")
    with (
        rig_in(ros_run, root) as rig,
        open_stage(ros_run, root, rig, chromium, quest_session(root)) as stage,
    ):
        yield stage
    assert ros_run.wait_until_gone() == {}  # and the port of the session is free again


@pytest.fixture(scope="module")
def made(stage: Stage) -> Made:
    return made_of(stage, *record_an_episode(stage, EPISODE_S))


def numbers(pose: dict[str, Any]) -> list[float]:
    """A Pose of the headset stream as seven numbers, quaternion x y z w."""
    p, q = pose["position"], pose["orientation"]
    return [p["x"], p["y"], p["z"], q["x"], q["y"], q["z"], q["w"]]


def test_the_recorded_input_is_what_the_headset_gave_field_for_field(made: Made) -> None:
    by_time = {frame["time"]: frame for frame in made.frames}
    assert len(made.inputs) > 30
    for line in made.inputs:
        seen = by_time[line["headset_time_ms"]]
        assert line["header"]["frame_id"] == "quest_local_floor"
        assert line["visibility"] == seen["visibility"]
        assert line["head_valid"]
        assert numbers(line["head_pose"]) == seen["head"]
        for hand in ("left", "right"):
            got, wanted = line[hand], seen[hand]
            assert (got["connected"], got["pose_valid"], got["aim_valid"]) == (True, True, True)
            assert got["pose_emulated"] is False
            assert got["profiles"] == wanted["profiles"]
            assert numbers(got["grip_pose"]) == wanted["grip"]
            assert numbers(got["aim_pose"]) == wanted["aim"]
            assert got["button_values"] == wanted["values"]
            assert got["button_pressed"] == wanted["pressed"]
            assert got["button_touched"] == wanted["touched"]
            assert got["axes"] == wanted["axes"]


def test_the_sequence_counts_every_frame_of_the_headset(made: Made) -> None:
    order = {frame["time"]: number for number, frame in enumerate(made.frames, start=1)}
    assert [line["sequence"] for line in made.inputs] == [order[i["headset_time_ms"]] for i in made.inputs]


def test_the_actions_of_the_dataset_are_the_path_of_the_hand_mapped_to_the_arm(made: Made) -> None:
    check_actions(made)


def test_the_dataset_has_both_cameras_and_the_gripper_followed_the_trigger(made: Made) -> None:
    assert set(made.dataset.sources[0]["cameras"]) == {"cam_front", "cam_wrist"}
    width = np.array(made.dataset.rows(0).column("action.gripper").to_pylist()).reshape(-1)
    assert np.ptp(width) > 0.02


def test_the_operator_felt_start_grip_and_save(made: Made) -> None:
    felt = [(p["hand"], p["intensity"], p["ms"]) for p in made.pulses]
    assert ("right", 0.8, 150) in felt  # started
    assert felt.count(("right", 0.8, 100)) == 2  # saved
    assert felt.count(("right", 0.3, 30)) == 2  # the grip took hold, twice
    assert "Traceback" not in made.log


# -- what must hold the arm ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def targets(stage: Stage) -> list[Any]:
    from piper_collect.msg import TeleopTarget

    return stage.rig.listen(TeleopTarget, "/teleop/target")


@pytest.fixture
def driving(stage: Stage, targets: list[Any]) -> tuple[Stage, list[Any]]:
    """The session, whose arm follows the headset at this moment."""
    stage.both(lambda: targets, "nothing is commanded")
    if stage.operator.run("!emulator.device.activeSession"):
        stage.operator.enter()
    stage.operator.press("right", "squeeze", 0.0)
    stage.both(lambda: not targets[-1].engaged, "the clutch does not open")
    stage.squeeze(targets)
    return stage, targets


def holds(stage: Stage, targets: list[Any], reason: str, logged: int) -> None:
    """The arm stands still from the first target on that is not engaged, and teleoperation says why.

    ``logged``: how much the session had printed before it happened.
    """
    stage.both(lambda: not targets[-1].engaged, "the arm goes on")
    count = len(targets)
    stage.both(lambda: len(targets) > count + 100, "teleoperation is silent")
    assert held(targets[count - 1 :])
    stage.both(lambda: reason in stage.process.log()[logged:], f"it does not say: {reason}")


def test_the_arm_holds_when_the_headset_cannot_be_believed(driving: Any) -> None:
    stage, targets = driving
    visibility, right = "emulator.device.updateVisibilityState", "emulator.device.controllers.right.connected"
    for happens, undone, reason in (
        (f"{visibility}('hidden')", f"{visibility}('visible')", "headset session hidden"),
        (f"{right} = false", f"{right} = true", "right controller not connected"),
        ("emulator.estimated = true", "emulator.estimated = false", "position only guessed by the headset"),
        ("emulator.device.activeSession.end()", "", "headset session hidden"),
    ):
        logged = len(stage.process.log())
        stage.operator.run(happens)
        holds(stage, targets, reason, logged)
        stage.operator.run(undone)
        if undone:
            count = len(targets)
            stage.both(lambda since=count: len(targets) > since + 50, "teleoperation is silent")
            assert not targets[-1].engaged  # the grip is still held, and must be opened first
            stage.operator.press("right", "squeeze", 0.0)
            stage.both(lambda: stage.operator.run("true"), "")
            stage.squeeze(targets)


def test_a_left_hand_held_for_a_second_moves_the_arm_home(driving: Any) -> None:
    from piper_collect.msg import TeleopStatus

    from piper_collect.nodes.qos import LATCHED_QOS

    stage, targets = driving
    statuses = stage.rig.listen(TeleopStatus, "/teleop/status", LATCHED_QOS)
    before_m = targets[-1].flange_pose.position.y
    stage.operator.run("emulator.device.controllers.right.position.x += 0.03")
    stage.both(lambda: abs(targets[-1].flange_pose.position.y - before_m) > 0.015, "the arm does not follow")
    stage.operator.press("right", "squeeze", 0.0)
    stage.both(lambda: not targets[-1].engaged, "the clutch does not open")

    def homes() -> bool:
        """Hold the button; again where it was not seen for so long, or the way was given up and told so."""
        count = len(statuses)
        end_ms = stage.operator.run("performance.now()") + 3000
        stage.operator.press("left", "y-button")
        stage.both(
            lambda: (
                any(s.state == TeleopStatus.STATE_HOMING for s in statuses[count:])
                or stage.operator.run("performance.now()") > end_ms
            ),
            "the browser stands still",
        )
        stage.operator.press("left", "y-button", 0.0)
        stage.both(lambda: statuses[-1].state != TeleopStatus.STATE_HOMING, "it does not end")
        return abs(targets[-1].flange_pose.position.y) < 1e-4

    stage.both(homes, "the arm does not arrive")
    assert any(s.state == TeleopStatus.STATE_HOMING for s in statuses)
    assert {"hand": "left", "intensity": 0.5, "ms": 200} in stage.operator.run("emulator.pulses")


def test_the_arm_holds_when_the_browser_dies_in_mid_clutch_and_nobody_else_can_go_on(driving: Any) -> None:
    stage, targets = driving
    operator = stage.operator
    url = operator.run("location.href")
    with operator.tab.context.browser.new_context(ignore_https_errors=True).new_page() as stranger:
        stranger.goto(url)
        stranger.wait_for_selector("#taken:not([hidden])")
        stranger.context.close()
    stage.squeeze(targets)
    rig, log = stage.rig, stage.process.log
    logged = len(log())
    operator.tab.goto("about:blank")
    rig.until(lambda: not targets[-1].engaged, "the arm goes on")
    count = len(targets)
    rig.until(lambda: "no sample from the headset" in log()[logged:], "it does not say why")
    rig.until(lambda: len(targets) > count + 100, "teleoperation is silent")
    assert held(targets[count - 1 :])

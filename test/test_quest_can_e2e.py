"""A person with a headset drives an arm through the real piper_sdk: from the browser to the dataset.

The arm is an emulated one in a process of its own, at the other end of a CAN bus, under impedance control. It
keeps a log of what it did, which the dataset is held against.
"""

import json
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from can_sessions import multicast_group
from quest_support import (
    REST_M,
    Made,
    check_actions,
    made_of,
    open_stage,
    quest_session,
    record_an_episode,
)
from ros_support import DEADLINE_S, ROOT, Rig, RosRun, rig_in
from scipy.spatial.transform import Rotation
from xr_support import headset_browser

from piper_collect.config.schema import CanSettings, ControlSettings, ImpedanceSettings, SessionConfig

pytest.importorskip("can", reason="python-can is not installed: pip install 'piper_collect[can]'")
pytest.importorskip("piper_sdk", reason="piper_sdk is not installed: pip install 'piper_collect[can]'")

FIRMWARE = "S-V1.8-5"
EPISODE_S = 4.0
PATIENCE_S = 2.0  # everything shares the processor with a browser that draws in software
TRAVEL_NS = 1_000_000_000  # of a frame, from the arm into the dataset, where there is no processor time
STIFF = ImpedanceSettings(kp=(40.0,) * 6, kd=(2.0,) * 6)
"""A torque of 0 does not fit into the frames: the nearest, 0.03 N·m, moves a joint by 0.8 mrad."""

LAG_S = np.arange(0.0, 1.0, 0.01)
"""The springs stay behind by (kd + friction) / kp = 0.06 s, the machine adds the rest."""

AWAY_M = 6e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """What the emulated arm says it did.

    Attributes:
        at_ns: When it said each of its readings.
        q_mdeg: Its joints, in 0.001 degrees as it sends them, [N, 6].
        xyz_um: Its flange in µm, [N, 3].
        rpy_mdeg: Roll, pitch and yaw in 0.001 degrees, [N, 3].
        width_um: Its gripper, [N].
        report: All else.
    """

    at_ns: np.ndarray
    q_mdeg: np.ndarray
    xyz_um: np.ndarray
    rpy_mdeg: np.ndarray
    width_um: np.ndarray
    report: dict[str, Any]


def session_of(root: Path, group: str) -> SessionConfig:
    base = quest_session(root)
    can = CanSettings(channel=group, interface="udp_multicast", silence_s=PATIENCE_S, watchdog_s=PATIENCE_S)
    return replace(
        base,
        devices=replace(base.devices, arm="can"),
        control=ControlSettings(backend="impedance", impedance=STIFF),
        can=can,
    )


@pytest.fixture(scope="module")
def group() -> Iterator[str]:
    with multicast_group() as group:
        yield group


@pytest.fixture(scope="module")
def recorded(
    ros_run: RosRun, group: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Made, Arm]]:
    """One episode, and the log of the arm that was in it."""
    root = tmp_path_factory.mktemp("quest_can")
    with headset_browser() as browser, rig_in(ros_run, root) as rig:
        emulator = start_arm(rig, group)
        with open_stage(ros_run, root, rig, browser, session_of(root, group)) as stage:
            seen = record_an_episode(stage, EPISODE_S)
        made = made_of(stage, *seen)
        assert rig.end(emulator, signal.SIGTERM) == 0, emulator.log()
        yield made, read_log(root / "arm.json")


def start_arm(rig: Rig, group: str) -> Any:
    command = [sys.executable, str(ROOT / "test" / "piper_emulator.py"), "--channel", group]
    command += ["--firmware", FIRMWARE, "--report", str(rig.folder / "arm.json")]
    emulator = rig.add(rig.run.launch("emulator", command))
    rig.until(lambda: "running" in emulator.log(), "the emulator does not start")
    return emulator


def read_log(file: Path) -> Arm:
    report = json.loads(file.read_text(encoding="utf-8"))
    said = np.array(report.pop("said"))
    return Arm(
        at_ns=said[:, 0],
        q_mdeg=said[:, 1:7],
        xyz_um=said[:, 7:10],
        rpy_mdeg=said[:, 10:13],
        width_um=said[:, 13],
        report=report,
    )


def column(made: Made, name: str) -> np.ndarray:
    return np.array(made.dataset.rows(0).column(name).to_pylist(), dtype=np.float64)


def test_the_actions_are_the_path_of_the_hand_mapped_to_the_arm(recorded: tuple[Made, Arm]) -> None:
    check_actions(recorded[0])


def test_the_observations_are_what_the_arm_did(recorded: tuple[Made, Arm]) -> None:
    """Each row is a reading of the arm's own log, joints, flange and gripper, and none of long ago."""
    made, arm = recorded
    stamps = pq.read_table(made.dataset.root / "extras" / "episode_000000.samples.parquet")
    sampled_ns = np.array(stamps.column("arm_joint").to_pylist())
    joints = np.rint(np.degrees(column(made, "observation.arm_joint")) * 1e3)
    eef, widths = column(made, "observation.arm_eef"), column(made, "observation.gripper").reshape(-1)
    assert len(joints) >= 20
    assert len({tuple(q) for q in joints}) >= 10  # it moved
    for row, (q, stamp) in enumerate(zip(joints, sampled_ns, strict=True)):
        recent = (arm.at_ns > stamp - TRAVEL_NS) & (arm.at_ns < stamp + TRAVEL_NS)
        same = np.flatnonzero(recent & (arm.q_mdeg == q).all(axis=1))
        assert len(same), f"row {row}: the arm was never at {q}"
        flange_m = arm.xyz_um[same[0]] / 1e6
        turn = Rotation.from_euler("xyz", arm.rpy_mdeg[same[0]] / 1e3, degrees=True)
        assert np.abs(eef[row, :3] - flange_m).max() < 2e-6
        w, x, y, z = eef[row, 3:]
        assert (Rotation.from_quat((x, y, z, w)) * turn.inv()).magnitude() < 1e-4
    said = np.unique(arm.width_um)
    assert np.abs(np.rint(widths * 1e6)[:, None] - said[None, :]).min(axis=1).max() <= 1


def test_the_arm_follows_the_target_with_a_bounded_lag(recorded: tuple[Made, Arm]) -> None:
    """By its own log it goes where the target went, not long after it, and stops where the target stopped."""
    made, arm = recorded
    target_s = np.array([t.stamp_ns for t in made.targets]) / 1e9
    targets = np.array([t.pose7[:3] for t in made.targets])
    at_s, flange = arm.at_ns / 1e9, arm.xyz_um / 1e6
    during = np.flatnonzero((at_s > target_s[0] + LAG_S[-1]) & (at_s < target_s[-1]))
    went, wanted = np.ptp(flange[during], axis=0), np.ptp(targets, axis=0)
    assert wanted.max() > 0.01
    assert went[wanted.argmax()] > 0.6 * wanted.max()
    for k in during[::10]:
        lately = targets[(target_s > at_s[k] - 2 * LAG_S[-1]) & (target_s <= at_s[k])]
        assert np.linalg.norm(lately - flange[k], axis=1).min() < AWAY_M

    def apart_m(lag_s: float) -> float:
        there = [np.interp(at_s[during] - lag_s, target_s, axis) for axis in targets.T]
        return float(np.sqrt(np.mean((flange[during] - np.array(there).T) ** 2)))

    apart = [apart_m(lag_s) for lag_s in LAG_S]
    lag_s = LAG_S[int(np.argmin(apart))]
    print(f"lag {lag_s:.2f} s; {min(apart) * 1e3:.2f} mm apart, {apart[0] * 1e3:.2f} mm without it")
    assert 0.02 < lag_s < LAG_S[-1]
    at_end = np.searchsorted(at_s, target_s[-1]) - 1
    assert np.linalg.norm(flange[at_end] - targets[-1]) < 2 * REST_M


def test_the_provenance_names_firmware_and_gains_as_asked_and_as_sent(recorded: tuple[Made, Arm]) -> None:
    made, arm = recorded
    (session,) = made.dataset.sessions
    assert (session["arm"]["firmware"], session["arm"]["firmware_source"]) == (FIRMWARE, "arm/status")
    assert session["control"]["backend"] == "impedance"
    gains = session["control"]["impedance"]
    assert gains["requested"] == {"kp": [40.0] * 6, "kd": [2.0] * 6, "t_ff": [0.0] * 6}
    assert gains["quantised"] != gains["requested"]
    # what the frames to the arm really held, as it read them
    for index, (_, _, kp, kd, torque) in enumerate(arm.report["mit"]):
        sent = [gains["quantised"][name][index] for name in ("kp", "kd", "t_ff")]
        assert [kp, kd, torque] == pytest.approx(sent, abs=1e-9)


def test_the_arm_is_left_in_its_own_position_control_and_nothing_runs_on(
    recorded: tuple[Made, Arm], ros_run: RosRun
) -> None:
    made, arm = recorded
    assert arm.report["enabled"] == [True] * 6
    assert (arm.report["control_mode"], arm.report["move_mode"], arm.report["mit_switch"]) == (1, 1, 0)
    assert "Traceback" not in made.log
    assert ros_run.wait_until_gone(DEADLINE_S) == {}

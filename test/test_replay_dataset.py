"""Episodes of our datasets and of others as they are replayed; the verb without a node; what it refuses."""

import io
import re
import xml.etree.ElementTree as ET

import numpy as np
import pyarrow.parquet as pq
import pytest
from dataset_cases import tree
from replay_cases import KINEMATICS, LATE_NS, jittered_s, true_joints, true_width, write_others, write_ours

from piper_collect.cli import main as cli
from piper_collect.core import se3
from piper_collect.dataset.reader import open_dataset
from piper_collect.errors import DatasetError
from piper_collect.pipelines.replay_columns import recorded_episode
from piper_collect.pipelines.replay_run import ReplayEnd

ROW_S = jittered_s()
POSE = KINEMATICS.forward(true_joints(ROW_S))
WIDTH = true_width(ROW_S)[:, None]
JOINTS = true_joints(ROW_S)

POSE_PARTS = {
    "eef_pos": {"start": 0, "end": 3},
    "eef_rot": {"start": 3, "end": 7, "rotation_type": "quaternion", "absolute": True},
    "gripper": {"start": 7, "end": 8},
}
STATE_PARTS = {
    "arm_joint": {"start": 0, "end": 6},
    "eef_pos": {"start": 6, "end": 9},
    "eef_rot": {"start": 9, "end": 13, "rotation_type": "quaternion"},
    "gripper": {"start": 13, "end": 14},
}
JOINT_PARTS = {"single_arm_joints": {"start": 0, "end": 6}, "gripper": {"start": 6, "end": 7}}
CONCATENATED = {
    "observation.state": np.hstack([JOINTS, POSE, WIDTH]),
    "action": np.hstack([POSE, WIDTH]),
}


def read(root, index=0):
    return recorded_episode(open_dataset(root), index, KINEMATICS)


def is_the_motion(track_s, pose7, width_m, *, up_m=0.0, tolerance=2e-6):
    """Poses and widths are those of the motion at exactly these times."""
    wanted = KINEMATICS.forward(true_joints(track_s)) + np.array([0, 0, up_m, 0, 0, 0, 0])
    metres, radians = se3.pose_error(pose7, wanted)
    assert metres.max() < tolerance
    assert radians.max() < 1e-5
    assert np.abs(width_m - true_width(track_s)).max() < tolerance


# -- which columns, and which times -----------------------------------------------------------------


@pytest.mark.parametrize("profile", ["piper", "train"])
def test_our_datasets_give_targets_and_observations_at_their_true_times(tmp_path, profile):
    write_ours(tmp_path / "ds", profile)
    recorded = read(tmp_path / "ds")
    is_the_motion(recorded.targets.time_s, recorded.targets.pose7, recorded.targets.width_m)
    observed = recorded.observed
    metres, _ = se3.pose_error(observed.pose7, KINEMATICS.forward(true_joints(observed.time_s)))
    assert metres == pytest.approx(0.003, abs=1e-6)
    assert observed.time_s[0] == pytest.approx(-LATE_NS["arm_eef"] / 1e9)
    assert observed.joints.shape == (60, 6)
    grid_s = np.arange(60) / 30
    assert np.abs(recorded.targets.time_s - grid_s).max() > 0.003  # not k/fps
    assert recorded.task == "pick the cube"
    assert recorded.sources["targets"] == "action.arm_eef[0:7], action.gripper[0:1]"


def test_without_stamps_of_the_samples_the_rows_times_count(tmp_path):
    write_ours(tmp_path / "ds", "piper")
    for path in (tmp_path / "ds" / "extras").glob("*.samples.parquet"):
        path.unlink()
    recorded = read(tmp_path / "ds")
    assert (recorded.sources["times"], recorded.sources["their times"]) == ("timestamp", "timestamp")
    is_the_motion(recorded.targets.time_s, recorded.targets.pose7, recorded.targets.width_m)


def test_train_columns_without_our_extras_are_read_by_modality(tmp_path):
    write_ours(tmp_path / "ds", "train")
    root = tmp_path / "ds"
    (path,) = root.glob("data/*/*.parquet")
    ours = {"arm_joint", "arm_eef", "gripper"}
    table = pq.read_table(path)
    keep = [n for n in table.column_names if n.rpartition(".")[2] not in ours or n.startswith("source_")]
    pq.write_table(table.select(keep), path)
    info = (root / "meta/info.json").read_text()
    for name in ours:
        info = info.replace(f'"observation.{name}"', f'"gone.o.{name}"').replace(
            f'"action.{name}"', f'"gone.a.{name}"'
        )
    (root / "meta/info.json").write_text(info)
    recorded = read(root)
    assert recorded.sources["targets"] == "action[0:3], action[3:7], action[7:8]"
    assert recorded.sources["times"] == "source_timestamp.target_eef"
    is_the_motion(recorded.targets.time_s, recorded.targets.pose7, recorded.targets.width_m)


@pytest.mark.parametrize(
    ("columns", "modality"),
    [
        (CONCATENATED, {"state": STATE_PARTS, "action": POSE_PARTS}),
        (
            {"observation.state": np.hstack([JOINTS, WIDTH]), "action": np.hstack([JOINTS, WIDTH])},
            {"state": JOINT_PARTS, "action": JOINT_PARTS},
        ),
        (
            {
                "proprio": np.hstack([JOINTS, POSE, WIDTH]),
                "command": np.hstack([-POSE[:, 3:], POSE[:, :3], WIDTH]),
            },
            {
                "state": {k: {**v, "original_key": "proprio"} for k, v in STATE_PARTS.items()},
                "action": {
                    "rotation": {
                        "original_key": "command",
                        "start": 0,
                        "end": 4,
                        "rotation_type": "quaternion",
                    },
                    "position": {"original_key": "command", "start": 4, "end": 7},
                    "gripper_width": {"original_key": "command", "start": 7, "end": 8},
                },
            },
        ),
    ],
    ids=["poses", "joints", "own names, turned quaternions"],
)
def test_others_datasets_are_read_by_their_modality(tmp_path, columns, modality):
    write_others(tmp_path / "ds", columns, modality)
    recorded = read(tmp_path / "ds")
    for time_s, pose7, width in (
        (recorded.targets.time_s, recorded.targets.pose7, recorded.targets.width_m),
        (recorded.observed.time_s, recorded.observed.pose7, recorded.observed.width_m),
    ):
        assert time_s == pytest.approx(ROW_S, abs=1e-6)
        is_the_motion(time_s, pose7, width)
    assert recorded.observed.joints == pytest.approx(JOINTS, abs=1e-6)


def test_what_others_do_not_say_is_said(tmp_path):
    write_others(
        tmp_path / "ds", {"action": POSE}, {"action": {k: POSE_PARTS[k] for k in ("eef_pos", "eef_rot")}}
    )
    recorded = read(tmp_path / "ds")
    assert (recorded.observed, recorded.targets.width_m) == (None, None)
    assert any("nothing says the gripper's width" in note for note in recorded.notes)
    assert any("no observations" in note for note in recorded.notes)


@pytest.mark.parametrize(
    ("columns", "modality", "told"),
    [
        (CONCATENATED, None, "nothing says which columns command the arm"),
        (
            CONCATENATED,
            {"state": STATE_PARTS, "action": {k: {**v, "absolute": False} for k, v in POSE_PARTS.items()}},
            "nothing says which columns command the arm",
        ),
        (
            {**CONCATENATED, "action": np.hstack([POSE, np.ones((60, 1))])},
            {"state": STATE_PARTS, "action": POSE_PARTS},
            "the gripper's values are no widths in metres",
        ),
        (
            {**CONCATENATED, "action": np.hstack([POSE * np.nan, WIDTH])},
            {"state": STATE_PARTS, "action": POSE_PARTS},
            "row 0: a number is not finite",
        ),
    ],
    ids=["no modality", "relative actions", "gripper 0 to 1", "not finite"],
)
def test_what_cannot_be_replayed_is_refused(tmp_path, columns, modality, told):
    write_others(tmp_path / "ds", columns, modality)
    with pytest.raises(DatasetError, match=told):
        read(tmp_path / "ds")


def test_rows_without_a_target_are_named(tmp_path):
    write_ours(tmp_path / "ds", "piper")
    root = tmp_path / "ds"
    for path in (*root.glob("data/*/*.parquet"), *root.glob("extras/*.parquet")):
        table = pq.read_table(path)
        pq.write_table(table.take([*range(20), *range(35, 60)]), path)
    (note,) = read(root).notes
    assert note.startswith("no target for 0.5")


# -- the verb ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    root = tmp_path_factory.mktemp("replay") / "ds"
    write_ours(root, "piper", control={"backend": "position"}, arm={"dh_offset": "s_v1_6_3"})
    return root


def replay(capsys, root, *words):
    code = cli.main(["replay", str(root), "--episode", "0", *map(str, words)])
    out, err = capsys.readouterr()
    return code, out, err


def refused(capsys, root, *words):
    code, _, err = replay(capsys, root, *words)
    assert code == 1
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    return err


def test_a_dry_run_reports_and_leaves_the_dataset_alone(ours, tmp_path, capsys):
    before = tree(ours)
    page, plot = tmp_path / "r.html", tmp_path / "r.svg"
    code, out, err = replay(capsys, ours, "--dry-run", "--report", page, "--plot", plot)
    assert (code, err) == (0, "")
    assert "every target is inside the workspace box and can be reached" in out
    # observations of this dataset are 3 mm above the motion and do not trail it; the simulated arm does
    rms, most = map(float, re.search(r"reproduced within ([\d.]+) mm RMS, ([\d.]+) mm at most", out).groups())
    assert 3.0 < rms < most < 12.0
    assert re.search(r"commands sent, against the recorded ones *│ *60 │ *0.0\d │", out)
    assert re.search(r"in the recording: measured, against the commands *│ *60 │ *\d", out)
    assert tree(ours) == before
    drawing = ET.fromstring(plot.read_text())
    titles = [e.text for e in drawing.iter("{http://www.w3.org/2000/svg}text")]
    assert {
        "flange x, m",
        "flange y, m",
        "flange z, m",
        "gripper, mm",
        "distance, mm",
        "rotation, deg",
    } <= set(titles)
    assert len(list(drawing.iter("{http://www.w3.org/2000/svg}svg"))) == 7
    assert f"{rms:.2f} mm" in page.read_text()
    assert "Dry run of a replay" in page.read_text()


def test_half_the_speed_trails_half_as_much(ours, capsys):
    behind = []
    for speed in (1.0, 0.5):
        _, out, _ = replay(capsys, ours, "--dry-run", "--speed", speed)
        behind.append(float(re.search(r"against the commands *│ *60 │ *([\d.]+) │", out)[1]))
    assert behind[1] == pytest.approx(behind[0] / 2, rel=0.1)


@pytest.mark.parametrize("speed", ["0", "-1", "0.04", "50", "nan"])
def test_a_speed_out_of_range_is_refused_with_the_range(ours, capsys, speed):
    assert re.search(
        r"--speed: .*0\.05 to [\d.]+ \(teleop\.\w+ allows no more\)",
        refused(capsys, ours, "--dry-run", "--speed", speed),
    )


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (-9, "error: the node of the replay was killed by signal 9: the arm holds what it was told last\n"),
        (1, "error: the node of the replay ended with exit code 1; the lines above say why\n"),
    ],
)
def test_a_node_that_ended_and_left_no_log_is_told(ours, capsys, monkeypatch, code, told):
    def ended(_config, _plan):
        return ReplayEnd(log=None, failed={"replay": code})

    monkeypatch.setattr("piper_collect.pipelines.replay_run.run_replay", ended)
    assert replay(capsys, ours)[::2] == (1, told)


def test_other_control_is_warned_of_or_refused(ours, capsys):
    code, out, _ = replay(capsys, ours, "--dry-run")
    assert code == 0
    assert "warning: recorded with control.backend position, now simulated" in out
    told = refused(capsys, ours, "--dry-run", "--strict-binding")
    assert "recorded under other control: control.backend position -> simulated" in told


def config_file(folder, text):
    file = folder / "session.yaml"
    file.write_text(f"/**:\n  ros__parameters:\n    {text}\n")
    return file


def test_a_target_outside_the_box_is_refused_with_its_row(ours, tmp_path, capsys):
    heights_m = KINEMATICS.forward(true_joints(ROW_S))[:, 2]
    ceiling_m = float(heights_m.max()) - 0.005
    file = config_file(tmp_path, f"teleop: {{workspace_max_m: [0.6, 0.45, {ceiling_m}]}}")
    told = refused(capsys, ours, "--config", file, "--dry-run")
    high = np.flatnonzero(heights_m > ceiling_m)[0]
    assert f"episode 0, row {high}: the target is " in told
    assert "outside the workspace box" in told


def test_a_real_arm_moves_only_when_a_person_says_so(ours, tmp_path, capsys, monkeypatch):
    file = config_file(tmp_path, "devices: {arm: can}")
    monkeypatch.setattr("sys.stdin", io.StringIO())
    told = refused(capsys, ours, "--config", file)
    assert "a real arm moves only when a person says so" in told
    assert "--yes" in told
    code, out, _ = replay(capsys, ours, "--config", file, "--dry-run")
    assert (code, "all of " in out) == (0, True)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--report", "none/x.html"), "--report: the folder is not there"),
        (("--report", "/nowhere/x.html"), "--report: the folder is not there"),
    ],
)
def test_files_that_cannot_be_written_are_refused_first(ours, capsys, words, told):
    assert told in refused(capsys, ours, "--dry-run", *words)


def test_nothing_is_written_into_the_dataset(ours, capsys):
    told = refused(capsys, ours, "--dry-run", "--report", ours / "r.html")
    assert "the dataset is only read" in told


def test_an_episode_that_is_not_there(ours, capsys):
    assert cli.main(["replay", str(ours), "--episode", "7", "--dry-run"]) == 1
    assert "no such episode (expected 0 to 0, got 7)" in capsys.readouterr().err


def test_quaternions_in_the_other_order_are_found_by_the_joints(tmp_path, capsys):
    turned = np.hstack([POSE[:, :3], np.roll(POSE[:, 3:], -1, axis=1)])
    columns = {"observation.state": np.hstack([JOINTS, turned, WIDTH]), "action": np.hstack([POSE, WIDTH])}
    write_others(tmp_path / "ds", columns, {"state": STATE_PARTS, "action": POSE_PARTS})
    assert "the quaternions are in the order xyzw" in refused(capsys, tmp_path / "ds", "--dry-run")


def test_an_arm_with_the_other_dh_variant_is_said(ours, tmp_path, capsys):
    file = config_file(tmp_path, "arm: {dh_offset: older}")
    _, out, _ = replay(capsys, ours, "--config", file, "--dry-run")
    assert "warning: recorded with arm.dh_offset s_v1_6_3, now older" in out
    assert "recorded with arm.dh_offset s_v1_6_3, the configuration has older" in out

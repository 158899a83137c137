"""One screen on a dataset or on recordings: what it says, and that it says it of what is there."""

import fcntl
import json
import os
import shutil
from pathlib import Path

import pytest
from dataset_edits import edit_info, edit_line, edit_lines, rows_path
from export_cases import run, varied_bags

from piper_collect.bag.session_folder import EPISODE_JSON
from piper_collect.cli.main import main
from piper_collect.config.profile import load_profile, with_dialect
from piper_collect.core.overview import counted, spread, summed
from piper_collect.pipelines.overview.at_work import is_locked
from piper_collect.pipelines.overview.dataset import dataset_overview
from piper_collect.pipelines.overview.recordings import recordings_overview
from piper_collect.pipelines.validate_bag import validate_bag
from piper_collect.report.overview import overview_lines, spoken_bytes

SESSIONS = ["pick_20260101_120000", "pick_20260102_120000"]


@pytest.fixture(scope="module")
def bags(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rec")
    varied_bags(folder, 4, sessions=2)
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory, bags):
    root = tmp_path_factory.mktemp("info")
    run(bags, root / "train", allow_incomplete=True)
    run(bags, root / "piper", "piper", allow_incomplete=True)
    return root


@pytest.fixture
def train(tmp_path, made):
    return shutil.copytree(made / "train", tmp_path / "train")


def said(overview):
    """Text by label; what goes on is joined."""
    found, last = {}, ""
    for label, text in overview_lines(overview):
        last = label or last
        found.setdefault(last, []).append(text)
    return found


def test_a_dataset_that_trainers_load(made):
    overview = dataset_overview(made / "train")
    facts = overview.facts
    assert (facts["version"], facts["profiles"], facts["robot"], facts["fps"]) == (
        "v2.1",
        {"train": 4},
        "piper",
        30.0,
    )
    lengths = [json.loads(x)["length"] for x in (made / "train/meta/episodes.jsonl").read_text().splitlines()]
    assert (facts["episodes"], facts["rows"]) == (4, sum(lengths))
    assert facts["seconds"] == pytest.approx(sum(lengths) / 30, abs=1e-3)
    assert facts["tasks"] == {"pick the cube": 2, "valid": 1, "stack the cups": 1}
    assert facts["outcomes"] == {"success": 3, "interrupted": 1}
    assert facts["incomplete_episodes"] == [2]
    assert facts["cameras"]["wrist"] == {"height": 16, "width": 32, "codec": "h264"}
    assert facts["features"]["observation.state"] == {"dtype": "float32", "shape": [14]}
    assert "observation.images.cam" not in facts["features"]
    assert [(s["session"], s["episodes"], s["arm"]["model"]) for s in facts["sessions"]] == [
        (name, 2, "piper") for name in SESSIONS
    ]
    assert facts["trainers"]["episodes_looked_at"] == [0, 1, 2, 3]
    assert "GR00T n1.5, torchcodec" in facts["trainers"]["loads"]
    assert not facts["trainers"]["refuses"]
    assert (facts["finalized"], facts["interrupted_save"], overview.problems) == ([], False, ())
    files = [p.stat().st_size for p in (made / "train").rglob("*") if p.is_file()]
    assert facts["disk_bytes"]["total"] == sum(files)
    assert [command.split()[1] for command, _ in overview.next_steps] == ["finalize", "validate"]


def test_capture_times_are_loaded_by_nobody_and_the_way_out_is_named(made):
    overview = dataset_overview(made / "piper")
    assert overview.facts["trainers"]["loads"] == []
    assert "LeRobot 0.3.2/0.3.3, pyav" in overview.facts["trainers"]["refuses"]
    assert overview.next_steps[-1][0].endswith("--profile train")
    lines = said(overview)
    assert lines["loads in"] == ["no trainer as it is"]
    assert any(line.startswith("GR00T n1.6 and GR00T n1.7: RuntimeError") for line in lines["not in"])


def test_a_dataset_of_version_3(tmp_path, bags, made):
    profile = with_dialect(load_profile("train"), "lerobot-v3.0")
    run(bags, tmp_path / "v3", profile, allow_incomplete=True)
    overview, older = dataset_overview(tmp_path / "v3"), dataset_overview(made / "train").facts
    assert overview.facts["version"] == "v3.0"
    for key in (
        "episodes",
        "rows",
        "tasks",
        "outcomes",
        "incomplete_episodes",
        "sessions",
        "losses",
        "profiles",
    ):
        assert overview.facts[key] == older[key], key
    assert set(overview.facts["cameras"]) == {"cam", "wrist"}
    assert said(overview)["loads in"] == ["not looked at here; validate tells"]
    assert [command.split()[1] for command, _ in overview.next_steps] == ["finalize", "validate"]


def test_finalized_and_its_next_step(train):
    assert main(["finalize", str(train), "--quiet"]) == 0
    overview = dataset_overview(train)
    assert overview.facts["finalized"] == ["relative_stats.json", "delta_stats.json"]
    assert [command.split()[1] for command, _ in overview.next_steps] == ["validate"]


def test_losses_are_summed_over_the_episodes(train):
    def lose(line):
        line["recording"]["losses"] = {"/cam/image_raw/compressed": 3, "/arm/joint_states": None}
        line["counts"] |= {"gaps": 2, "dropped": 1}
        line["cameras"]["cam"] |= {"repeated": 4, "dropped_not_increasing": 5}

    for number in (0, 3):
        edit_line(train, "episode_sources.jsonl", number, lose)
    overview = dataset_overview(train)
    assert overview.facts["losses"] == {
        "messages": 6,
        "messages_by_topic": {"/cam/image_raw/compressed": 6},
        "rows_missing": 4,
        "rows_dropped": 2,
        "frames_repeated": 8,
        "frames_dropped": 10,
    }
    (line,) = said(overview)["losses"]
    assert line.startswith("6 messages lost while recording, 4 rows without a target")


def test_what_is_wrong_or_unfinished_is_a_problem(train):
    def stiffer(record):
        record["control"]["impedance"]["kp"] = [20.0]

    edit_line(train, "collection_sessions.jsonl", 0, lambda r: r["control"]["impedance"].update(kp=[10.0]))
    edit_line(train, "collection_sessions.jsonl", 1, stiffer)
    edit_info(train, lambda info: info.update(total_frames=1))
    edit_lines(train, "episodes_stats.jsonl", lambda lines: lines[:-1])
    rows_path(train, 1).unlink()
    (train / ".staging").mkdir()
    ahead = train.parent / ".train.ahead-x"
    ahead.mkdir()
    overview = dataset_overview(train)
    problems = "\n".join(overview.problems)
    assert "total_frames is 1" in problems
    assert "the parquet file of episodes 1 is missing" in problems
    assert "has 3 lines for 4 episodes" in problems
    assert "a save was interrupted here" in problems
    assert f"an export was killed and left {ahead}" in problems
    assert "control.impedance.kp [10.0] -> [20.0]" in problems
    assert overview.next_steps[0][0].startswith("piper-collect export")
    assert not overview.facts["trainers"]["loads"]


def test_who_is_at_work_is_seen_without_a_lock(train):
    if is_locked(train) is None:
        pytest.skip("the system does not tell its locks (/proc/locks)")
    descriptor = os.open(train, os.O_RDONLY)
    try:
        assert is_locked(train) is False
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if f":{train.stat().st_ino} " in Path("/proc/locks").read_text() and not is_locked(train):
            pytest.skip("this file system lists its locks under another device")
        assert is_locked(train) is True
        assert "another process is writing it now" in dataset_overview(train).problems
    finally:
        os.close(descriptor)
    assert is_locked(train / "none") is None


def test_a_session_with_something_unfinished(tmp_path, bags):
    session = shutil.copytree(bags / SESSIONS[0], tmp_path / SESSIONS[0])
    (session / "session.json").write_text("{}")
    unfinished = session / ".recording" / "episode_000009"
    unfinished.mkdir(parents=True)
    (session / "episode_000000" / EPISODE_JSON).write_text(
        json.dumps({"outcome": "success", "losses": {"/arm/joint_states": 7}})
    )
    broken = session / "episode_000005"
    broken.mkdir()
    (broken / "episode_000005_0.mcap").write_bytes(b"no bag")
    overview = recordings_overview(session)
    facts = overview.facts
    assert overview.kind == "session"
    assert (facts["bags"], facts["outcomes"]) == (3, {"success": 1, "interrupted": 1})
    assert list(facts["unreadable"]) == [str(broken)]
    assert list(facts["incomplete"]) == [str(session / "episode_000002")]
    assert facts["losses"]["messages_by_topic"] == {"/arm/joint_states": 7}
    assert facts["unfinished"][0]["path"] == str(unfinished)
    assert facts["cameras"]["cam"] == {"height": 16, "width": 32}
    assert overview.next_steps[0][0] == f"piper-collect recover {session}"
    assert f"{unfinished} was never finished" in overview.problems


def test_each_count_of_losses_is_named(tmp_path, bags):
    bag = shutil.copytree(bags / SESSIONS[0] / "episode_000000", tmp_path / "episode_000000")
    topics = {
        "/arm/joint_states": {"lost": 7, "missing_by_stamps": 9},
        "/cam/image_raw": {"lost": 0, "missing_by_stamps": 2},
        "/arm/status": {"lost": 0, "missing_by_stamps": None},
        "/quest/input": {"lost": 0, "missing_by_stamps": None, "missing_by_sequence": 4},
    }
    losses = {name: counts["lost"] for name, counts in topics.items()}
    (bag / EPISODE_JSON).write_text(json.dumps({"outcome": "success", "losses": losses, "topics": topics}))
    overview = recordings_overview(bag)
    assert said(overview)["losses"] == [
        "/arm/joint_states 7 (published and not arrived, by DDS)",
        "/arm/joint_states 9, /cam/image_raw 2 (never taken or lost anywhere, by the stamps)",
        "/quest/input 4 (lost between headset and host, by its numbers)",
    ]
    report = validate_bag(bag)
    found = {(f.code, f.where.rpartition(" ")[2]) for f in report.findings}
    assert {("loss", "/arm/joint_states"), ("samples-missing", "/quest/input")} <= found
    by_bag = report.facts["by_bag"]["episode_000000"]["topics"]
    assert by_bag["/arm/joint_states"]["missing_by_stamps"] == 0  # counted anew, of what is there


def test_one_bag_lists_its_topics(bags):
    overview = recordings_overview(bags / SESSIONS[0] / "episode_000000")
    assert overview.kind == "bag"
    topic = overview.facts["topics"]["/arm/joint_states"]
    assert topic["type"] == "sensor_msgs/msg/JointState"
    assert overview.facts["messages"] == sum(t["messages"] for t in overview.facts["topics"].values())
    assert any(text.startswith("/arm/joint_states: ") for text in said(overview)["topics"])


def test_a_storage_that_was_cut_short_is_to_be_recovered_and_not_said_to_be_without_losses(tmp_path, bags):
    session = shutil.copytree(bags / SESSIONS[0], tmp_path / SESSIONS[0])
    bag = session / "episode_000000"
    (storage,) = bag.glob("*.mcap")
    storage.write_bytes(storage.read_bytes()[:-200])
    (bag / EPISODE_JSON).write_text(json.dumps({"outcome": "success", "losses": {"/arm/joint_states": 7}}))
    overview = recordings_overview(bag)
    assert overview.facts["cut_short"] == [str(bag)]
    assert [command for command, _ in overview.next_steps] == [f"piper-collect recover {bag}"]
    assert said(overview)["losses"] == [
        "the end of 1 bag, whose storage was cut short",
        "/arm/joint_states 7 (published and not arrived, by DDS)",
    ]
    beside = [command for command, _ in recordings_overview(session).next_steps]
    assert beside[0] == f"piper-collect recover {session}"
    assert beside[1].startswith("piper-collect validate ")
    assert main(["recover", str(bag), "--quiet"]) == 0
    assert recordings_overview(session).facts["cut_short"] == []


def test_an_export_of_what_is_not_whole_must_be_allowed(bags):
    for name, wanted in (("episode_000002", True), ("", False), ("episode_000000", False)):
        (command, _) = recordings_overview(bags / SESSIONS[0] / name).next_steps[-1]
        assert command.split()[1] == "export"
        assert command.endswith(" --allow-incomplete") is wanted


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("notes.txt", b"hi\n", "is neither a bag nor a dataset (got first bytes 68 69 0a)"),
        ("old.bag", b"#ROSBAG V2.0\n", "this is a ROS 1 bag"),
    ],
)
def test_a_file_that_is_no_bag_is_refused_in_one_line(tmp_path, capsys, name, content, told):
    (tmp_path / name).write_bytes(content)
    assert main(["info", str(tmp_path / name)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"error: {tmp_path / name}: {told}")
    assert err.count("\n") == 1


def test_only_unfinished_recordings_are_an_answer_and_nothing_is_an_error(tmp_path, capsys):
    (tmp_path / "s" / ".recording" / "episode_000000").mkdir(parents=True)
    assert main(["info", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "0 bags" in out
    assert "was never finished" in out
    (tmp_path / "empty").mkdir()
    assert main(["info", str(tmp_path / "empty")]) == 1
    assert capsys.readouterr().err.startswith(f"error: {tmp_path / 'empty'}: no bag here")


def test_the_program_prints_one_screen_or_json(made, bags, capsys):
    before = {p: p.stat().st_mtime_ns for p in made.rglob("*")}
    assert main(["info", str(made / "train")]) == 0
    out = capsys.readouterr().out
    assert "4 episodes" in out
    assert len(out.splitlines()) < 40
    assert main(["info", str(made / "train"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["kind"], told["episodes"], told["problems"]) == ("dataset", 4, [])
    assert main(["info", str(bags), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["bags"] == 4
    assert {p: p.stat().st_mtime_ns for p in made.rglob("*")} == before


def test_counting():
    assert list(counted(["b", "a", "a"]).items()) == [("a", 2), ("b", 1)]
    assert summed([{"x": 2, "y": None}, {"x": 1, "z": 0, "w": True}]) == {"x": 3}
    assert spread(range(3), 5) == [0, 1, 2]
    assert spread(range(10_000), 5) == [0, 2500, 5000, 7499, 9999]
    assert [spoken_bytes(n) for n in (0, 999, 1000, 14_500, 999_600, 7_000_000_000)] == [
        "0 B",
        "999 B",
        "1 kB",
        "14.5 kB",
        "1 MB",
        "7 GB",
    ]

"""HDF5 cases: fields and folders as written, read by plain h5py; appended, replaced, stopped, converted."""

import io
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from dataset_cases import add, episode, open_writer, profile, rows_of, tree

from piper_collect.cli.main import main
from piper_collect.config.profile import Profile, load_profile, with_codec, with_dialect
from piper_collect.core.types import Episode
from piper_collect.dataset.edit import delete_episodes
from piper_collect.dataset.hdf5.reader import open_cases
from piper_collect.dataset.layout import samples_path
from piper_collect.dataset.parquet import column_values
from piper_collect.dataset.readers import open_any
from piper_collect.dataset.remux import clip_facts
from piper_collect.dataset.stage import EpisodeExtras, EpisodeIdentity
from piper_collect.dataset.writer import DatasetWriter
from piper_collect.errors import ConfigError, DatasetError
from piper_collect.pipelines.validators import validator_of

h5py = pytest.importorskip("h5py", reason="h5py is not installed (pip install 'piper_collect[hdf5]')")
pytestmark = pytest.mark.usefixtures("no_sync")

CAMERA, KEY = "cam_front", "observation.images.cam_front"
LENGTHS = (3, 5, 2, 4)
CASE = "piper/task_0/pick"


def made_of(dialect: str = "hdf5-cases", **changes: Any) -> Profile:
    return replace(with_dialect(load_profile("train"), dialect), **changes)


def begin(root: Path, dialect: str = "hdf5-cases", **changes: Any) -> DatasetWriter:
    return open_writer(root, profile=made_of(dialect, **changes), cameras={CAMERA: (16, 24)})


def small(number: int, rows: int, task: str | None = None, outcome: str = "success") -> Episode:
    made = episode(
        f"pick/episode_{number:06d}",
        task=task or f"task {number % 2}",
        start=float(number),
        ticks_ms=[k * 100 / 3 for k in range(rows)],
        frames_ms=[k * 100 / 3 - 1e-3 * (k > 0) for k in range(rows)],
        cameras=(CAMERA,),
    )
    return replace(made, provenance={"outcome": outcome})


def fill(root: Path, lengths: Sequence[int] = LENGTHS, *, reopen: bool = False) -> DatasetWriter:
    writer = begin(root)
    for number, rows in enumerate(lengths):
        if reopen:
            writer = begin(root)
        add(writer, small(number, rows), bag=f"b{number}")
    return writer


def json_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_reading_example_of_the_format_reads_it(tmp_path: Path) -> None:
    fill(tmp_path)
    root = tmp_path
    with (root / "meta/episodes.jsonl").open() as index:
        item = json.loads(next(index))

    with h5py.File(root / item["hdf5_path"], "r") as episode:
        states = episode["agent_pose"][()]
        actions = episode["actions"][()]
        instruction = episode["language_instruction"].asstr()[()]

    assert instruction == "task 0"
    assert states.dtype == actions.dtype == np.float32
    joints = np.arange(3)[:, None] + np.arange(6) / 10
    expected = np.hstack([joints, 0.01 * np.arange(3)[:, None]]).astype(np.float32)
    np.testing.assert_array_equal(states, expected)
    np.testing.assert_array_equal(actions, expected[[1, 2, 2]])


def test_the_fields_of_a_file(tmp_path: Path) -> None:
    made = small(0, 3)
    late = replace(rows_of(made.tick_ns), stale=np.array([False, True, False]))
    made = replace(made, samples={**made.samples, "arm_eef": late})
    add(begin(tmp_path), made)
    with h5py.File(tmp_path / CASE / "dataset/episode_0000.h5", "r") as file:
        assert (file.attrs["fps"], file.attrs["frame_count"]) == (30.0, 3)
        names = file["agent_pose_names"].asstr()[()].tolist()
        assert names == [*(f"arm_joint.joint{n}" for n in range(1, 7)), "gripper.width"]
        assert file["joint_position_names"].asstr()[()].tolist() == names
        np.testing.assert_array_equal(file["joint_positions"][()], file["agent_pose"][()])
        assert file["agent_pose_indices"][()].tolist() == list(range(7))
        assert file["arm_joint_indices"][()].tolist() == list(range(6))
        assert file["gripper_indices"][()].tolist() == [6]
        pose = file["ee_pose"]
        assert (pose.shape, pose.attrs["quaternion_order"]) == ((3, 7), "wxyz")
        np.testing.assert_array_equal(pose[()], made.columns["arm_eef"].astype(np.float32))
        assert file["ee_pose_names"].asstr()[()].tolist() == ["x", "y", "z", "qw", "qx", "qy", "qz"]
        assert file["ee_frame"].asstr()[()] == "arm base"
        assert file["ee_pose_valid"][()].tolist() == [True, False, True]
        video = file["camera_cam_front_rgb"]
        assert (video.dtype, video.ndim) == (np.uint8, 1)
        assert dict(video.attrs) == {"fps": 30.0, "frame_count": 3, "height": 16, "width": 24}
        with av.open(io.BytesIO(video[()].tobytes())) as container:
            assert container.streams.video[0].codec_context.name == "h264"
            assert sum(1 for _ in container.decode(video=0)) == 3
        for absent in ("step_index", "object_positions", "bboxes_2d", "subgoals", "subtask_instructions"):
            assert absent not in file
    left_out = json.loads((tmp_path / "meta/info.json").read_text())["left_out"]
    assert {"step_index", "subgoals"} < set(left_out)


def test_folders_and_lists(tmp_path: Path) -> None:
    writer = begin(tmp_path)
    add(writer, small(0, 3, "Pick it!"), bag="b0")
    add(writer, small(1, 2, "pick it"), bag="b1")
    add(writer, small(2, 2, "Pick it!", outcome="failure"), bag="b2")
    add(writer, small(3, 4, "Pick it!"), bag="b3", session="later")
    lines = json_lines(tmp_path / "meta/episodes.jsonl")
    assert [line["hdf5_path"] for line in lines] == [
        "piper/pick_it/pick/dataset/episode_0000.h5",
        "piper/pick_it_2/pick/dataset/episode_0000.h5",
        "piper/pick_it/pick/dataset/episode_0001.h5",
        "piper/pick_it/later/dataset/episode_0000.h5",
    ]
    assert len({line["episode_id"] for line in lines}) == 4
    for line in lines:
        assert (tmp_path / line["hdf5_path"]).is_file()
        assert all((tmp_path / file).is_file() for file in line["files"].values())
    cases = json_lines(tmp_path / "meta/cases.jsonl")
    assert [c["case_id"] for c in cases] == [
        f"piper/{name}" for name in ("pick_it/pick", "pick_it_2/pick", "pick_it/later")
    ]
    case = tmp_path / "piper/pick_it/pick"
    assert json_lines(case / "dataset/meta/episode.jsonl") == [lines[0], lines[2]]
    results = json_lines(case / "results/episodes.jsonl")
    assert [(r["h5_episode_index"], r["outcome"]) for r in results] == [(0, "success"), (1, "failure")]
    assert "firmware: null" in (case / "resolved_config.yaml").read_text()
    info = json.loads((tmp_path / "meta/info.json").read_text())
    totals = {k: info[f"total_{k}"] for k in ("episodes", "frames", "tasks", "cases")}
    assert totals == {"episodes": 4, "frames": 11, "tasks": 3, "cases": 3}  # "valid" is a task, too


def test_one_run_and_many_come_to_the_same_bytes(tmp_path: Path) -> None:
    fill(tmp_path / "one")
    fill(tmp_path / "many", reopen=True)
    assert tree(tmp_path / "one") == tree(tmp_path / "many")


@pytest.mark.parametrize("index", [0, 1, 3])
def test_a_replaced_episode_equals_one_made_so_from_the_start(tmp_path: Path, index: int) -> None:
    put(fill(tmp_path / "ds"), index, small(index, 6))
    fill(tmp_path / "fresh", [6 if i == index else n for i, n in enumerate(LENGTHS)])
    assert tree(tmp_path / "ds") == tree(tmp_path / "fresh")


def test_a_replaced_episode_may_go_to_another_case(tmp_path: Path) -> None:
    writer = fill(tmp_path, LENGTHS[:2])
    put(writer, 1, small(1, 6, "task 0"))
    lines = json_lines(tmp_path / "meta/episodes.jsonl")
    assert [line["hdf5_path"] for line in lines] == [f"{CASE}/dataset/episode_000{n}.h5" for n in (0, 1)]
    assert not (tmp_path / "piper/task_1").exists()
    assert [c["case_id"] for c in json_lines(tmp_path / "meta/cases.jsonl")] == [CASE]
    add(begin(tmp_path), small(4, 3), bag="b4")
    assert open_cases(tmp_path).data_path(2).name == "episode_0002.h5"


def test_calibration_of_a_replaced_episode_goes_with_it(tmp_path: Path) -> None:
    writer = begin(tmp_path)
    for number, known in enumerate(({CAMERA: {"k": [1]}}, {CAMERA: {"k": [2]}})):
        writer.add_episode(
            small(number, 3),
            identity=EpisodeIdentity(session="pick", bag=f"b{number}", content_hash=f"hash of b{number}"),
            session_record={"session": "pick"},
            extras=EpisodeExtras(cameras=known),
        )
    put(writer, 0, small(0, 3))
    told = json.loads((tmp_path / "extras/cameras.json").read_text())
    assert told == {CAMERA: [{"from_episode": 1, "info": {"k": [2]}}]}
    put(writer, 1, small(1, 3))
    assert not (tmp_path / "extras").exists()


def put(writer: DatasetWriter, index: int, what: Episode) -> None:
    writer.replace_episode(
        index,
        what,
        identity=EpisodeIdentity(session="pick", bag=f"b{index}", content_hash=f"hash of b{index}"),
        session_record={"session": "pick", "arm": {"firmware": None}},
    )


@pytest.mark.parametrize("gone", [[0], [1, 3], [3], [0, 1, 2, 3]])
def test_episodes_are_taken_out_and_the_files_of_the_others_stay(tmp_path: Path, gone: list[int]) -> None:
    writer = begin(tmp_path, row_samples="extras")
    for number, rows in enumerate(LENGTHS):
        add(writer, small(number, rows), bag=f"b{number}")
    before = [Path(line["hdf5_path"]) for line in json_lines(tmp_path / "meta/episodes.jsonl")]
    stamps = [(tmp_path / samples_path(i)).read_bytes() for i in range(4)]
    content = tree(tmp_path)
    delete_episodes(tmp_path, gone)
    kept = [number for number in range(4) if number not in gone]
    reader = open_cases(tmp_path)
    assert [Path(line["hdf5_path"]) for line in reader.episodes.values()] == [before[i] for i in kept]
    assert {p.relative_to(tmp_path) for p in tmp_path.rglob("*.h5")} == {before[i] for i in kept}
    for new, old in enumerate(kept):
        assert (tmp_path / before[old]).read_bytes() == content[str(before[old])]
        assert (tmp_path / samples_path(new)).read_bytes() == stamps[old]
        assert reader.lines[new].source["bag"] == f"b{old}"
        assert reader.rows(new)["index"][0].as_py() == sum(LENGTHS[i] for i in kept[:new])
    assert len(list((tmp_path / "extras").glob("*.parquet")) if kept else []) == len(kept)
    errors = [f.code for f in validator_of(tmp_path)(tmp_path).report.findings if f.level == "error"]
    assert errors == ([] if kept else ["empty"])
    add(begin(tmp_path, row_samples="extras"), small(7, 3), bag="b7")
    assert len(open_cases(tmp_path).lines) == len(kept) + 1


@pytest.mark.parametrize("change", ["append", "replace"])
def test_a_save_that_fails_leaves_all_as_it_was(
    tmp_path: Path, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = fill(tmp_path)
    before = tree(tmp_path)

    def full(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("piper_collect.dataset.hdf5.store.write_meta", full)
    with pytest.raises(OSError, match="disk full"):
        put(writer, 1, small(1, 6)) if change == "replace" else add(writer, small(4, 2), bag="b4")
    assert tree(tmp_path) == before


@pytest.mark.parametrize("gone", [f"{CASE}/dataset/episode_0001.h5", "meta/episodes.jsonl"])
def test_a_damaged_dataset_is_not_continued(tmp_path: Path, gone: str) -> None:
    fill(tmp_path)
    (tmp_path / gone).unlink()
    with pytest.raises(DatasetError):
        begin(tmp_path)


def test_what_the_format_cannot_hold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"needs video\.timing: row.*--profile train"):
        with_dialect(profile(), "hdf5-cases")
    with pytest.raises(ValueError, match=r"video\.codec: libx264"):
        with_codec(made_of(), "libsvtav1")
    no_joints = tuple(c for c in made_of().columns if not c.concat and c.key != "observation.arm_joint")
    with pytest.raises(DatasetError, match=r"expected observation\.arm_joint"):
        begin(tmp_path / "ds", columns=no_joints)


def convert(root: Path, dialect: str, out: Path) -> Path:
    assert main(["convert", str(root), "--to", dialect, "-o", str(out), "--quiet"]) == 0
    return out


@pytest.mark.parametrize("dialect", ["lerobot-v2.0", "lerobot-v2.1", "lerobot-v3.0"])
def test_there_and_back_is_what_it_was(tmp_path: Path, dialect: str) -> None:
    writer = begin(tmp_path / "ds", dialect)
    for number, rows in enumerate(LENGTHS):
        add(writer, small(number, rows), bag=f"b{number}")
    cases = convert(tmp_path / "ds", "hdf5-cases", tmp_path / "cases")
    back = convert(cases, dialect, tmp_path / "back")
    before, after = tree(tmp_path / "ds"), tree(back)
    # a conversion makes the statistics of episodes for v2.1 and v3.0 only
    assert set(after) == set(before) - ({"meta/episodes_stats.jsonl"} if dialect == "lerobot-v2.0" else set())
    # statistics of pictures are counted again, from decoded frames
    same = [f for f in after if not f.endswith(".mp4") and not f.startswith("meta/episodes/")]
    assert [f for f in same if before[f] != after[f]] == []
    one, other = open_any(tmp_path / "ds"), open_any(back)
    for index in one.lines:
        for reader in (other, open_any(cases)):
            a, b = one.rows(index), reader.rows(index)
            assert a.column_names == b.column_names
            for key in a.column_names:
                np.testing.assert_array_equal(column_values(a, key), column_values(b, key))
            assert one.lines[index] == reader.lines[index]
            assert one.frame_times(index, KEY).tolist() == reader.frame_times(index, KEY).tolist()
            pairs = zip(one.frames(index, KEY), reader.frames(index, KEY), strict=True)
            assert all(t == u and np.array_equal(p, q) for (t, p), (u, q) in pairs)
            assert clip_facts(one.clip(index, KEY)) == clip_facts(reader.clip(index, KEY))


def test_a_converted_dataset_holds_what_an_export_makes_and_goes_on(tmp_path: Path) -> None:
    fill(tmp_path / "native")
    writer = begin(tmp_path / "ds", "lerobot-v2.1")
    for number, rows in enumerate(LENGTHS):
        add(writer, small(number, rows), bag=f"b{number}")
    made = convert(tmp_path / "ds", "hdf5-cases", tmp_path / "made")
    native, converted = tree(tmp_path / "native"), tree(made)
    assert list(native) == list(converted)
    assert [f for f in native if native[f] != converted[f] and not f.endswith(".h5")] == []
    for line in json_lines(made / "meta/episodes.jsonl"):
        files = [root / line["hdf5_path"] for root in (made, tmp_path / "native")]
        with h5py.File(files[0]) as a, h5py.File(files[1]) as b:
            assert list(a) == list(b)
            for name in (n for n in a if n != "columns" and not n.startswith("camera_")):
                np.testing.assert_array_equal(a[name][()], b[name][()])
    add(begin(made), small(4, 3), bag="b4")
    assert open_any(made).lines[4].length == 3


def test_a_conversion_says_what_is_not_held(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    add(begin(tmp_path / "ds", "lerobot-v2.1"), small(0, 3))
    assert main(["convert", str(tmp_path / "ds"), "--to", "hdf5-cases", "-o", str(tmp_path / "cases")]) == 0
    said = " ".join(capsys.readouterr().out.split())
    for lost in ("statistics: HDF5 cases have none", "step_index: no stages", "subgoals: no subgoals"):
        assert lost in said
    assert main(["convert", str(tmp_path / "cases"), "--to", "lerobot-v2.1", "-o", str(tmp_path / "b")]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "agent_pose, actions, joint_positions, ee_pose: they follow" in said


@pytest.mark.parametrize(
    ("ticks_ms", "frames_ms", "said"),
    [
        ([0, 100 / 3, 200 / 3], (2, 36), "not one frame a row"),
        ([0, 100 / 3, 200 / 3], (2, 36, 68), "not one frame a row, each at k/fps"),
        ([0, 34.5, 200 / 3], (0, 100 / 3, 200 / 3), "rows of episode 0 do not lie at k/fps"),
    ],
)
def test_rows_and_videos_at_other_times_are_not_converted(
    tmp_path: Path,
    ticks_ms: list[float],
    frames_ms: list[float],
    said: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    add(
        open_writer(tmp_path / "ds", profile=profile()),
        episode(ticks_ms=ticks_ms, frames_ms=frames_ms),
    )
    assert main(["convert", str(tmp_path / "ds"), "--to", "hdf5-cases", "-o", str(tmp_path / "out")]) == 1
    error = " ".join(capsys.readouterr().err.split())
    assert said in error
    assert "--profile train --dialect hdf5-cases" in error
    assert not (tmp_path / "out").exists()


def test_a_dataset_without_provenance_is_converted_and_invents_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    writer = begin(tmp_path / "ds", "lerobot-v2.1", row_samples="none")
    for number in range(2):
        add(writer, small(number, 3, "Pick"), bag=f"b{number}")
    for name in ("episode_sources.jsonl", "collection_sessions.jsonl", "collection_meta.json"):
        (tmp_path / "ds/meta" / name).unlink()
    assert main(["convert", str(tmp_path / "ds"), "--to", "hdf5-cases", "-o", str(tmp_path / "cases")]) == 0
    assert "ee_pose_valid: the rows do not tell" in " ".join(capsys.readouterr().out.split())
    reader = open_cases(tmp_path / "cases")
    assert [line["hdf5_path"] for line in reader.episodes.values()] == [
        f"piper/pick/untitled/dataset/episode_000{n}.h5" for n in (0, 1)
    ]
    with h5py.File(reader.data_path(0)) as file:
        assert "ee_pose_valid" not in file
    assert "session: null" in (tmp_path / "cases/piper/pick/untitled/resolved_config.yaml").read_text()
    assert not list((tmp_path / "cases").rglob("results"))
    assert [f for f in validator_of(reader.root)(reader.root).report.findings if f.level == "error"] == []

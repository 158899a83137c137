"""dataset.writer: what lands on disk, resuming, and what is refused."""

import dataclasses
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from dataset_cases import (
    CAMERAS,
    MS,
    QUARTER_TURN,
    SIZE,
    T0,
    TICKS_MS,
    add,
    camera,
    episode,
    open_writer,
    picture,
    profile,
    tree,
)

from piper_collect.config.profile import load_profile
from piper_collect.core.types import CameraFrame, CameraStream, EpisodeCamera
from piper_collect.dataset.parquet import column_values
from piper_collect.dataset.reader import open_dataset
from piper_collect.dataset.stage import EpisodeIdentity
from piper_collect.errors import DatasetError, ImageError

FRONT = "observation.images.cam_front"


def lines(path: Path) -> list[dict[str, object]]:
    text = path.read_text(encoding="utf-8")
    assert text.endswith("\n")
    return [json.loads(line) for line in text[:-1].split("\n")]


def test_files_of_a_dataset(tmp_path: Path) -> None:
    root = tmp_path / "set"
    add(open_writer(root), episode())
    files = [p for p, content in tree(root).items() if content is not None]
    assert files == [
        "data/chunk-000/episode_000000.parquet",
        "extras/episode_000000.samples.parquet",
        "extras/stats_state.bin",
        "meta/collection_meta.json",
        "meta/collection_sessions.jsonl",
        "meta/episode_sources.jsonl",
        "meta/episodes.jsonl",
        "meta/info.json",
        "meta/modality.json",
        "meta/stats.json",
        "meta/tasks.jsonl",
        "videos/chunk-000/observation.images.cam_front/episode_000000.mp4",
        "videos/chunk-000/observation.images.cam_wrist/episode_000000.mp4",
    ]


def test_info_has_exactly_the_keys_of_the_format(tmp_path: Path) -> None:
    add(open_writer(tmp_path), episode())
    info = json.loads((tmp_path / "meta/info.json").read_bytes())
    features = info.pop("features")
    assert info == {
        "codebase_version": "v2.0",
        "robot_type": "piper",
        "fps": 30,
        "data_path": "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
        "video_path": "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4",
        "chunks_size": 1000,
        "total_episodes": 1,
        "total_frames": 4,
        "total_tasks": 1,
        "splits": {"train": "0:1"},
    }
    assert isinstance(info["fps"], int)
    assert {k: (f["dtype"], f["shape"]) for k, f in features.items()} == {
        "observation.arm_joint": ("float32", [6]),
        "observation.arm_eef": ("float32", [7]),
        "observation.gripper": ("float32", [1]),
        "action.arm_eef": ("float32", [7]),
        "action.gripper": ("float32", [1]),
        "observation.images.cam_front": ("video", [16, 24, 3]),
        "observation.images.cam_wrist": ("video", [16, 24, 3]),
        "timestamp": ("float32", [1]),
        "frame_index": ("int64", [1]),
        "episode_index": ("int64", [1]),
        "index": ("int64", [1]),
        "task_index": ("int64", [1]),
    }
    assert all(set(f) == {"dtype", "shape", "names"} for f in features.values())
    assert features["observation.arm_eef"]["names"] == ["x", "y", "z", "qw", "qx", "qy", "qz"]


def test_modality_is_the_one_of_the_format(tmp_path: Path) -> None:
    add(open_writer(tmp_path), episode())
    rest = {"dtype": "float32", "absolute": True}
    rotation = {"rotation_type": "quat_wxyz", **rest}
    assert json.loads((tmp_path / "meta/modality.json").read_bytes()) == {
        "state": {
            "arm_joint": {"start": 0, "end": 6, "original_key": "observation.arm_joint", **rest},
            "eef_pos": {"start": 0, "end": 3, "original_key": "observation.arm_eef", **rest},
            "eef_rot": {"start": 3, "end": 7, "original_key": "observation.arm_eef", **rotation},
            "gripper": {"start": 0, "end": 1, "original_key": "observation.gripper", **rest},
        },
        "action": {
            "eef_pos": {"start": 0, "end": 3, "original_key": "action.arm_eef", **rest},
            "eef_rot": {"start": 3, "end": 7, "original_key": "action.arm_eef", **rotation},
            "gripper": {"start": 0, "end": 1, "original_key": "action.gripper", **rest},
        },
        "video": {c: {"original_key": f"observation.images.{c}"} for c in CAMERAS},
        "annotation": {"task_index": {"original_key": "task_index"}},
    }


def test_lines_of_the_other_files(tmp_path: Path) -> None:
    record = {"session": "pick", "arm": {"firmware": None}, "control": {"backend": "joint"}}
    open_writer(tmp_path).add_episode(
        episode(),
        identity=EpisodeIdentity(session="pick", bag="episode_000007", content_hash="abc"),
        session_record=record,
    )
    meta = tmp_path / "meta"
    counts = {"observation.images.cam_front": 4, "observation.images.cam_wrist": 4}
    assert lines(meta / "episodes.jsonl") == [
        {
            "episode_index": 0,
            "length": 4,
            "tasks": ["pick the cube"],
            "task_index": 0,
            "video_frame_length": 4,
            "video_frame_lengths": counts,
        }
    ]
    assert lines(meta / "tasks.jsonl") == [{"task_index": 0, "task": "pick the cube"}]
    assert lines(meta / "collection_sessions.jsonl") == [record]
    assert json.loads((meta / "collection_meta.json").read_bytes()) == record
    (source,) = lines(meta / "episode_sources.jsonl")
    assert (source["session"], source["bag"], source["content_hash"], source["t0_ns"]) == (
        "pick",
        "episode_000007",
        "abc",
        T0,
    )
    stats = json.loads((meta / "stats.json").read_bytes())
    assert list(stats) == [
        "observation.arm_joint",
        "observation.arm_eef",
        "observation.gripper",
        "action.arm_eef",
        "action.gripper",
        "timestamp",
    ]
    assert all(list(s) == ["mean", "std", "min", "max", "q01", "q99"] for s in stats.values())
    assert stats["observation.arm_joint"]["max"] == [float(np.float32(3 + k / 10)) for k in range(6)]


def test_without_cameras(tmp_path: Path) -> None:
    saved = add(open_writer(tmp_path, cameras={}), episode(cameras=()))
    assert saved.video_frames == {}
    assert set(lines(tmp_path / "meta/episodes.jsonl")[0]) == {
        "episode_index",
        "length",
        "tasks",
        "task_index",
    }
    assert json.loads((tmp_path / "meta/modality.json").read_bytes())["video"] == {}


def test_rows_as_stored(tmp_path: Path) -> None:
    saved = add(open_writer(tmp_path), episode())
    assert (saved.episode_index, saved.rows, saved.duration_s) == (0, 4, 0.101)
    table = open_dataset(tmp_path).rows(0)
    assert column_values(table, "observation.arm_eef")[2].tolist() == [
        float(np.float32(v)) for v in (0.2, 0.4, 0.6, *QUARTER_TURN)
    ]
    assert column_values(table, "observation.gripper").shape == (4, 1)
    assert table["timestamp"].to_pylist() == [float(np.float32(ms / 1000)) for ms in TICKS_MS]
    assert {
        str(table.schema.field(k).type) for k in ("frame_index", "episode_index", "index", "task_index")
    } == {"int64"}
    assert str(table.schema.field("timestamp").type) == "float"


def test_timestamps_lose_nothing_before_the_last_step(tmp_path: Path) -> None:
    ticks = (0, 33.333333, 3_600_000.123457)
    add(open_writer(tmp_path, cameras={}), episode(ticks_ms=ticks, cameras=()))
    stored = open_dataset(tmp_path).rows(0)["timestamp"].to_pylist()
    assert stored == [0.0, float(np.float32(0.033333333)), float(np.float32(3600.000123457))]


def test_frames_carry_their_capture_times(tmp_path: Path) -> None:
    frames = (7.9, 40, 73, 73.5, 60, 101)
    saved = add(open_writer(tmp_path), episode(frames_ms=frames))
    reader = open_dataset(tmp_path)
    np.testing.assert_array_equal(reader.frame_times(0, FRONT), [0.007, 0.040, 0.060, 0.073, 0.101])
    assert saved.video_frames == dict.fromkeys(CAMERAS, 5)
    assert saved.dropped_frames == dict.fromkeys(CAMERAS, 1)
    decoded = list(reader.frames(0, FRONT))
    assert [t for t, _ in decoded] == [0.007, 0.040, 0.060, 0.073, 0.101]
    assert [round(float(rgb.mean()) / 10) for _, rgb in decoded] == [4, 5, 8, 6, 9]
    assert reader.sources[0]["cameras"]["cam_front"]["dropped_not_increasing"] == 1


def test_resuming_goes_on_where_the_last_session_stopped(tmp_path: Path) -> None:
    add(open_writer(tmp_path), episode(), "b0", "monday")
    before = (tmp_path / "meta/collection_sessions.jsonl").read_bytes()
    writer = open_writer(tmp_path)
    add(writer, episode(task="place it", ticks_ms=(0, 30)), "b1", "tuesday")
    add(writer, episode(start=5.0), "b2", "tuesday")
    reader = open_dataset(tmp_path)
    assert [reader.rows(i)["index"].to_pylist() for i in range(3)] == [[0, 1, 2, 3], [4, 5], [6, 7, 8, 9]]
    assert [reader.rows(i)["frame_index"][0].as_py() for i in range(3)] == [0, 0, 0]
    assert [reader.rows(i)["episode_index"][0].as_py() for i in range(3)] == [0, 1, 2]
    assert [reader.rows(i)["task_index"][0].as_py() for i in range(3)] == [0, 1, 0]
    assert reader.tasks == {0: "pick the cube", 1: "place it"}
    assert (reader.info["total_episodes"], reader.info["total_frames"], reader.info["total_tasks"]) == (
        3,
        10,
        2,
    )
    assert [s["session"] for s in reader.sessions] == ["monday", "tuesday"]
    assert (tmp_path / "meta/collection_sessions.jsonl").read_bytes().startswith(before)
    assert json.loads((tmp_path / "meta/collection_meta.json").read_bytes())["session"] == "tuesday"
    assert reader.stats is not None
    assert reader.stats["observation.arm_joint"]["max"][0] == 8.0
    assert writer.held("hash of b1").indexes == open_writer(tmp_path).held("hash of b1").indexes == (1,)
    assert not writer.held("hash of b9").whole
    assert not writer.held("").whole


def test_interrupted_and_resumed_equals_one_run(tmp_path: Path) -> None:
    writer = open_writer(tmp_path / "one")
    for k in range(3):
        add(writer, episode(start=float(k)), f"b{k}")
    for k in range(3):
        add(open_writer(tmp_path / "many"), episode(start=float(k)), f"b{k}")
    assert tree(tmp_path / "one") == tree(tmp_path / "many")


def test_chunks(tmp_path: Path) -> None:
    writer = open_writer(tmp_path, profile=dataclasses.replace(profile(), chunks_size=2))
    for k in range(3):
        add(writer, episode(), f"b{k}")
    assert (tmp_path / "data/chunk-001/episode_000002.parquet").is_file()
    assert (tmp_path / f"videos/chunk-001/{FRONT}/episode_000002.mp4").is_file()
    assert open_dataset(tmp_path).rows(2).num_rows == 4


@pytest.mark.parametrize("task", ['抓取 "red" cube\n\t', "a\u2028b\u2029c\x85d", "🤖\\", " lead and trail "])
def test_odd_task_strings_round_trip(tmp_path: Path, task: str) -> None:
    writer = open_writer(tmp_path)
    add(writer, episode(task=task), "b0")
    add(open_writer(tmp_path), episode(task=task), "b1")
    text = (tmp_path / "meta/tasks.jsonl").read_bytes().decode("utf-8")
    assert text.splitlines() == text.split("\n")[:-1]
    assert open_dataset(tmp_path).tasks == {0: task}


@pytest.mark.parametrize("task", ["", "  \n"])
def test_empty_task_is_refused(tmp_path: Path, task: str) -> None:
    with pytest.raises(DatasetError, match="no task"):
        add(open_writer(tmp_path / "set"), episode(task=task))
    assert not (tmp_path / "set").exists()


def test_one_row_episode_has_finite_statistics(tmp_path: Path) -> None:
    add(open_writer(tmp_path), episode(ticks_ms=(0,), frames_ms=(0,)))
    stats = open_dataset(tmp_path).stats
    assert stats is not None
    grip = float(np.float32(0.07))
    assert stats["action.gripper"] == {
        "mean": [grip],
        "std": [0.0],
        "min": [grip],
        "max": [grip],
        "q01": [grip],
        "q99": [grip],
    }


def test_fractional_rate_is_kept(tmp_path: Path) -> None:
    add(open_writer(tmp_path, fps=29.97), episode())
    assert open_dataset(tmp_path).info["fps"] == 29.97


def test_odd_images_are_cropped_and_said(tmp_path: Path) -> None:
    sizes = {"cam_front": (17, 25)}
    writer = open_writer(tmp_path, cameras=sizes)
    add(writer, episode(cameras=("cam_front",), size=(17, 25)))
    reader = open_dataset(tmp_path)
    assert reader.info["features"][FRONT]["shape"] == [16, 24, 3]
    assert next(reader.frames(0, FRONT))[1].shape == (16, 24, 3)
    said = reader.sources[0]["cameras"]["cam_front"]
    assert (said["captured_size"], said["encoded_size"]) == ([17, 25], [16, 24])
    assert open_writer(tmp_path, cameras=sizes).episodes == 1


def test_progress_counts_the_frames_of_all_cameras(tmp_path: Path) -> None:
    seen: list[int] = []
    open_writer(tmp_path).add_episode(
        episode(),
        identity=EpisodeIdentity(session="s", bag="b", content_hash="h"),
        session_record={"session": "s"},
        progress=seen.append,
    )
    assert seen == list(range(1, 9))


def broken(what: str) -> object:
    """An episode that must be refused, by what is wrong with it."""
    good = episode()
    columns = {k: v.copy() for k, v in good.columns.items()}
    if what == "nan":
        columns["arm_joint"][2, 1] = np.nan
    elif what == "overflow":
        columns["gripper"][1, 0] = 1e39
    elif what == "zero quaternion":
        columns["arm_eef"][3, 3:] = 0.0
    elif what == "half quaternion":
        columns["target_eef"][3, 3:] /= 2
    elif what == "missing source":
        del columns["gripper"]
    elif what == "width":
        columns["arm_joint"] = columns["arm_joint"][:, :5]
    elif what == "ticks":
        return dataclasses.replace(good, tick_ns=good.tick_ns[[0, 2, 1, 3]])
    elif what == "no rows":
        empty = {k: v[:0] for k, v in columns.items()}
        return dataclasses.replace(good, tick_ns=good.tick_ns[:0], columns=empty)
    elif what == "no frames":
        return dataclasses.replace(good, cameras={**good.cameras, "cam_wrist": camera("cam_wrist", [])})
    elif what == "cameras":
        return episode(cameras=("cam_front",))
    elif what == "size":
        frames = [picture(T0), picture(T0 + 40 * MS, (32, 24))]
        return dataclasses.replace(good, cameras={**good.cameras, "cam_wrist": camera("cam_wrist", frames)})
    elif what == "bytes":
        frames = [picture(T0), dataclasses.replace(picture(T0 + 40 * MS), payload=b"1234")]
        return dataclasses.replace(good, cameras={**good.cameras, "cam_wrist": camera("cam_wrist", frames)})
    return dataclasses.replace(good, columns=columns)


REFUSED = {
    "nan": (DatasetError, r"observation\.arm_joint, row 2"),
    "overflow": (DatasetError, r"observation\.gripper, row 1"),
    "zero quaternion": (DatasetError, r"observation\.arm_eef, row 3.*norm 0"),
    "half quaternion": (DatasetError, r"action\.arm_eef, row 3.*norm 0\.5"),
    "missing source": (DatasetError, "'?gripper'?"),
    "width": (DatasetError, r"expected \(4, 6\), got \(4, 5\)"),
    "ticks": (DatasetError, "do not increase"),
    "no rows": (DatasetError, "no rows"),
    "no frames": (DatasetError, "cam_wrist: the camera has no frame"),
    "cameras": (DatasetError, "cam_wrist"),
    "size": (ImageError, "cam_wrist.*expected 16x24.*got 32x24"),
    "bytes": (ImageError, "cam_wrist.*expected 1152 bytes.*got 4 bytes"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_refused_episode_leaves_nothing(tmp_path: Path, what: str) -> None:
    error, words = REFUSED[what]
    fresh = open_writer(tmp_path / "fresh")
    with pytest.raises(error, match=words):
        add(fresh, broken(what))  # type: ignore[arg-type]
    assert not (tmp_path / "fresh").exists()

    root = tmp_path / "set"
    writer = open_writer(root)
    add(writer, episode(), "b0")
    before = tree(root)
    with pytest.raises(error):
        add(writer, broken(what), "b1")  # type: ignore[arg-type]
    assert tree(root) == before
    assert add(writer, episode(), "b2").episode_index == 1


def test_an_error_of_one_camera_stops_the_others(tmp_path: Path) -> None:
    failed = threading.Event()

    def endless(first_ns: int, last_ns: int) -> Iterator[CameraFrame]:
        for k in range(100_000):
            if k == 20:
                failed.wait(10)
            yield picture(T0 + k * MS)

    def failing(first_ns: int, last_ns: int) -> Iterator[CameraFrame]:
        yield picture(T0)
        failed.set()
        raise DatasetError("the bag ends here", where="x.mcap")

    good = episode()
    stamps = T0 + MS * np.arange(100_000)
    cameras = {
        name: EpisodeCamera(
            stream=CameraStream(camera=name, stamp_ns=stamps, receive_ns=stamps, frames=read),
            first_ns=T0,
            last_ns=int(stamps[-1]),
        )
        for name, read in {"cam_front": endless, "cam_wrist": failing}.items()
    }
    with pytest.raises(DatasetError, match=r"episode_000000, camera cam_wrist, x\.mcap: the bag ends here"):
        add(open_writer(tmp_path / "set"), dataclasses.replace(good, cameras=cameras))
    assert not (tmp_path / "set").exists()


def test_an_interrupt_in_progress_leaves_nothing(tmp_path: Path) -> None:
    def cancel(frames: int) -> None:
        if frames == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        open_writer(tmp_path / "set").add_episode(
            episode(),
            identity=EpisodeIdentity(session="s", bag="b", content_hash="h"),
            session_record={"session": "s"},
            progress=cancel,
        )
    assert not (tmp_path / "set").exists()


def test_session_records_must_be_named_and_strict_json(tmp_path: Path) -> None:
    writer = open_writer(tmp_path / "set")
    identity = EpisodeIdentity(session="s", bag="b", content_hash="h")
    with pytest.raises(DatasetError, match="no name"):
        writer.add_episode(episode(), identity=identity, session_record={})
    for value in (float("nan"), object(), "\ud800"):
        with pytest.raises(DatasetError, match=r"collection_sessions\.jsonl"):
            writer.add_episode(episode(), identity=identity, session_record={"session": "s", "x": value})
    assert not (tmp_path / "set").exists()


def test_the_same_bag_twice_is_refused(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    add(writer, episode(), "b0")
    with pytest.raises(DatasetError, match="holds this bag as episode 0"):
        add(writer, episode(), "b0")


OTHER_KIND = {
    "fps": ({"fps": 15.0}, "another fps"),
    "robot": ({"robot_type": "so100"}, "another robot_type"),
    "chunks": ({"profile": dataclasses.replace(profile(), chunks_size=10)}, "another chunks_size"),
    "image size": (
        {"cameras": {**CAMERAS, "cam_wrist": (48, 64)}},
        "another feature observation.images.cam_wrist",
    ),
    "camera less": ({"cameras": {"cam_front": SIZE}}, "another feature observation.images.cam_wrist"),
    "camera more": (
        {"cameras": {**CAMERAS, "cam_back": SIZE}},
        "another feature observation.images.cam_back",
    ),
    "camera order": ({"cameras": dict(reversed(CAMERAS.items()))}, "another order"),
    "columns": (
        {"profile": dataclasses.replace(profile(), columns=profile().columns[1:])},
        "another feature observation.arm_joint",
    ),
}


@pytest.mark.parametrize("kind", OTHER_KIND)
def test_a_dataset_of_another_kind_is_left_as_it_was(tmp_path: Path, kind: str) -> None:
    changes, words = OTHER_KIND[kind]
    add(open_writer(tmp_path), episode())
    before = tree(tmp_path)
    with pytest.raises(DatasetError, match=words):
        open_writer(tmp_path, **changes)
    assert tree(tmp_path) == before


def damage(root: Path, what: str) -> None:
    meta = root / "meta"
    if what == "version":
        text = (meta / "info.json").read_text()
        (meta / "info.json").write_text(text.replace('"v2.0"', '"v2.1"'))
    elif what == "empty info":
        (meta / "info.json").write_bytes(b"")
    elif what == "episode lost":
        (meta / "episodes.jsonl").write_bytes(b"")
    elif what == "half a line":
        (meta / "episodes.jsonl").write_bytes((meta / "episodes.jsonl").read_bytes()[:30])
    elif what == "no tasks":
        (meta / "tasks.jsonl").unlink()
    elif what == "video lost":
        (root / f"videos/chunk-000/{FRONT}/episode_000000.mp4").unlink()
    elif what == "empty parquet":
        (root / "data/chunk-000/episode_000000.parquet").write_bytes(b"")


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("version", r"another codebase_version.*'v2\.0'.*'v2\.1'"),
        ("empty info", r"info\.json: is not valid JSON.*nothing"),
        ("episode lost", "total_episodes does not agree"),
        ("half a line", r"episodes\.jsonl:1"),
        ("no tasks", r"tasks\.jsonl: cannot be read"),
        ("video lost", "missing or empty"),
        ("empty parquet", "missing or empty"),
    ],
)
def test_a_damaged_dataset_is_refused_and_left_as_it_was(tmp_path: Path, what: str, words: str) -> None:
    add(open_writer(tmp_path), episode())
    damage(tmp_path, what)
    before = tree(tmp_path)
    with pytest.raises(DatasetError, match=words):
        open_writer(tmp_path)
    assert tree(tmp_path) == before


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(DatasetError, match=r"not a dataset.*thesis\.txt"):
        open_writer(tmp_path)
    with pytest.raises(DatasetError, match="not a folder"):
        open_writer(tmp_path / "thesis.txt")
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_file_in_the_way_is_not_overwritten(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    add(writer, episode(), "b0")
    stray = tmp_path / "data/chunk-000/episode_000001.parquet"
    stray.write_bytes(b"someone's")
    before = tree(tmp_path)
    with pytest.raises(DatasetError, match="in the way"):
        add(writer, episode(), "b1")
    assert tree(tmp_path) == before


def test_two_writers_do_not_mix(tmp_path: Path) -> None:
    one, other = open_writer(tmp_path), open_writer(tmp_path)
    add(one, episode(), "b0")
    before = tree(tmp_path)
    with pytest.raises(DatasetError, match="changed by someone else"):
        add(other, episode(), "b1")
    assert tree(tmp_path) == before

    def meddle(frames: int) -> None:
        with pytest.raises(DatasetError, match="another process"):
            open_writer(tmp_path)

    one.add_episode(
        episode(),
        identity=EpisodeIdentity(session="s", bag="b", content_hash="h"),
        session_record={"session": "s"},
        progress=meddle,
    )
    assert one.episodes == 2


def test_an_existing_empty_folder_may_be_filled_and_stays(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    with pytest.raises(DatasetError):
        add(writer, broken("no frames"))  # type: ignore[arg-type]
    assert tmp_path.exists()
    assert tree(tmp_path) == {}
    add(writer, episode())


def test_a_foreign_journal_deletes_nothing_outside(tmp_path: Path) -> None:
    add(open_writer(tmp_path / "set"), episode())
    victim = tmp_path / "victim"
    victim.write_text("keep me")
    (tmp_path / "set/.staging").mkdir()
    journal = {"staged": [], "appended": {}, "removed": ["data/../../victim"]}
    (tmp_path / "set/.staging/journal.json").write_text(json.dumps(journal))
    with pytest.raises(DatasetError, match="not the journal"):
        open_writer(tmp_path / "set")
    assert victim.read_text() == "keep me"


LINE_DAMAGE = {
    "no sources": ("episode_sources.jsonl", lambda text: "", "not those of the episodes"),
    "one source less": ("episode_sources.jsonl", lambda text: text.split("\n")[0] + "\n", "not those of the"),
    "no sessions": ("collection_sessions.jsonl", lambda text: "", "the session of episode 0 is not recorded"),
    "modality cut": ("modality.json", lambda text: text[:40], "is not valid JSON"),
    "latest session gone": ("collection_meta.json", lambda text: "", "is not valid JSON"),
    "another task": (
        "tasks.jsonl",
        lambda text: text.replace("pick", "drop"),
        "is another one in tasks.jsonl",
    ),
}


@pytest.mark.parametrize("what", LINE_DAMAGE)
def test_nothing_is_built_on_damaged_metadata(tmp_path: Path, what: str) -> None:
    name, damage, words = LINE_DAMAGE[what]
    writer = open_writer(tmp_path)
    add(writer, episode(), "b0")
    add(writer, episode(), "b1")
    path = tmp_path / "meta" / name
    path.write_text(damage(path.read_text(encoding="utf-8")), encoding="utf-8")
    before = tree(tmp_path)
    with pytest.raises(DatasetError, match=words):
        open_writer(tmp_path)
    assert tree(tmp_path) == before


def test_statistics_of_episodes_that_are_cut_are_refused(tmp_path: Path) -> None:
    train = load_profile("train")
    ticks = [k * 1000 / 30 for k in range(4)]
    add(open_writer(tmp_path, profile=train), episode(ticks_ms=ticks, frames_ms=(0, *ticks[1:])))
    path = tmp_path / "meta/episodes_stats.jsonl"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DatasetError, match="not one whole line an episode"):
        open_writer(tmp_path, profile=train)


def test_rows_of_another_clock_are_refused(tmp_path: Path) -> None:
    add(open_writer(tmp_path), episode())
    grid = dataclasses.replace(profile(), row_clock="grid", on_gap="hold")
    with pytest.raises(DatasetError, match=r"another row_clock .*expected action .*got grid"):
        open_writer(tmp_path, profile=grid)

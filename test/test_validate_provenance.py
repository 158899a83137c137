"""Faults of provenance, modality and the grid profile: each is found by its name, and no other one."""

import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dataset_edits import FRONT, WRIST, edit_column, edit_json, edit_line, edit_lines
from fault_support import check, column, feature, info, line, with_cells
from validation_cases import write_dataset

EEF = "observation.arm_eef"
SAMPLES = "extras/episode_000000.samples.parquet"
CUT_SHORT = {"incomplete_reasons": ["the disk was full"]}


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    folder = tmp_path_factory.mktemp("good")
    return {name: write_dataset(folder / name, name) for name in ("piper", "train")}


def samples(change):
    def spoil(root):
        pq.write_table(change(pq.read_table(root / SAMPLES)), root / SAMPLES)

    return spoil


def later(key, ms):
    def change(table):
        stamps = table[key].to_numpy() + ms * 1_000_000
        return table.set_column(table.column_names.index(key), key, pa.array(stamps))

    return samples(change)


def same_t0(root):
    for number in (0, 1):
        edit_line(root, "episode_sources.jsonl", number, lambda d: d.update(t0_ns=10**18))


def too_old(root):
    edit_column(root, "source_state.cam_wrist", lambda cells: cells[:9].__setitem__(slice(None), 2))
    edit_line(root, "episode_sources.jsonl", 0, lambda d: d["marked_rows"].update(stale={"cam_wrist": 9}))


def no_control(root):
    edit_line(root, "collection_sessions.jsonl", 0, lambda d: d.pop("control"))
    edit_json(root / "meta/collection_meta.json", lambda d: d.pop("control"))


PROVENANCE = {
    "line missing": (lambda r: edit_lines(r, "episode_sources.jsonl", lambda x: x[:1]),
        ["sources"], ["there is no line of episode 1"]),
    "line twice": (lambda r: edit_lines(r, "episode_sources.jsonl", lambda x: [x[0], *x]),
        ["duplicate-line"], ["episode_index 0 was given"]),
    "bag twice": (line("episode_sources.jsonl", lambda d: d.update(content_hash="hash 0"), 1),
        ["duplicate-bag"], ["comes from the bag of episode 0"]),
    "no t0": (line("episode_sources.jsonl", lambda d: d.pop("t0_ns")), ["t0"], ["t0_ns is null"]),
    "wrong t0": (line("episode_sources.jsonl", lambda d: d.update(t0_ns=d["t0_ns"] + 5_000_000)),
        ["samples"], ["give -0.005000 s for row 0"]),
    "same t0": (
        same_t0,
        ["t0", "samples"], ["the same t0_ns as episode 0"]),
    "t0 since boot": (line("episode_sources.jsonl", lambda d: d.update(t0_ns=12345)),
        ["t0", "samples"], ["12345 is not wall-clock time"]),
    "file missing": (lambda r: (r / "meta/episode_sources.jsonl").unlink(),
        ["no-sources"], ["the file is missing"]),
    "unknown session": (line("episode_sources.jsonl", lambda d: d.update(session="other")),
        ["sessions"], ["of session 'other', of which"]),
    "other rows": (line("episode_sources.jsonl", lambda d: d["counts"].update(rows=46)),
        ["sources"], ["45 rows, the export counted 46"]),
    "many dropped": (
        line("episode_sources.jsonl", lambda d: d["counts"].update(slots=60, gaps=5, dropped=10)),
        ["lost-rows"], ["15 of 60 slots have no row (5 gaps, 10 dropped"]),
    "not whole": (
        line("episode_sources.jsonl", lambda d: d.update(recording=CUT_SHORT)),
        ["incomplete"], ["the disk was full"]),
    "session twice": (lambda r: edit_lines(r, "collection_sessions.jsonl", lambda x: [*x, x[0]]),
        ["sessions"], ["session 'pick' is recorded twice"]),
    "latest": (lambda r: edit_json(r / "meta/collection_meta.json", lambda d: d.update(task="x")),
        ["sessions"], ["is not the last record"]),
    "latest missing": (lambda r: (r / "meta/collection_meta.json").unlink(),
        ["sessions"], ["the file is missing"]),
    "gains unknown": (
        no_control,
        ["session-record"], ["does not tell control.backend"]),
    "age": (line("episode_sources.jsonl", lambda d: d["counts"].update(age_ms={"cam_front": {"max": 99.0}})),
        ["age"], ["ms old, the export counted 99.000 ms"]),
    "old sample": (later("arm_joint", -700), ["age"], ["a sample of arm_joint that is 700 ms old"]),
    "other stamps": (later("cam_front", 40), ["frame-stamps"], ["44 rows show another frame"]),
    "short samples": (samples(lambda t: t.slice(0, 9)), ["samples"], ["holds 9 rows of tick_ns"]),
}  # fmt: skip


@pytest.mark.parametrize("name", PROVENANCE)
def test_a_fault_of_provenance(name, good, tmp_path):
    spoil, codes, words = PROVENANCE[name]
    root = shutil.copytree(good["piper"], tmp_path / "ds")
    spoil(root)
    check(root, codes, words)


def test_a_changed_binding_key(good, tmp_path):
    root = shutil.copytree(good["piper"], tmp_path / "ds")

    def second(lines):
        other = lines[0].replace('"pick"', '"place"').replace('"kp": [10.0', '"kp": [12.0')
        (root / "meta/collection_meta.json").write_text(other)
        return [*lines, other]

    edit_lines(root, "collection_sessions.jsonl", second)
    check(root, ["binding-change"], ["control.impedance.kp changes from [10.0", "12.0"])


MODALITY = {
    "past the end": (lambda d: d["state"]["eef_rot"].update(end=8),
        ["modality"], [f"slices 3:8 of {EEF}, which has 7 elements"]),
    "no column": (lambda d: d["action"]["gripper"].update(original_key="action.hand"),
        ["modality"],
        ['slices "action.hand", which info.json does not have', "no entry of action slices action.gripper"]),
    "left out": (lambda d: d["state"].pop("eef_rot"),
        ["modality"], [f"covers elements [3, 4, 5, 6] of {EEF}"]),
    "no camera": (lambda d: d["video"].pop("cam_wrist"), ["modality"], [f"no entry of video shows {WRIST}"]),
    "no video": (lambda d: d["video"]["cam_wrist"].update(original_key="x"), ["modality"], ['shows "x"']),
    "rotation": (lambda d: d["state"]["eef_rot"].update(rotation_type="euler"), ["modality"], ['is "euler"']),
    "no group": (lambda d: d.pop("action"), ["modality"], ["action is null, not an object"]),
    "annotation": (lambda d: d["annotation"]["task_index"].update(original_key="x"),
        ["modality"], ['reads "x"']),
}  # fmt: skip


@pytest.mark.parametrize("name", MODALITY)
def test_a_fault_of_the_modality_map(name, good, tmp_path):
    change, codes, words = MODALITY[name]
    root = shutil.copytree(good["piper"], tmp_path / "ds")
    edit_json(root / "meta/modality.json", change)
    check(root, codes, words)


GRID = {
    "state": (column("source_state.cam_front", lambda c: c.__setitem__(6, 1)),
        ["source-state", "episode-stats", "stats"],
        ["call a sample new that is the one before, or the other way, first row 6"]),
    "marked": (line("episode_sources.jsonl", lambda d: d["marked_rows"].update(repeated={"cam_front": 3})),
        ["source-state"], ["0 rows of source_state.cam_front have state 1, the export counted 3 repeated"]),
    "stale": (too_old, ["stale-rows", "episode-stats", "stats"],
        ["9 of 45 rows show a sample of cam_wrist that is too old"]),
    "state 7": (column("source_state.arm_eef", lambda c: c.__setitem__(3, 7)),
        ["source-state", "episode-stats", "stats"], ["have another state than 0, 1 or 2, first row 3"]),
    "episode mean": (line("episodes_stats.jsonl", lambda d: d["stats"]["action"]["mean"].__setitem__(1, 3.0)),
        ["episode-stats"], ["mean of action[1] is 3"]),
    "episode count": (line("episodes_stats.jsonl", lambda d: d["stats"]["action"].update(count=[9])),
        ["episode-stats"], ["count of action is [9], the rows are [45]"]),
    "episode colours": (line("episodes_stats.jsonl", lambda d: d["stats"][FRONT].update(mean=[[[0.9]]] * 3)),
        ["colour"], ["the mean colour told is [0.9, 0.9, 0.9]"]),
    "flat colours": (line("episodes_stats.jsonl", lambda d: d["stats"][FRONT].update(mean=[0.5] * 3)),
        ["consumer", "stats"], ["not three finite numbers of shape (3, 1, 1)"]),
    "no line": (lambda r: edit_lines(r, "episodes_stats.jsonl", lambda x: x[:1]),
        ["episode-stats"], ["episode 1: there is no line"]),
    "no file": (lambda r: (r / "meta/episodes_stats.jsonl").unlink(),
        ["consumer", "no-stats"], ["turns to the hub"]),
    "video info": (
        info(lambda d: d["features"][FRONT]["info"].update({"video.fps": 15, "video.codec": "av1"})),
        ["video-info"], ["info.json says 15", "is h264, info.json says av1"]),
    "no video info": (feature(FRONT, info={}), ["consumer"], ["has no video.channels and no video.fps"]),
    "annotation": (column("annotation.human.validity", lambda c: c.__setitem__(0, 9)),
        ["episode-stats", "stats", "task-index"], ["annotation.human.validity 9 has no line"]),
    "stray file": (lambda r: (r / "data/notes.txt").write_text("x"),
        ["consumer", "orphan-file"], ["1 files under data/ are not parquet"]),
    "a list": (
        with_cells("action.gripper", lambda c: [[x] for x in c], pa.list_(pa.float32(), 1)),
        ["consumer"], ["stored as lists (action.gripper)"]),
    "held too long": (column("source_timestamp.cam_wrist", lambda c: c.__isub__(0.6)),
        ["age", "episode-stats", "stats"], ["a sample of cam_wrist that is 61"]),
}  # fmt: skip


@pytest.mark.parametrize("name", GRID)
def test_a_fault_in_a_dataset_on_the_grid(name, good, tmp_path):
    spoil, codes, words = GRID[name]
    root = shutil.copytree(good["train"], tmp_path / "ds")
    spoil(root)
    check(root, codes, words)

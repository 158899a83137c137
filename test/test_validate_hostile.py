"""Whatever is wrong with a dataset, the answer is findings or one clear error, never a traceback."""

import copy
import json
import shutil
from datetime import timedelta
from decimal import Decimal
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from validation_cases import write_dataset

from piper_collect.errors import DatasetError
from piper_collect.pipelines.validate import validate_dataset

FILES = (
    "info.json",
    "modality.json",
    "stats.json",
    "episodes.jsonl",
    "tasks.jsonl",
    "episodes_stats.jsonl",
    "episode_sources.jsonl",
    "collection_sessions.jsonl",
    "collection_meta.json",
)
STRANGE = [
        None, True, 0, -1, 1.5, 1e308, float("nan"), float("inf"), 10**30, "", "x", "\ud800",
        "../../etc/passwd", "{episode_index:0999999999d}", "{episode_index.__class__}", "{0}", "{",
        [], {}, [[]], [None], [1e308] * 3, {"a": {"b": []}}, "v2.1", "video", [3, 1, 1], "0:5",
        [[[[1.0]]]], ["a", {"b": 1}], 2**63, -(2**63),
]  # fmt: skip


class Made(dict):
    """By profile, a dataset and the text of its metadata; shown by name, not by content."""

    def __repr__(self):
        return "Made"


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """One short episode a profile."""
    folder = tmp_path_factory.mktemp("small")
    made = Made()
    for name in ("piper", "train"):
        root = write_dataset(folder / name, name, episodes=1, rows=8)
        files = {f: root / "meta" / f for f in FILES if (root / "meta" / f).exists()}
        made[name] = root, {name: path.read_text() for name, path in files.items()}
    return made


def places(value, path=()):
    """The path of every value inside a JSON value."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in items:
        yield from places(child, (*path, key))


def put(value, path, change):
    """A copy of a JSON value with the one at ``path`` replaced, or taken out where ``change`` is None."""
    if not path:
        return change[0] if change else None
    value = copy.deepcopy(value)
    parent = value
    for key in path[:-1]:
        parent = parent[key]
    if change is None:
        del parent[path[-1]]
    else:
        parent[path[-1]] = change[0]
    return value


def survives(root):
    try:
        report = validate_dataset(root, decode=False).report
    except DatasetError as err:
        said = [str(err)]
    else:
        said = ["", *(finding.text for finding in report.findings)]
        json.dumps(report.to_json(), allow_nan=False)
    assert not any("\n" in text for text in said)
    return said[0]


@settings(
    max_examples=150,
    deadline=timedelta(seconds=20),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    profile=st.sampled_from(["piper", "train"]),
    file=st.integers(0, 1000),
    place=st.integers(0, 1_000_000),
    change=st.one_of(st.none(), st.integers(0, len(STRANGE) - 1)),
)
def test_any_value_of_the_metadata_may_be_anything(small, profile, file, place, change):
    root, texts = small[profile]
    name = sorted(texts)[file % len(texts)]
    value = json.loads(texts[name].splitlines()[0] if name.endswith("l") else texts[name])
    found = list(places(value))
    where = found[place % len(found)]
    change = None if change is None else (STRANGE[change],)
    try:
        (root / "meta" / name).write_text(json.dumps(put(value, where, change)) + "\n")
        survives(root)
    finally:
        (root / "meta" / name).write_text(texts[name])


TEXTS = {
    "empty": b"",
    "not UTF-8": b"\xff\xfe{}",
    "cut": b'{"a": [1, 2',
    "deep": b"[" * 100_000,
    "digits": b'{"a": ' + b"9" * 10_000 + b"}",
    "a list": b"[1]",
    "a word": b"null",
    "lines": b"\n\n\n",
    "zeros": b"\x00" * 4096,
}


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("name", FILES)
def test_any_file_may_hold_anything(small, tmp_path, name, text):
    root = shutil.copytree(small["train"][0], tmp_path / "ds")
    (root / "meta" / name).write_bytes(TEXTS[text])
    survives(root)


@pytest.mark.parametrize("name", FILES)
def test_a_folder_in_place_of_a_file(small, tmp_path, name):
    root = shutil.copytree(small["train"][0], tmp_path / "ds")
    (root / "meta" / name).unlink(missing_ok=True)
    (root / "meta" / name).mkdir()
    survives(root)


COLUMNS = {
    "text": pa.array(["x"] * 8),
    "nothing": pa.nulls(8),
    "all null": pa.array([None] * 8, pa.float32()),
    "structs": pa.array([{"a": 1}] * 8),
    "lists of lists": pa.array([[[1.0]]] * 8),
    "ragged": pa.array([[1.0] * k for k in range(8)]),
    "empty lists": pa.array([[]] * 8, pa.list_(pa.float32())),
    "half floats": pa.array([1.0] * 8, pa.float16()),
    "decimals": pa.array([Decimal("1.5")] * 8),
    "large": pa.array([2**62] * 8),
    "unsigned": pa.array([2**63] * 8, pa.uint64()),
    "bools": pa.array([True] * 8),
    "infinite": pa.array([float("inf")] * 8),
    "times": pa.array([0] * 8, pa.timestamp("ns")),
    "dictionary": pa.array(["a"] * 8).dictionary_encode(),
    "long lists": pa.array([[1.0, 2.0]] * 8, pa.large_list(pa.float64())),
    "wide": pa.array([[1.0] * 500] * 8, pa.list_(pa.float32(), 500)),
}
KEYS = ("timestamp", "task_index", "index", "observation.arm_eef", "observation.arm_joint", "action.gripper")


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("key", [*KEYS, "source_timestamp.cam_front", "source_state.arm_eef", "next.done"])
def test_any_column_may_hold_anything(small, tmp_path, key, kind):
    root = shutil.copytree(small["train"][0], tmp_path / "ds")
    path = root / "data/chunk-000/episode_000000.parquet"
    table = pq.read_table(path, partitioning=None)
    pq.write_table(table.set_column(table.column_names.index(key), key, COLUMNS[kind]), path)
    survives(root)


def png():
    target = BytesIO()
    Image.new("RGB", (64, 48)).save(target, format="PNG")
    return target.getvalue()


VIDEOS = {"empty": b"", "text": b"hello\n" * 100, "zeros": b"\x00" * 5000, "a picture": png()}


@pytest.mark.parametrize("kind", [*VIDEOS, "cut", "folder", "link to itself"])
def test_a_video_may_be_anything(small, tmp_path, kind):
    root = shutil.copytree(small["train"][0], tmp_path / "ds")
    path = root / "videos/chunk-000/observation.images.cam_front/episode_000000.mp4"
    whole = path.read_bytes()
    path.unlink()
    if kind == "folder":
        path.mkdir()
    elif kind == "link to itself":
        path.symlink_to(path)
    else:
        path.write_bytes(whole[: len(whole) // 2] if kind == "cut" else VIDEOS[kind])
    report = validate_dataset(root).report
    named = [f for f in report.findings if f.level == "error" and "cam_front" in f.where]
    assert named, report.findings


@pytest.mark.parametrize("key", ["tick_ns", "cam_front", "arm_eef"])
@pytest.mark.parametrize("kind", ["text", "all null", "bools", "large", "ragged"])
def test_stamps_beside_the_rows_may_be_anything(small, tmp_path, key, kind):
    root = shutil.copytree(small["piper"][0], tmp_path / "ds")
    path = root / "extras/episode_000000.samples.parquet"
    table = pq.read_table(path, partitioning=None)
    pq.write_table(table.set_column(table.column_names.index(key), key, COLUMNS[kind]), path)
    survives(root)


def test_no_rows_and_no_episodes(small, tmp_path):
    root = shutil.copytree(small["train"][0], tmp_path / "ds")
    path = root / "data/chunk-000/episode_000000.parquet"
    pq.write_table(pq.read_table(path, partitioning=None).slice(0, 0), path)
    assert survives(root) == ""
    (root / "meta/episodes.jsonl").write_text("")
    assert survives(root) == ""


@pytest.mark.parametrize(
    ("template", "word"),
    [
        ("../{episode_index}.parquet", "leads out of the dataset"),
        ("/etc/{episode_index}.parquet", "leads out of the dataset"),
        ("data/{episode_index:0999999999d}", "strange format"),
        ("data/{episode_index.__class__}", "names something unknown"),
        ("data/{file_index}", "names something unknown"),
        ("data/{", "cannot be parsed"),
        (7, "is no text"),
    ],
)
def test_a_path_template_that_cannot_be_followed_is_one_error(small, tmp_path, template, word):
    root = shutil.copytree(small["train"][0], tmp_path / "ds")
    info = json.loads((root / "meta/info.json").read_text())
    (root / "meta/info.json").write_text(json.dumps({**info, "data_path": template}))
    assert word in survives(root)


def test_a_video_key_that_leads_out_is_not_followed(small, tmp_path):
    root = shutil.copytree(small["train"][0], tmp_path / "ds")
    info = json.loads((root / "meta/info.json").read_text())
    info["features"]["../../outside"] = {"dtype": "video", "shape": [48, 64, 3], "names": None}
    (root / "meta/info.json").write_text(json.dumps(info))
    report = validate_dataset(root, decode=False).report
    assert any("leads out of the dataset" in f.text for f in report.findings)


def test_a_thousand_faults_alike_are_counted_not_listed(tmp_path):
    root = write_dataset(tmp_path / "ds", "piper", episodes=1, rows=8)
    lines = (root / "meta/episodes.jsonl").read_text()
    extra = "".join(json.dumps({"episode_index": i, "length": 0, "tasks": []}) + "\n" for i in range(1, 1001))
    (root / "meta/episodes.jsonl").write_text(lines + extra)
    report = validate_dataset(root, decode=False).report
    assert report.unlisted["length"] == 980
    assert len(report.findings) < 120


def test_an_index_that_would_need_all_memory_is_only_a_number(small, tmp_path):
    root = shutil.copytree(small["train"][0], tmp_path / "ds")
    info = json.loads((root / "meta/info.json").read_text())
    info |= {"total_episodes": 10**15, "total_frames": 10**15, "chunks_size": 10**15}
    (root / "meta/info.json").write_text(json.dumps(info))
    report = validate_dataset(root, decode=False).report
    assert any("total_episodes is 1000000000000000" in f.text for f in report.findings)


def test_it_writes_nothing(small):
    root, _ = small["train"]
    before = {p: p.stat().st_mtime_ns for p in Path(root).rglob("*")}
    validate_dataset(root)
    assert {p: p.stat().st_mtime_ns for p in Path(root).rglob("*")} == before

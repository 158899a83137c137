"""A user's own profile in YAML: what he asked for is what he gets, and what is wrong is said in one line."""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import yaml
from export_cases import bag as make_bag
from export_cases import (
    cells,
    every,
    frame_messages,
    mp4,
    rows,
    session,
    small_bag,
    video_numbers,
    video_times,
)
from sample_bags import MS, START, arm_messages

from piper_collect.cli.main import main
from piper_collect.config.share import share_dir
from piper_collect.pipelines.validate import validate_dataset

pytestmark = pytest.mark.usefixtures("no_sync")

OWN = """\
name: own
dialect: lerobot-v2.0
row_clock: grid
on_gap: refuse
row_samples: none
cells: list
chunks_size: 1
columns:
  - key: action.target
    source: target_eef
    names: [x, y, z, qw, qx, qy, qz]
    rotation: quat_wxyz
    modality:
      - {group: action, name: position, start: 0, end: 3}
  - {key: observation.width, source: gripper, names: [width], unit: m}
  - {key: observation.all, concat: [observation.width, action.target]}
  - {key: next.done, value: done}
annotations:
  - {name: task, original_key: task_index}
video: {timing: row, gop: 5, crf: 18}
"""


def export(capsys, *words) -> tuple[int, list[str]]:
    """Exit code and what was said on stderr."""
    code = main(["export", *map(str, words), "--quiet", "--no-progress"])
    return code, capsys.readouterr().err.splitlines()


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "own.yaml"
    path.write_text(OWN)
    return path


def test_what_was_asked_for(tmp_path, own, capsys):
    bags = [small_bag(tmp_path / f"rec/b{k}", k) for k in range(2)]
    root = tmp_path / "ds"
    assert export(capsys, *bags, "-o", root, "--profile", own) == (0, [])
    table = rows(root, 1, chunk=1)
    kinds = {name: table.schema.field(name).type for name in table.column_names[:4]}
    assert kinds == {
        "action.target": pa.list_(pa.field("element", pa.float32()), 7),
        "observation.width": pa.list_(pa.field("element", pa.float32()), 1),
        "observation.all": pa.list_(pa.field("element", pa.float32()), 8),
        "next.done": pa.bool_(),
    }
    assert table.column_names[4:] == ["timestamp", "frame_index", "episode_index", "index", "task_index"]
    together = np.concatenate([cells(table, "observation.width"), cells(table, "action.target")], axis=1)
    np.testing.assert_array_equal(cells(table, "observation.all"), together)
    assert video_numbers(mp4(root, index=1, chunk=1)) == [3, 4, 5, 6]
    info = json.loads((root / "meta/info.json").read_bytes())
    assert info["features"]["observation.all"]["names"][:2] == ["width.width", "target.x"]
    assert "info" not in info["features"]["observation.images.cam"]
    assert json.loads((root / "meta/modality.json").read_bytes()) == {
        "state": {},
        "action": {
            "position": {
                "start": 0,
                "end": 3,
                "original_key": "action.target",
                "dtype": "float32",
                "absolute": True,
            }
        },
        "video": {"cam": {"original_key": "observation.images.cam"}},
        "annotation": {"task": {"original_key": "task_index"}},
    }
    stats = json.loads((root / "meta/stats.json").read_bytes())
    assert list(stats) == ["action.target", "observation.width", "observation.all", "timestamp"]
    found = {p.relative_to(root).as_posix() for p in root.rglob("*") if p.is_file()}
    assert not [f for f in found if "samples" in f or "episodes_stats" in f]
    assert [str(f) for f in validate_dataset(root).report.findings if f.level == "error"] == []
    before = sorted(found)
    assert export(capsys, *bags, "-o", root, "--profile", own) == (0, [])
    assert before == sorted(p.relative_to(root).as_posix() for p in root.rglob("*") if p.is_file())


def test_a_gap_is_refused_where_it_is_to_be(tmp_path, own, capsys):
    messages = [
        m for m in arm_messages(60) if m[0] != "/arm/joint_states" or not 100 < (m[1] - START) // MS < 200
    ]
    messages += frame_messages("cam", every(100 / 3, 1, 300))
    path = make_bag(tmp_path / "b", messages, session(), end_ms=300)
    code, (line,) = export(capsys, path, "-o", tmp_path / "ds", "--profile", own)
    assert code == 1
    assert "rows lack a fresh value, and gaps are refused" in line
    assert "gripper at 1 rows, first 0.167 s after T0" in line
    assert not (tmp_path / "ds").exists()


def test_another_codec(tmp_path, own, capfd):
    own.write_text(OWN.replace("{timing: row,", "{timing: row, codec: libx265,") + "stock_info: true\n")
    root = tmp_path / "ds"
    path = small_bag(tmp_path / "b")
    assert main(["export", str(path), "-o", str(root), "--profile", str(own), "--quiet"]) == 0
    assert capfd.readouterr() == ("", "")
    info = json.loads((root / "meta/info.json").read_bytes())["features"]["observation.images.cam"]["info"]
    assert info["video.codec"] == "hevc"
    assert video_times(mp4(root, chunk=0)) == [Fraction(k, 30) for k in range(4)]
    assert video_numbers(mp4(root, chunk=0)) == [0, 1, 2, 3]


def test_a_copy_of_each_profile_is_that_profile(tmp_path, capsys):
    path = small_bag(tmp_path / "b")
    for name in ("piper", "train"):
        copy = tmp_path / f"{name}.yaml"
        copy.write_bytes((share_dir() / f"config/profiles/{name}.yaml").read_bytes())
        for profile, root in ((name, tmp_path / f"{name}_a"), (copy, tmp_path / f"{name}_b")):
            assert export(capsys, path, "-o", root, "--profile", profile)[0] == 0
        a, b = (
            {p.relative_to(r): p.read_bytes() for p in r.rglob("*") if p.is_file()}
            for r in (tmp_path / f"{name}_a", tmp_path / f"{name}_b")
        )
        assert a == b


def column(changes=None, **more):
    return {"key": "observation.more", "source": "arm_joint", "names": [f"j{i}" for i in range(6)], **more}


WRONG = {
    "a key": ({"row_clok": "grid"}, "own.yaml.row_clok: unknown setting", "'row_clock'"),
    "a key of a column": ([column(unti="m")], "columns[4].unti: unknown setting", "'unit'"),
    "a key of the video": ({"video": {"timing": "row", "presset": "fast"}}, "video.presset", "'preset'"),
    "a word": ({"on_gap": "hodl"}, "on_gap: not a valid choice", "'hold'"),
    "a dialect": ({"dialect": "lerobot-v21"}, "dialect: not a valid choice", "'lerobot-v2.1'"),
    "a row value": ([{"key": "x", "value": "rewrad"}], "columns[4].value: not a valid choice", "'reward'"),
    "a source": ([column(source="arm_jiont")], "needs a source that is not configured", "'arm_joint'"),
    "a part": ([{"key": "x", "concat": ["action.taget"]}], "put together from a column", "'action.target'"),
    "a part without a source": (
        [{"key": "x", "concat": ["next.done"]}],
        "put together from a column that has no source",
        "Valid: action.target, observation.width.",
    ),
    "an annotation": (
        {"annotations": [{"name": "task", "original_key": "task_idnex"}]},
        "annotation task stands for a column that is not there",
        "'task_index'",
    ),
    "an annotation without a column": (
        {"annotations": [{"name": "human.validity"}]},
        "annotation human.validity stands for a column that is not there (got annotation.human.validity)",
        "Valid: ",
    ),
    "source and value": (
        [column(value="done")],
        "column observation.more needs exactly one of source, concat, parts and value",
        "",
    ),
    "source and concat": (
        [column(concat=["action.target"])],
        "needs exactly one of source, concat, parts and value",
        "",
    ),
    "none of them": ([{"key": "x"}], "column x needs exactly one of source, concat, parts and value", ""),
    "a source without names": ([{"key": "x", "source": "gripper"}], "column x has no elements", ""),
    "names of a value": (
        [{"key": "x", "value": "done", "names": ["d"]}],
        "column x has names, but no source",
        "",
    ),
    "another number of names": (
        [column(names=["a", "b"])],
        "source arm_joint does not fill column observation.more (expected 2 elements (a, b), got 6)",
        "",
    ),
    "a key twice": ([column(key="action.target")], "a column key is given twice", ""),
    "a key of every dataset": (
        [column(key="timestamp")],
        "column timestamp has a name of those that the writer makes itself",
        "",
    ),
    "the key of a video": ([column(key="observation.images.cam")], "column observation.images.cam", ""),
    "a slice": (
        [column(modality=[{"group": "state", "name": "all", "start": 0, "end": 7}])],
        "modality all slices 0:7 of observation.more, which has 6 elements",
        "",
    ),
    "no statistics for v2.1": (
        {"dialect": "lerobot-v2.1"},
        "the dialect lerobot-v2.1 needs episodes_stats: true",
        "",
    ),
    "timing by rows that have true times": (
        {"row_clock": "action"},
        "video.timing row and timestamp not_below need row_clock grid",
        "",
    ),
    "a grid with rows left out": ({"on_gap": "drop_row"}, "row_clock grid needs on_gap hold or refuse", ""),
    "no columns": ({"columns": []}, "no column has a source", ""),
    "columns of values only": (
        {"columns": [{"key": "next.done", "value": "done"}]},
        "no column has a source",
        "",
    ),
    "no action": ({"columns": [column()]}, "the profile has no action column", ""),
    "a number": ({"chunks_size": 0}, "chunks_size must be at least 1 (got 0)", ""),
    "text for a number": ({"chunks_size": "many"}, "chunks_size: wrong type (expected a whole number", ""),
    "a time base": (
        {"video": {"timing": "capture", "time_base_hz": 0}},
        "video: time_base_hz must be from 1 to",
        "",
    ),
    "a quality": ({"video": {"timing": "row", "crf": 99}}, "video: crf must be from 0 to 51 (got 99)", ""),
    "a distance of key frames": ({"video": {"timing": "row", "gop": 0}}, "video: gop must be from 1 to", ""),
    "b-frames": ({"video": {"timing": "row", "b_frames": -1}}, "video: b_frames must be from 0 to", ""),
    "a preset": (
        {"video": {"timing": "row", "preset": "veryfats"}},
        "libx264 has no preset 'veryfats'",
        "'veryfast'",
    ),
    "a pixel format": (
        {"video": {"timing": "row", "pix_fmt": "yuv444p"}},
        "video.pix_fmt: not a valid choice",
        "'yuv420p'",
    ),
    "a codec": (
        {"video": {"timing": "row", "codec": "lbix264"}},
        "video.codec: not a valid choice",
        "'libx264'",
    ),
    "two rotations of a source": (
        [column(source="target_eef", names=list("abcdefg"))],
        "source target_eef is a rotation in one column and none in another",
        "",
    ),
}


@pytest.fixture(scope="module")
def recording(tmp_path_factory) -> Path:
    return small_bag(tmp_path_factory.mktemp("recording") / "b")


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_said_in_one_line(tmp_path, recording, own, capsys, what):
    change, words, near = WRONG[what]
    content = yaml.safe_load(OWN)
    if isinstance(change, list):
        content["columns"] += change
    else:
        content |= change
    own.write_text(yaml.safe_dump(content))
    code, said = export(capsys, recording, "-o", tmp_path / "ds", "--profile", own)
    assert code == 1
    (line,) = said
    assert line.startswith("error: ")
    assert words in line
    assert (f"did you mean {near}?" if near.startswith("'") else near) in line
    assert not (tmp_path / "ds").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--profile", "trian"], "no profile of that name (got trian); did you mean 'train'?"),
        (["--profile", "piper", "--dialect", "lerobot-v2.1"], "lerobot-v2.1 needs episodes_stats: true"),
    ],
)
def test_a_wrong_name_is_said_in_one_line(tmp_path, recording, capsys, words, said):
    code, (line,) = export(capsys, recording, "-o", tmp_path / "ds", *words)
    assert code == 1
    assert said in line


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "a map of settings is needed (got None)"),
        (b"- name\n", "a map of settings is needed"),
        (b"name: [", "not valid YAML"),
        (b"name: a\nname: b\n", "the key 'name' is given twice"),
        (b"\xff\xfe\x00", "is not UTF-8"),
        (b"name: own\ndialect: lerobot-v2.0\n", "columns: a setting is missing"),
    ],
)
def test_a_file_that_is_no_profile_is_said_in_one_line(tmp_path, recording, own, capsys, content, said):
    own.write_bytes(content)
    code, (line,) = export(capsys, recording, "-o", tmp_path / "ds", "--profile", own)
    assert code == 1
    assert "own.yaml" in line
    assert said in line


def missed(capsys, root) -> list[str]:
    """What validate warns of in the list of columns."""
    assert main(["validate", str(root), "--json", "--quick"]) in (0, 3)
    report = json.loads(capsys.readouterr().out)
    assert report["facts"]["episodes"] == 1
    return [f["text"] for f in report["findings"] if f["code"] == "features" and f["level"] == "warning"]


@pytest.mark.parametrize("profile", ["trex", "own", "train without"])
def test_columns_that_a_profile_leaves_out_by_design_are_not_missed(tmp_path, own, capsys, profile):
    less = tmp_path / "less.yaml"
    less.write_text("name: less\nextends: train\nwithout: [action, action.gripper]\ncolumns: []\n")
    made_of = {"own": own, "train without": less}.get(profile, profile)
    bag = small_bag(tmp_path / "episode_000000")
    assert export(capsys, bag, "-o", tmp_path / "ds", "--profile", made_of) == (0, [])
    assert missed(capsys, tmp_path / "ds") == []


@pytest.mark.parametrize(
    ("profile", "key", "by"),
    [
        ("piper", "action.arm_eef", "the format (profile piper)"),
        ("train", "observation.gripper", "the format (profile train)"),
        ("trex", "action.eef10_absolute", "its layout (meta/embodiment.json)"),
    ],
)
def test_columns_that_the_layout_counts_on_are_missed(tmp_path, capsys, profile, key, by):
    bag = small_bag(tmp_path / "episode_000000", rows=8)
    assert export(capsys, bag, "-o", tmp_path / "ds", "--profile", profile) == (0, [])
    assert missed(capsys, tmp_path / "ds") == []
    path = tmp_path / "ds/meta/info.json"
    info = json.loads(path.read_bytes())
    del info["features"][key]
    path.write_text(json.dumps(info))
    assert missed(capsys, tmp_path / "ds") == [f"has no {key}, which {by} asks for"]
    # provenance that names a file, of somebody who would have it read: no profile of the package
    sources = tmp_path / "ds/meta/episode_sources.jsonl"
    sources.write_text(sources.read_text().replace(f'"name": "{profile}"', '"name": "/proc/self/mem"'))
    assert "/proc/self/mem" in sources.read_text()
    assert len(missed(capsys, tmp_path / "ds")) == (profile == "trex")


def test_without_provenance_the_format_is_asked_for_as_far_as_anything_names_it(tmp_path, capsys):
    bag = small_bag(tmp_path / "episode_000000")
    assert export(capsys, bag, "-o", tmp_path / "ds", "--profile", "train") == (0, [])
    (tmp_path / "ds/meta/episode_sources.jsonl").unlink()
    path = tmp_path / "ds/meta/info.json"
    info = json.loads(path.read_bytes())
    del info["features"]["action.gripper"]
    path.write_text(json.dumps(info))
    assert missed(capsys, tmp_path / "ds") == ["has no action.gripper, which the format asks for"]


PROFILE_FAULTS = {
    "unknown key": ("nme: own\nextends: train\n", "profile {path}.nme: unknown setting"),
    "no YAML": ("name: [", "profile {path}:1: not valid YAML"),
    "no UTF-8": (b"\xff\xfe\x00", "profile {path}: is not UTF-8"),
    "no map": ("- x\n", "profile {path}: a map of settings is needed"),
    "extends nobody": (
        "name: own\nextends: trian\n",
        "profile {path}: trian: no such file, and no profile of that name (got trian); did you mean 'train'?",
    ),
    "without what is not there": (
        "name: own\nextends: train\nwithout: [zz]\ncolumns: []\n",
        "profile {path}.without: no such column",
    ),
    "a column of what is not there": (
        "name: own\nextends: train\ncolumns:\n  - {key: action, concat: [nope]}\n",
        "profile {path}: profile own: column action is put together from",
    ),
    "a session file": ("/**:\n  ros__parameters: {}\n", "profile {path}: is a session configuration, not a"),
    "a source that the session lacks": (
        "name: own\nextends: train\ncolumns:\n  - {key: x, source: force, names: [x]}\n",
        "profile own: column x needs a source that is not configured (got force)",
    ),
    "a camera that the session lacks": (
        "name: own\nextends: train\ncolumns:\n  - {key: x, value: sample_time, of: cam_top}\n",
        "profile own: column x tells of a source or camera that the recording does not have (got cam_top)",
    ),
}


@pytest.mark.parametrize("fault", PROFILE_FAULTS)
def test_what_is_wrong_with_a_profile_is_said_of_the_profile(tmp_path, recording, capsys, fault):
    content, said = PROFILE_FAULTS[fault]
    path = tmp_path / "mine.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    code, (line,) = export(capsys, recording, "-o", tmp_path / "ds", "--profile", path)
    assert code == 1
    assert said.format(path=path) in line
    assert "no configuration" not in line
    assert not (tmp_path / "ds").exists()

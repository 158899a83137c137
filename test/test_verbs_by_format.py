"""Each command on datasets of LeRobot v3.0 and HDF5 cases: the same as with v2.1, or a refusal with a way."""

import io
import json
import shutil
from pathlib import Path

import av
import numpy as np
import pytest
from export_cases import run, small_bag, sources
from fake_hub import FakeHub
from replay_cases import KINEMATICS, write_ours
from test_push import hub  # noqa: F401 (a fixture)

from piper_collect.cli.main import main
from piper_collect.config.profile import load_profile, with_dialect
from piper_collect.dataset.clip_files import clip_bytes
from piper_collect.dataset.edit import delete_episodes
from piper_collect.dataset.readers import open_any
from piper_collect.errors import DatasetError
from piper_collect.pipelines.overview.dataset import dataset_overview
from piper_collect.pipelines.prune import look_at, remove
from piper_collect.pipelines.push import make_card, push
from piper_collect.pipelines.reference_view import read_reference
from piper_collect.pipelines.replay_columns import recorded_episode
from piper_collect.pipelines.scenes import dataset_scene

pytest.importorskip("h5py", reason="h5py is not installed (pip install 'piper_collect[hdf5]')")
pytestmark = [
    pytest.mark.usefixtures("no_sync"),
    # huggingface_hub 2.4 sends files as its HTTP library would rather not have them
    pytest.mark.filterwarnings("ignore:Use 'content=<...>' to upload raw bytes:DeprecationWarning"),
]
FORMATS = ("lerobot-v3.0", "hdf5-cases")
SESSION = "pick_20260101_120000"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session of three recordings, and its dataset in each format."""
    folder = tmp_path_factory.mktemp("verbs")
    bags = [small_bag(folder / SESSION / f"episode_{n:06d}", n, rows=6 + n) for n in range(3)]
    for dialect in ("lerobot-v2.1", *FORMATS):
        run(bags, folder / dialect, with_dialect(load_profile("train"), dialect))
    return folder


@pytest.fixture(params=FORMATS)
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def root(made: Path, tmp_path: Path, dialect: str) -> Path:
    return shutil.copytree(made / dialect, tmp_path / "ds")


@pytest.fixture
def plain(made: Path, tmp_path: Path) -> Path:
    """The same as v2.1."""
    return shutil.copytree(made / "lerobot-v2.1", tmp_path / "plain")


def test_finalize_gives_the_same_statistics_and_a_change_takes_them_away(root: Path, plain: Path) -> None:
    names = ("relative_stats.json", "delta_stats.json")
    for dataset in (root, plain):
        assert main(["finalize", str(dataset), "--rot6d", "--quiet"]) == 0
    for name in names:
        assert (root / "meta" / name).read_bytes() == (plain / "meta" / name).read_bytes()
    assert dataset_overview(root).facts["finalized"] == list(names)
    notes = delete_episodes(root, [1]).notes
    assert any("relative_stats.json and delta_stats.json were of the dataset as it was" in n for n in notes)
    assert not any((root / "meta" / name).exists() for name in names)


def test_finalized_statistics_do_not_outlive_an_export(made: Path, tmp_path: Path, dialect: str) -> None:
    made_of, bags = with_dialect(load_profile("train"), dialect), sorted((made / SESSION).iterdir())
    run(bags[:1], tmp_path / "ds", made_of)
    assert main(["finalize", str(tmp_path / "ds"), "--quiet"]) == 0
    run(bags, tmp_path / "ds", made_of)
    assert not (tmp_path / "ds/meta/relative_stats.json").exists()


def test_prune_removes_what_is_sound_and_keeps_what_is_not(made: Path, root: Path, tmp_path: Path) -> None:
    session = shutil.copytree(made / SESSION, tmp_path / SESSION)
    items = look_at([session], [root]).items
    assert [(item.episodes, item.kept) for item in items] == [((0,), ""), ((1,), ""), ((2,), "")]
    reader = open_any(root)
    damage(reader.clip(1, "observation.images.cam").source, reader.data_path(1), 1)
    items = look_at([session], [root]).items
    assert items[1].kept
    assert items[0].kept == ""
    gone = [item.bag.name for item in remove(look_at([session], [root])) if not item.kept]
    assert "episode_000000" in gone
    assert sorted(p.name for p in session.iterdir())[:1] == ["episode_000001"]


def damage(source: Path | io.BytesIO, rows: Path, index: int) -> None:
    """Break the video of an episode: a part of a file of its own, or of a longer one."""
    content = bytearray(rows.read_bytes() if not isinstance(source, Path) else source.read_bytes())
    path = source if isinstance(source, Path) else rows
    if isinstance(source, Path):
        with av.open(str(path)) as container:
            packets = [p for p in container.demux(video=0) if p.size]
        at = packets[7].pos  # the first episode has six frames
    else:
        at = content.find(source.getvalue()[:64]) + len(source.getvalue()) // 2
    content[at : at + 40] = bytes(40)
    path.write_bytes(content)


def test_view_shows_the_same_at_the_same_times(root: Path, plain: Path) -> None:
    for index in range(3):
        (scene, urdf), (same, robot) = dataset_scene(root, index), dataset_scene(plain, index)
        assert (scene.task, scene.clock, urdf) == (same.task, "capture_time", robot)
        assert scene.notes == same.notes == ()
        for ours, theirs in (
            (scene.poses, same.poses),
            (scene.widths, same.widths),
            (scene.videos, same.videos),
        ):
            assert set(ours) == set(theirs) != set()
            for name, shown in ours.items():
                np.testing.assert_array_equal(shown.time_ns, theirs[name].time_ns)
        for name, video in scene.videos.items():
            np.testing.assert_array_equal(video.pts_ns, same.videos[name].pts_ns)
            assert pictures(video.read()) == pictures(same.videos[name].read())
    with pytest.raises(DatasetError, match="no such episode"):
        dataset_scene(root, 7)


def pictures(content: bytes) -> list[bytes]:
    with av.open(io.BytesIO(content)) as container:
        return [frame.to_ndarray(format="rgb24").tobytes() for frame in container.decode(video=0)]


def test_replay_has_the_same_targets_and_observations(
    tmp_path: Path, dialect: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_ours(tmp_path / "plain", "train")
    assert (
        main(["convert", str(tmp_path / "plain"), "--to", dialect, "-o", str(tmp_path / "ds"), "--quiet"])
        == 0
    )
    episodes = [recorded_episode(open_any(tmp_path / name), 0, KINEMATICS) for name in ("plain", "ds")]
    one, other = episodes
    np.testing.assert_array_equal(one.targets.time_s, other.targets.time_s)
    np.testing.assert_array_equal(one.targets.pose7, other.targets.pose7)
    np.testing.assert_array_equal(one.observed.joints, other.observed.joints)
    assert one.sources == other.sources
    assert main(["replay", str(tmp_path / "ds"), "--episode", "0", "--dry-run"]) == 0
    assert "every target is inside the workspace box" in " ".join(capsys.readouterr().out.split())


def test_cameras_are_aligned_to_the_same_first_pictures(root: Path, plain: Path) -> None:
    one, other = (read_reference(dataset, ["cam"]) for dataset in (root, plain))
    assert one.notes == other.notes == ()
    np.testing.assert_array_equal(one.pictures["cam"], other.pictures["cam"])


def test_the_card_of_each_format(root: Path, dialect: str) -> None:
    card = make_card(root, "pick")
    text = card.files["README.md"].decode()
    assert card.errors == ()
    assert [name for name in card.files if name.startswith("thumbnails/")]
    format_name = "LeRobot v3.0" if dialect == "lerobot-v3.0" else "hdf5-cases"
    assert f"| format | {format_name}, profile train |" in text
    assert ("data/*/*.parquet" in text) == ("LeRobot" in format_name)


def test_push_sends_every_file_and_tags_what_lerobot_loads(root: Path, hub: FakeHub, dialect: str) -> None:  # noqa: F811
    push(root, "me/pick")
    there = hub.repos["me/pick"]
    ours = {p.relative_to(root).as_posix(): p for p in root.rglob("*") if p.is_file() and p.suffix != ".bin"}
    assert {name: there[name] for name in ours} == {name: p.read_bytes() for name, p in ours.items()}
    assert not any(name.endswith(".bin") for name in there)
    assert set(hub.tags["me/pick"]) == ({"v3.0"} if dialect == "lerobot-v3.0" else set())
    delete_episodes(root, [0, 1])
    pushed = push(root, "me/pick")
    gone = set(ours) - {p.relative_to(root).as_posix() for p in root.rglob("*")}
    assert gone <= set(pushed.deleted)


@pytest.mark.parametrize("words", ["merge ROOT PLAIN -o OUT", "merge PLAIN ROOT -o OUT"])
def test_merge_refuses_other_formats_in_one_line(
    words: str, root: Path, plain: Path, dialect: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = {"ROOT": str(root), "PLAIN": str(plain), "OUT": str(tmp_path / "out")}
    assert main([places.get(word, word) for word in words.split()]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    if dialect == "lerobot-v3.0":
        assert "codebase_version of info.json differs" in said
    else:
        assert "piper-collect convert each --to lerobot-v2.1, merge those, and convert back" in said
    assert not (tmp_path / "out").exists()


def test_cases_are_merged_by_way_of_v21(made: Path, tmp_path: Path) -> None:
    cases, bags = with_dialect(load_profile("train"), "hdf5-cases"), sorted((made / SESSION).iterdir())
    for name, part in (("a", bags[:2]), ("b", bags[2:])):
        run(part, tmp_path / name, cases)
        words = ["--to", "lerobot-v2.1", "-o", str(tmp_path / f"{name}_v21"), "--quiet"]
        assert main(["convert", str(tmp_path / name), *words]) == 0
    both, plain = tmp_path / "both_v21", tmp_path / "both"
    assert main(["merge", str(tmp_path / "a_v21"), str(tmp_path / "b_v21"), "-o", str(both), "--quiet"]) == 0
    assert main(["convert", str(both), "--to", "hdf5-cases", "-o", str(plain), "--quiet"]) == 0
    assert main(["validate", str(plain), "--quiet"]) == 0
    one, other = open_any(plain), open_any(made / "hdf5-cases")
    assert len(one.lines) == len(bags)
    assert all(one.rows(k).equals(other.rows(k)) for k in one.lines)


def test_merged_v3_can_be_exported_into(made: Path, tmp_path: Path) -> None:
    made_of, bags = with_dialect(load_profile("train"), "lerobot-v3.0"), sorted((made / SESSION).iterdir())
    for name, part in (("a", bags[1:]), ("b", bags[:1])):
        run(part, tmp_path / name, made_of)
    assert (
        main(["merge", str(tmp_path / "a"), str(tmp_path / "b"), "-o", str(tmp_path / "both"), "--quiet"])
        == 0
    )
    assert [b.status for b in run(bags, tmp_path / "both", made_of).bags] == ["held"] * 3
    more = small_bag(tmp_path / "more/episode_000000", 7)
    run(more, tmp_path / "both", made_of)
    assert len(open_any(tmp_path / "both").lines) == 4
    assert main(["validate", str(tmp_path / "both"), "--quiet"]) == 0


def test_v3_of_another_tool_is_merged_and_edited(made: Path, tmp_path: Path) -> None:
    roots = [shutil.copytree(made / "lerobot-v3.0", tmp_path / name) for name in "ab"]
    for root in roots:
        (root / "meta/episode_sources.jsonl").unlink()
    out = tmp_path / "out"
    assert main(["merge", *map(str, roots), "-o", str(out), "--quiet"]) == 0
    assert [line.length for line in open_any(out).lines.values()] == [7, 7, 8] * 2
    assert delete_episodes(out, [0, 4]).episodes == 4
    reader, before = open_any(out), open_any(roots[0])
    assert not (out / "meta/episode_sources.jsonl").exists()
    assert [line.length for line in reader.lines.values()] == [7, 8, 7, 8]
    key = "observation.images.cam"
    assert pictures(clip_bytes(reader.clip(3, key))) == pictures(clip_bytes(before.clip(2, key)))
    assert reader.rows(3)["action"].equals(before.rows(2)["action"])


def test_info_and_validate_say_what_it_is(
    root: Path, dialect: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["info", str(root), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["version"], told["episodes"], told["problems"]) == (
        {"lerobot-v3.0": "v3.0"}.get(dialect, dialect),
        3,
        [],
    )
    assert ["finalize" in step["command"] for step in told["next_steps"]].count(True) == 1
    assert main(["validate", str(root), "--quiet"]) == 0
    assert len(sources(root)) == 3

"""Beside the columns of the T-Rex layout: an embodiment, statistics of chunks, word that it is ready."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from dataset_cases import SIZE, add, camera, episode, open_writer, tree
from export_cases import bag as recorded
from export_cases import cells, every, frame_messages, rows, run, session
from sample_bags import JOINTS, MS, START, arm_messages, joint_state
from scipy.spatial.transform import Rotation

from piper_collect.cli.main import main
from piper_collect.config.embodiment import ChunkStats
from piper_collect.config.fitted import fitted_profile
from piper_collect.config.profile import Profile, load_profile
from piper_collect.config.schema import SourceSettings
from piper_collect.core.chunks import chunk_rows, delta_base, grid_rows
from piper_collect.core.types import Episode
from piper_collect.dataset.embodiment import known_embodiment
from piper_collect.dataset.readers import open_any
from piper_collect.errors import ConfigError, DatasetError

pytestmark = pytest.mark.usefixtures("no_sync")
VIEWS = ("head_left", "left_wrist", "right_wrist")
STATS, READY = "relative_stats_dreamzero.json", "dataset_ready.json"
FRAMES = 7
GRID = [k * 100 / 3 for k in range(FRAMES)]
STATE, ACTION = "observation.state_eef10", "action.eef10_absolute"


def trex() -> Profile:
    """The profile as a session without joint commands has it."""
    return fitted_profile(load_profile("trex"), episode().columns)


def moved(number: int) -> Episode:
    """An episode in which the arm turns, ten seconds after the one before."""
    one = later(episode(ticks_ms=GRID, frames_ms=GRID, start=0.1 * number, cameras=VIEWS), 10**10 * number)
    columns = dict(one.columns)
    for key, by in (("arm_eef", 0.0), ("target_eef", 0.3)):
        turns = Rotation.from_euler("zyx", [[0.2 * k + by, 0.1 * k, number] for k in range(FRAMES)])
        quats = turns.as_quat(canonical=True)
        columns[key] = np.hstack([columns[key][:, :3], quats[:, 3:], quats[:, :3]])
    return replace(one, columns=columns)


def later(one: Episode, by_ns: int) -> Episode:
    """The same, recorded later."""
    cameras = {}
    for name, known in one.cameras.items():
        frames = [replace(f, stamp_ns=f.stamp_ns + by_ns) for f in known.stream.frames(0, 2**62)]
        span = {"first_ns": known.first_ns + by_ns, "last_ns": known.last_ns + by_ns}
        cameras[name] = replace(camera(name, frames), **span)
    return replace(
        one,
        t0_ns=one.t0_ns + by_ns,
        tick_ns=one.tick_ns + by_ns,
        samples={k: replace(s, stamp_ns=s.stamp_ns + by_ns) for k, s in one.samples.items()},
        cameras=cameras,
    )


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    return made(tmp_path / "ds", VIEWS)


def made(root: Path, cameras: tuple[str, ...], numbers: tuple[int, ...] = (0, 1)) -> Path:
    writer = open_writer(root, profile=trex(), cameras=dict.fromkeys(cameras, SIZE))
    for number in numbers:
        one = moved(number)
        kept = {c: one.cameras[c] for c in cameras}
        add(writer, replace(one, cameras=kept), bag=f"b{number}", session=f"s{number}")
    return root


def said(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().out.split())


def meta(root: Path, name: str):
    return json.loads((root / "meta" / name).read_text())


def test_ticks_take_the_nearest_row_and_a_chunk_ends_with_the_last_action() -> None:
    thirty = np.arange(7, dtype=np.float32).astype(np.float64) / np.float32(30)
    assert grid_rows(thirty, 20.0).tolist() == [0, 1, 3, 4, 6]  # ticks at rows 0, 1.5, 3, 4.5, 6
    assert grid_rows(np.array([5.0, 5.01, 5.09, 5.2]), 20.0).tolist() == [0, 1, 2, 3, 3]
    assert grid_rows(np.array([3.0]), 20.0).tolist() == [0]
    states, actions = chunk_rows(np.array([0, 2, 5]), 3)
    assert states.tolist() == [0, 0, 0, 2, 2, 2, 5, 5, 5]
    assert actions.tolist() == [0, 2, 5, 2, 5, 5, 5, 5, 5]


def test_poses_are_seen_from_the_state_and_all_else_stays() -> None:
    rng = np.random.default_rng(5)
    turns, others = (Rotation.random(4, rng=rng) for _ in range(2))

    def column(turn: Rotation) -> np.ndarray:
        matrices = turn.as_matrix()
        return np.hstack(
            [rng.normal(size=(4, 2)), rng.normal(size=(4, 3)), matrices[..., 0], matrices[..., 1]]
        )

    state, action = column(turns), column(others)
    seen = delta_base(state, action, (2,))
    np.testing.assert_array_equal(seen[:, :2], action[:, :2])
    np.testing.assert_allclose(seen[:, 2:5], turns.inv().apply(action[:, 2:5] - state[:, 2:5]), atol=1e-12)
    expected = (turns.inv() * others).as_matrix()
    np.testing.assert_allclose(seen[:, 5:], np.hstack([expected[..., 0], expected[..., 1]]), atol=1e-12)
    same = delta_base(state, state, (2,))
    np.testing.assert_allclose(same[:, 2:], [[0, 0, 0, 1, 0, 0, 0, 1, 0]] * 4, atol=1e-12)
    with pytest.raises(ValueError, match="no rotation"):
        delta_base(state * 2, action, (2,))


def test_embodiment_and_statistics_of_chunks(dataset: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = meta(dataset, "embodiment.json")
    assert (told["embodiment_tag"], told["robot_type"]) == ("piper_eef10", "piper")
    assert (told["state"], told["video"]) == (["arm_pos", "arm_rot6d", "gripper"], list(VIEWS))
    before = tree(dataset)
    assert main(["finalize", str(dataset)]) == 0
    text = said(capsys)
    assert "10 chunks of 24 steps, 2 episodes" in text
    assert "windows" not in text
    assert "over chunks only: action.eef10_absolute: there is no numeric column" in text
    assert "left out: action.eef10_absolute" not in text
    assert set(tree(dataset)) - set(before) == {f"meta/{STATS}"}
    chunks = np.concatenate([every_chunk(dataset, index) for index in range(2)])
    (entry,) = meta(dataset, STATS).values()
    assert list(meta(dataset, STATS)) == ["eef10"]
    expected = {
        "mean": chunks.mean(axis=0),
        "std": chunks.std(axis=0),
        "min": chunks.min(axis=0),
        "max": chunks.max(axis=0),
        "q01": np.quantile(chunks, 0.01, axis=0),
        "q99": np.quantile(chunks, 0.99, axis=0),
    }
    for name, values in expected.items():
        np.testing.assert_allclose(entry[name], values, atol=1e-9, err_msg=name)
    assert np.ptp(chunks[:, 0]) > 0.1  # the cases move


def every_chunk(root: Path, index: int) -> np.ndarray:
    """All steps of all chunks of an episode, one by one, by homogeneous matrices."""
    table = rows(root, index)
    state, action = cells(table, STATE), cells(table, ACTION)
    ticks = [0, 1, 3, 4, 6]
    found = []
    for k, row in enumerate(ticks):
        for step in range(24):
            later = ticks[min(k + step, len(ticks) - 1)]
            relative = np.linalg.inv(homogeneous(state[row])) @ homogeneous(action[later])
            found.append([*relative[:3, 3], *relative[:3, 0], *relative[:3, 1], action[later][9]])
    return np.array(found)


def homogeneous(cell: np.ndarray) -> np.ndarray:
    matrix = np.eye(4)
    matrix[:3, 3], matrix[:3, 0], matrix[:3, 1] = cell[:3], cell[3:6], cell[6:9]
    matrix[:3, 2] = np.cross(cell[3:6], cell[6:9])
    return matrix


def test_ready_is_said_of_what_has_all_and_of_no_other_state(
    dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["validate", str(dataset), "--ready"]) == 3
    assert f"not ready: meta/{STATS} is missing: run finalize" in said(capsys)
    assert not (dataset / "meta" / READY).exists()
    assert main(["finalize", str(dataset), "--quiet"]) == 0
    assert main(["validate", str(dataset), "--ready"]) == 0, said(capsys)
    assert f"ready: wrote {dataset}/meta/{READY}" in said(capsys)
    word = meta(dataset, READY)
    assert (word["ready"], word["episodes"], word["rows"]) == (True, 2, 2 * FRAMES)
    assert word["columns"] == {STATE: 10, ACTION: 10}
    # the same again says the same, also after statistics that this layout does not know
    first = (dataset / "meta" / READY).read_bytes()
    assert main(["finalize", str(dataset), "--quiet"]) == 0
    assert main(["validate", str(dataset), "--quiet"]) == 0
    assert main(["validate", str(dataset), "--ready", "--quiet"]) == 0
    assert (dataset / "meta" / READY).read_bytes() == first
    capsys.readouterr()
    # another tool changes something: the word is void, and validate says so
    stats = dataset / "meta/stats.json"
    stats.write_bytes(stats.read_bytes() + b"\n")
    assert main(["validate", str(dataset)]) == 3
    assert "the dataset changed since it was found ready" in said(capsys)
    stats.write_bytes(stats.read_bytes()[:-1])
    # and our own tools take it away with the statistics
    assert main(["edit", str(dataset), "--delete", "1"]) == 0
    assert f"{STATS} and {READY} were of the dataset as it was" in said(capsys)
    assert not {STATS, READY} & {p.name for p in (dataset / "meta").iterdir()}


@pytest.mark.parametrize("view", VIEWS)
def test_without_one_of_the_views_it_is_not_ready(
    tmp_path: Path, view: str, capsys: pytest.CaptureFixture[str]
) -> None:
    root = made(tmp_path / "ds", tuple(v for v in VIEWS if v != view), (0,))
    assert main(["finalize", str(root), "--quiet"]) == 0
    (root / "meta" / READY).write_text("{}\n")  # somebody's word
    assert main(["validate", str(root), "--ready"]) == 3
    assert f"not ready: the view observation.images.{view} is missing" in said(capsys)
    assert not (root / "meta" / READY).exists()


def test_of_what_ready_is_not_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = open_writer(tmp_path / "plain")
    add(one, episode())
    assert main(["validate", str(tmp_path / "plain"), "--ready"]) == 1
    assert "nothing says what makes it ready" in capsys.readouterr().err
    root = made(tmp_path / "ds", VIEWS, (0,))
    assert main(["convert", str(root), "--to", "lerobot-v3.0", "-o", str(tmp_path / "v3"), "--quiet"]) == 0
    assert main(["validate", str(tmp_path / "v3"), "--ready"]) == 1
    assert "piper-collect convert --to lerobot-v2.1" in capsys.readouterr().err
    assert main(["validate", str(root), "--ready", "--quick"]) == 2
    assert "--ready looks at every frame" in capsys.readouterr().err


def test_a_conversion_keeps_the_embodiment_and_says_what_it_does_not(
    dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["finalize", str(dataset), "--quiet"]) == 0
    assert main(["validate", str(dataset), "--ready", "--quiet"]) == 0
    assert main(["convert", str(dataset), "--to", "lerobot-v3.0", "-o", str(tmp_path / "v3")]) == 0
    text = said(capsys)
    assert f"meta/{STATS}: run finalize on the new dataset" in text
    assert f"meta/{READY}: of the dataset as it was" in text
    assert (tmp_path / "v3/meta/embodiment.json").read_bytes() == (
        dataset / "meta/embodiment.json"
    ).read_bytes()


def test_merged_datasets_have_one_embodiment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = made(tmp_path / "a", VIEWS, (0,)), made(tmp_path / "b", VIEWS, (1,))
    assert main(["finalize", str(a), "--quiet"]) == 0
    assert main(["merge", str(a), str(b), "-o", str(tmp_path / "both")]) == 0
    assert f"{STATS} of {a} are not taken along: run finalize" in said(capsys)
    assert meta(tmp_path / "both", "embodiment.json") == meta(a, "embodiment.json")
    path = b / "meta/embodiment.json"
    path.write_text(path.read_text().replace("piper_eef10", "another"))
    assert main(["merge", str(a), str(b), "-o", str(tmp_path / "no")]) == 1
    assert "meta/embodiment.json differs" in capsys.readouterr().err


def test_joint_commands_are_in_it_where_the_session_has_them(tmp_path: Path) -> None:
    config = session(("cam",))
    sources = {
        "target_joint": SourceSettings(
            topic="arm/joint_command", field="position", select=tuple(JOINTS), unit="rad"
        ),
        "target_joint_gripper": SourceSettings(
            topic="arm/joint_command", field="position", select=("gripper",), unit="m"
        ),
    }
    with_commands = replace(config, sources={**config.sources, **sources})
    at = [START + 5 * k * MS for k in range(40)]
    commands = [("/arm/joint_command", t, joint_state(t, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.05])) for t in at]
    messages = [*arm_messages(40), *commands, *frame_messages("cam", every(100 / 3, 1, 195))]
    for name, chosen in (("with", with_commands), ("without", config)):
        path = recorded(tmp_path / name / "episode_000000", messages, chosen, end_ms=195)
        summary = run(path, tmp_path / f"{name}_ds", load_profile("trex"))
        assert [b.status for b in summary.bags] == ["exported"], summary.bags
    features = open_any(tmp_path / "with_ds").info["features"]
    assert features["action"]["names"] == [*JOINTS, "gripper_width"]
    np.testing.assert_allclose(
        cells(rows(tmp_path / "with_ds"), "action")[0], [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.05], rtol=1e-6
    )
    assert "action" not in open_any(tmp_path / "without_ds").info["features"]
    assert main(["validate", str(tmp_path / "with/episode_000000"), "--profile", "trex", "--quiet"]) == 0
    assert main(["validate", str(tmp_path / "without/episode_000000"), "--profile", "trex", "--quiet"]) == 0


def test_an_embodiment_of_another_tool_is_left_alone_and_a_wrong_one_refused(tmp_path: Path) -> None:
    root = made(tmp_path / "ds", VIEWS, (0,))
    path = root / "meta/embodiment.json"
    path.write_text('{"robot_type": "x", "embodiment_tag": "x"}\n')
    assert known_embodiment(root).files == ()
    path.write_text('{"ready": {"file": "info.json"}}\n')
    with pytest.raises(DatasetError, match=r"info\.json is a file that datasets have anyway"):
        known_embodiment(root)
    path.write_text('{"ready": {"file": "../info.json"}}\n')
    with pytest.raises(DatasetError, match="is no name of a JSON file"):
        known_embodiment(root)


def test_a_profile_whose_chunks_do_not_fit_its_columns_is_refused() -> None:
    known = trex()
    assert known.embodiment.chunks is not None
    for change, text in (
        ({"state": "observation.state"}, "not laid out alike"),
        ({"state": "observation.none"}, "which is not there"),
    ):
        chunks = replace(known.embodiment.chunks, **change)
        with pytest.raises(ValueError, match=text):
            replace(known, embodiment=replace(known.embodiment, chunks=chunks))
    with pytest.raises(ValueError, match="rate_hz must be above 0"):
        ChunkStats(file="a.json", key="k", state="s", action="a", rate_hz=0.0)
    without = replace(known, columns=tuple(replace(c, optional=c.key == "target_eef") for c in known.columns))
    with pytest.raises(ConfigError, match="without a source for target_eef it does not hold together"):
        fitted_profile(without, {"arm_joint", "arm_eef", "gripper", "target_gripper"})

"""Depth images: whole millimetres from the bag to PNG of 16 bits in rows, and what cannot hold them."""

import io
import json
import pickle
import re
import shutil
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dataset_cases import tree
from export_cases import bag, every, frame_messages, run, session, small_bag, sources
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image as PilImage
from sample_bags import (
    COMPRESSED,
    IMAGE,
    MS,
    START,
    arm_messages,
    header,
    jpeg_image,
    make,
    picture,
    raw_image,
    store,
)

from piper_collect.bag.definitions import Definitions
from piper_collect.bag.source_check import SourceCheck
from piper_collect.cli.main import main
from piper_collect.config.names import recorded_topics
from piper_collect.config.profile import Profile, load_profile, with_dialect
from piper_collect.config.schema import CameraSettings, SessionConfig
from piper_collect.core.image_stats import ImageHistogram
from piper_collect.core.types import CameraFrame
from piper_collect.dataset.edit import delete_episodes
from piper_collect.dataset.parquet import column_values, read_table
from piper_collect.dataset.readers import open_any
from piper_collect.dataset.v3 import fold
from piper_collect.dataset.v3.reader import open_v3
from piper_collect.errors import ConfigError, ImageError
from piper_collect.imaging.depth import depth_of_png, png_bytes, to_millimetres
from piper_collect.pipelines.bag_episodes import ExportOptions
from piper_collect.pipelines.export_run import ExportRun
from piper_collect.pipelines.prepare import prepare
from piper_collect.pipelines.validate_bag import validate_bag
from piper_collect.pipelines.validators import validator_of

pytestmark = pytest.mark.usefixtures("no_sync")

KEY, NAME = "observation.depth.cam", "depth.cam"
TOPIC = "/cam/depth/image_raw"
SIZE = (12, 20)
UNTIL_MS = 220  # 7 rows


def v3() -> Profile:
    return load_profile("train_depth")


def config(**settings: object) -> SessionConfig:
    return session(depth_topic="cam/depth/image_raw", **settings)


def distances(number: int, size: tuple[int, int] = SIZE) -> np.ndarray:
    """The depth image of this number, in mm: all 16 bits are used, and somewhere nothing was measured."""
    y, x = np.mgrid[0 : size[0], 0 : size[1]]
    depth = (400 + 211 * number + 37 * x + 5000 * y).astype(np.uint16)
    depth[0, :3] = 0
    return depth


def depth_image(stamp_ns: int, mm: np.ndarray, *, metres: bool = False, big: bool = False, padding: int = 0):
    kind = (">" if big else "<") + ("f4" if metres else "u2")
    values = (mm / 1000.0 if metres else mm).astype(kind)
    rows = np.frombuffer(values.tobytes(), np.uint8).reshape(len(mm), -1)
    rows = np.pad(rows, ((0, 0), (0, padding)), constant_values=7)
    encoding = "32FC1" if metres else "16UC1"
    return make(
        IMAGE, header(stamp_ns, "optical"), *mm.shape, encoding, int(big), rows.shape[1], rows.ravel()
    )


def depth_messages(stamps_ms: list[float], start: int = START, size: tuple[int, int] = SIZE, **how: object):
    for k, t in enumerate(stamps_ms):
        stamp = start + round(t * MS)
        yield TOPIC, stamp + 12 * MS, depth_image(stamp, distances(k, size), **how)


def depth_bag(path: Path, number: int = 0, *, period_ms: float = 50, size=SIZE, **how: object) -> Path:
    """Rows from T0 on, where the first depth image was captured at 8 ms, so that T0 is 10 ms."""
    start = START + number * 10**10
    messages = [*arm_messages(UNTIL_MS // 5 + 1, start=start)]
    messages += frame_messages("cam", every(100 / 3, 0, UNTIL_MS), start=start, first=3 * number)
    messages += depth_messages(every(period_ms, 8, UNTIL_MS), start, size, **how)
    return bag(path, messages, config(), end_ms=UNTIL_MS, start=start)


@pytest.fixture(scope="module")
def bags(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("bags")
    return [depth_bag(folder / f"b{k}", k, metres=k == 1) for k in range(3)]


@pytest.fixture(scope="module")
def root(bags: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("ds") / "ds"
    assert run(bags, root, v3()).exit_code == 0
    return root


def errors(root: Path) -> list[str]:
    return [str(f) for f in validator_of(root)(root).report.findings if f.level == "error"]


def shown() -> list[int]:
    """The number of the newest depth image at or before each row."""
    rows_ms = 10 + 100 * np.arange(7) / 3
    return [int((t - 8) // 50) for t in rows_ms]


# -- whole millimetres --------------------------------------------------------------------------


def frame(mm: np.ndarray, encoding: str = "16UC1", *, kind: str = "<u2", big: bool = False) -> CameraFrame:
    payload = np.ascontiguousarray(mm).astype(kind).tobytes()
    step = len(payload) // mm.shape[0]
    return CameraFrame(
        stamp_ns=5,
        encoding=encoding,
        height=mm.shape[0],
        width=mm.shape[1],
        step=step,
        payload=payload,
        big_endian=big,
    )


@given(st.lists(st.integers(0, 65535), min_size=6, max_size=6))
def test_every_distance_comes_back_as_it_was(cells: list[int]) -> None:
    mm = np.array(cells, np.uint16).reshape(2, 3)
    assert np.array_equal(depth_of_png(png_bytes(mm)), mm)
    for encoding, kind, big, unit in (
        ("16UC1", "<u2", False, 1),
        ("16UC1", ">u2", True, 1),
        ("32FC1", "<f4", False, 1000),
        ("32FC1", ">f4", True, 1000),
    ):
        found = to_millimetres(frame(mm / unit, encoding, kind=kind, big=big))
        assert (found.dtype, found.tolist()) == (np.uint16, mm.tolist())
    with PilImage.open(io.BytesIO(png_bytes(mm))) as stored:
        assert (stored.mode, stored.size) == ("I;16", (3, 2))


def test_where_nothing_was_measured_is_0() -> None:
    metres = np.array([[np.nan, 0.0], [1.234, 65.535]], np.float32)
    assert to_millimetres(frame(metres, "32FC1", kind="<f4")).tolist() == [[0, 0], [1234, 65535]]


@pytest.mark.parametrize("metres", [1.0005, np.inf, -np.inf, -0.001, 65.536, 1e30, 1e-4])
def test_what_is_no_whole_millimetre_is_refused_and_not_rounded(metres: float) -> None:
    cells = np.array([[1.0, metres]], np.float32)
    with pytest.raises(ImageError, match=r"1 distances are no whole millimetres.*row 0, column 1"):
        to_millimetres(frame(cells, "32FC1", kind="<f4"))


def test_other_images_are_no_depth() -> None:
    for encoding in ("mono16", "16SC1", "rgb8", "png"):
        with pytest.raises(ImageError, match="not a depth image"):
            to_millimetres(frame(distances(0), encoding))
    with pytest.raises(ImageError, match="does not have the bytes"):
        to_millimetres(replace(frame(distances(0)), height=13))
    eight = io.BytesIO()
    PilImage.fromarray(np.zeros((2, 2), np.uint8)).save(eight, "PNG")
    for content, said in (
        (eight.getvalue(), "not a PNG of 16 bits"),
        (b"GIF", "not a readable PNG"),
        (png_bytes(distances(0))[:60], "not a readable PNG"),
    ):
        with pytest.raises(ImageError, match=said):
            depth_of_png(content)


def test_statistics_of_depth_are_in_millimetres() -> None:
    images = [distances(k)[:, :, None] for k in range(3)]
    histogram = ImageHistogram.empty_depth()
    for image in images:
        histogram = histogram.added(image)
    stats, cells = histogram.result(), np.concatenate([i.ravel() for i in images]).astype(float)
    assert (stats.min[0], stats.max[0], stats.frames) == (cells.min(), cells.max(), 3)
    np.testing.assert_allclose([stats.mean[0], stats.std[0]], [cells.mean(), cells.std()], rtol=1e-12)
    np.testing.assert_allclose(
        [stats.q01[0], histogram.quantile(0.5)[0], stats.q99[0]], np.quantile(cells, [0.01, 0.5, 0.99])
    )
    with pytest.raises(ValueError, match=r"uint16 \[H, W, 1\]"):
        histogram.added(np.zeros((2, 2, 1), np.uint8))


# -- recording ----------------------------------------------------------------------------------


def test_the_recorder_records_depth_and_looks_at_the_first_image() -> None:
    wanted = config()
    assert recorded_topics(wanted)[TOPIC] is False
    check = SourceCheck(wanted, Definitions())
    assert check.feeds(TOPIC)
    assert TOPIC not in check.cameras
    check.check_type(TOPIC, IMAGE)
    with pytest.raises(ConfigError, match="not a topic of depth images"):
        check.check_type(TOPIC, "sensor_msgs/msg/CompressedImage")

    def seen(message: object) -> None:
        check.check_message(TOPIC, IMAGE, bytes(store().serialize_cdr(message, IMAGE)))

    seen(depth_image(START, distances(0), metres=True))
    with pytest.raises(ImageError, match=r"camera cam .*no whole millimetres"):
        seen(depth_image(START, distances(0) + 0.25, metres=True))


# -- exporting ----------------------------------------------------------------------------------


def test_each_row_shows_the_depth_image_that_was_newest(root: Path) -> None:
    reader = open_v3(root)
    assert reader.info["features"][KEY] == {
        "dtype": "image",
        "shape": [*SIZE, 1],
        "names": ["height", "width", "channel"],
    }
    for index in range(3):  # the second was recorded in metres
        found = [depth_of_png(encoded) for encoded in reader.images(index, KEY)]
        assert [f.tolist() for f in found] == [distances(k).tolist() for k in shown()]
    rows = reader.rows(1)
    assert rows.schema.field(KEY).type == rows[KEY].type
    assert rows[KEY][6].as_py()["path"] == "frame-000006.png"
    since = column_values(rows, f"source_timestamp.{NAME}")[:, 0]
    np.testing.assert_allclose(since, [(8 + 50 * k - 10) / 1e3 for k in shown()], atol=1e-9)
    states = column_values(rows, f"source_state.{NAME}")[:, 0]
    assert states.tolist() == [0, *(int(a == b) for a, b in zip(shown(), shown()[1:], strict=False))]
    line = sources(root)[0]
    assert line["cameras"][NAME]["captured_size"] == line["cameras"][NAME]["encoded_size"] == [*SIZE]
    assert (line["cameras"][NAME]["frames"], line["t0_ns"]) == (7, START + 10 * MS)


def test_statistics_are_those_of_all_rows_and_the_dataset_is_good(root: Path) -> None:
    assert errors(root) == []
    told = open_v3(root).stats[KEY]
    cells = np.stack([distances(k) for _ in range(3) for k in shown()]).astype(float)
    assert told["count"] == [21]
    for name in ("mean", "std", "min", "max"):
        np.testing.assert_allclose(told[name], [[[getattr(cells, name)()]]], rtol=1e-9)
    np.testing.assert_allclose(told["q50"], [[[np.quantile(cells, 0.5)]]], rtol=1e-9)


def test_missing_images_are_marked_and_the_rows_hold_the_last_one(tmp_path: Path) -> None:
    messages = [*arm_messages(UNTIL_MS // 5 + 1), *frame_messages("cam", every(100 / 3, 0, UNTIL_MS))]
    messages += depth_messages([8, 40])
    summary = run(bag(tmp_path / "b", messages, config(), end_ms=UNTIL_MS), tmp_path / "ds", v3())
    assert summary.exit_code == 0
    states = column_values(open_v3(tmp_path / "ds").rows(0), f"source_state.{NAME}")[:, 0].tolist()
    assert states == [0, 0, 1, 1, 2, 2, 2]  # older than max_age_ms (100) from 143 ms on
    assert sources(tmp_path / "ds")[0]["marked_rows"]["stale"] == {NAME: 3}
    assert errors(tmp_path / "ds") == []


def test_the_same_bytes_when_encoded_ahead_and_whatever_the_runs(
    bags: list[Path], root: Path, tmp_path: Path
) -> None:
    for path in bags:
        run(path, tmp_path / "single", v3())
    (tmp_path / "ahead").mkdir()
    with ExitStack() as stack:
        job = ExportRun(tmp_path / "workers", ExportOptions(profile=v3()), stack)
        for path in bags:
            begun = job.begin(path)
            prepared = prepare(replace(begun, ahead=tmp_path / "ahead"), lambda _: None, job.held)
            # as it comes from another process
            outcome = job.finish(begun, pickle.loads(pickle.dumps(prepared)), lambda _: None)
            assert outcome.status == "exported"
    for name in ("workers", "single"):
        assert tree(tmp_path / name) == tree(root)


def test_an_episode_less_or_anew_is_the_export_of_those(bags: list[Path], root: Path, tmp_path: Path) -> None:
    shutil.copytree(root, tmp_path / "less")
    delete_episodes(tmp_path / "less", [0])
    run(bags[1:], tmp_path / "others", v3())
    one, other = tree(tmp_path / "less"), tree(tmp_path / "others")
    same = [f for f in other if f.startswith(("data", "meta/stats", "meta/info", "meta/episodes"))]
    assert [f for f in same if one[f] != other[f]] == []
    shutil.copytree(root, tmp_path / "anew")
    assert run(bags[1], tmp_path / "anew", v3(), replace=True).exit_code == 0
    assert tree(tmp_path / "anew") == tree(root)


def test_files_that_are_full_are_neither_read_nor_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noise = np.random.default_rng(1).integers(1, 65535, (7, 500, 500), dtype=np.uint16)
    monkeypatch.setitem(globals(), "distances", lambda k, size: noise[k % 7])
    made_of = replace(v3(), data_file_mb=1)
    one, two = (depth_bag(tmp_path / f"b{k}", k, size=noise.shape[1:]) for k in range(2))
    monkeypatch.undo()
    run(one, tmp_path / "ds", made_of)
    (first,) = (tmp_path / "ds/data/chunk-000").iterdir()
    assert first.stat().st_size > 3 << 20
    before, read = first.stat().st_mtime_ns, []
    monkeypatch.setattr(fold, "read_table", lambda path: read.append(path.name) or read_table(path))
    run(two, tmp_path / "ds", made_of)
    assert read == ["file-000.parquet"]  # the table of episodes
    assert first.stat().st_mtime_ns == before
    assert (tmp_path / "ds/data/chunk-000/file-001.parquet").exists()
    assert errors(tmp_path / "ds") == []
    delete_episodes(tmp_path / "ds", [0])
    images = [depth_of_png(encoded) for encoded in open_v3(tmp_path / "ds").images(0, KEY)]
    assert [np.array_equal(i, noise[k]) for i, k in zip(images, shown(), strict=True)] == [True] * 7


# -- what cannot be -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("profile", "said"),
    [
        (with_dialect(v3(), "lerobot-v2.1"), "lerobot-v2.1 does not hold them; --dialect lerobot-v3.0 does"),
        (with_dialect(v3(), "hdf5-cases"), "hdf5-cases does not hold them"),
        (load_profile("piper"), "the profile piper leaves them out"),
        (
            with_dialect(load_profile("train"), "lerobot-v3.0"),
            "the profile train leaves them out (depth: png",
        ),
    ],
    ids=["v2.1", "hdf5", "piper", "none"],
)
def test_what_leaves_depth_out_says_so(bags: list[Path], tmp_path: Path, profile: Profile, said: str) -> None:
    summary = run(bags[0], tmp_path / "ds", profile)
    assert summary.exit_code == 0
    notes = [n for n in summary.notes if "depth" in n]
    assert len(notes) == 1
    assert notes[0].startswith("cam: its depth images are not in the dataset: ")
    assert said in notes[0]
    reader = open_any(tmp_path / "ds")
    assert not [k for k in reader.info["features"] if "depth" in k]
    assert sources(tmp_path / "ds")[0]["t0_ns"] == START  # not waiting for depth
    assert errors(tmp_path / "ds") == []


def test_a_profile_that_asks_for_depth_says_where_no_camera_has_any(bags: list[Path], tmp_path: Path) -> None:
    plain = [small_bag(tmp_path / f"bags/b{k}", k) for k in range(2)]
    summary = run(plain, tmp_path / "ds", v3())
    assert summary.exit_code == 0
    assert [n for n in summary.notes if "depth" in n] == [
        "the profile train_depth asks for depth images, and no camera of the session has any "
        "(depth_topic or aligned_depth)"
    ]
    for name, path, profile in (("none", plain[0], load_profile("train")), ("some", bags[0], v3())):
        assert not [n for n in run(path, tmp_path / name, profile).notes if "asks for depth" in n]


def test_a_recording_without_depth_images_says_so_and_has_no_feature(tmp_path: Path) -> None:
    messages = [*arm_messages(45), *frame_messages("cam", every(100 / 3, 0, UNTIL_MS))]
    summary = run(bag(tmp_path / "b", messages, config(), end_ms=UNTIL_MS), tmp_path / "ds", v3())
    assert summary.exit_code == 0
    assert any(f"no messages on {TOPIC} (optional {NAME})" in n for n in summary.bags[0].notes)
    assert KEY not in open_v3(tmp_path / "ds").info["features"]
    mixed = run(depth_bag(tmp_path / "c", 1), tmp_path / "ds", v3())
    assert mixed.exit_code == 1
    assert "depth.cam" in mixed.bags[0].reason


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (lambda t: depth_image(t, distances(0)[:, :-2]), "the depth image has another size"),
        (lambda t: depth_image(t, distances(0) + 0.5, metres=True), "no whole millimetres"),
        (lambda t: jpeg_image(t, picture([1, 2, 3])), "not an image message|not a depth image"),
    ],
    ids=["size", "half", "jpeg"],
)
def test_an_image_that_cannot_be_taken_fails_the_bag_alone(tmp_path: Path, message, said: str) -> None:
    messages = [*arm_messages(45), *frame_messages("cam", every(100 / 3, 0, UNTIL_MS))]
    first = list(depth_messages([8]))
    stamp = START + 60 * MS
    if said.startswith("not an"):
        first, messages = [], [*messages, (TOPIC, START + 9 * MS, message(START + 8 * MS))]
    else:
        messages.append((TOPIC, stamp, message(stamp)))
    path = bag(tmp_path / "b", [*messages, *first], config(), end_ms=UNTIL_MS)
    summary = run(path, tmp_path / "ds", v3())
    assert summary.exit_code == 1
    assert re.search(said, summary.bags[0].reason)
    assert not (tmp_path / "ds").exists()


def test_a_conversion_says_that_the_target_holds_no_depth(
    root: Path, bags: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for dialect, said in (
        ("lerobot-v2.1", f"{KEY}: v2 datasets hold no depth images"),
        ("hdf5-cases", f"{KEY}: HDF5 cases hold rows of numbers"),
    ):
        assert main(["convert", str(root), "--to", dialect, "-o", str(tmp_path / dialect)]) == 0
        assert said in " ".join(capsys.readouterr().out.split())
        made, source = open_any(tmp_path / dialect), open_any(root)
        assert KEY not in made.info["features"]
        for index in range(3):
            a, b = made.rows(index), source.rows(index)
            assert set(b.column_names) - set(a.column_names) == {KEY}
            for key in a.column_names:
                np.testing.assert_array_equal(column_values(a, key), column_values(b, key))
        assert errors(tmp_path / dialect) == []


def test_damage_is_found(root: Path, tmp_path: Path) -> None:
    path, stats = (tmp_path / "ds" / f for f in ("data/chunk-000/file-000.parquet", "meta/stats.json"))
    shutil.copytree(root, tmp_path / "ds")
    whole = pq.ParquetFile(path).read()
    at = whole.schema.get_field_index(KEY)

    def with_cell(row: int, content: bytes) -> list[str]:
        cells = whole[KEY].to_pylist()
        cells[row]["bytes"] = content
        pq.write_table(whole.set_column(at, KEY, pa.array(cells, whole.schema.field(KEY).type)), path)
        return errors(tmp_path / "ds")

    good = whole[KEY][8].as_py()["bytes"]
    assert any("episode 1, observation.depth.cam, row 1" in e for e in with_cell(8, good[:-30]))
    assert any("another size" in e for e in with_cell(8, png_bytes(distances(0)[:-1])))
    other = distances(0)
    other[5, :] += 100
    assert any("mean of observation.depth.cam is not that" in e for e in with_cell(0, png_bytes(other)))
    assert with_cell(8, good) == []
    told = json.loads(stats.read_text())
    del told[KEY]["q50"]
    stats.write_text(json.dumps(told))
    findings = [str(f) for f in validator_of(tmp_path / "ds")(tmp_path / "ds").report.findings]
    assert any(f"{KEY} has no q50" in f for f in findings)


def test_the_settings_of_a_camera_name_its_depth() -> None:
    realsense = CameraSettings(topic="/camera/c/color/image_raw", aligned_depth=True)
    of_realsense = "/camera/c/aligned_depth_to_color/image_raw"
    for camera, topic in (
        (realsense, of_realsense),
        (replace(realsense, depth_topic="other/depth"), "/other/depth"),
    ):
        topics = recorded_topics(SessionConfig(cameras={"c": camera}))
        assert [t for t in topics if "depth" in t] == [topic]
    with pytest.raises(ValueError, match="depth_topic"):
        CameraSettings(depth_topic="not a topic")


def broken_depth(fault: str) -> list[tuple[str, int, object]]:
    """Depth images of which the fourth has a fault."""
    messages = list(depth_messages(every(50, 8, UNTIL_MS)))
    topic, when, _ = messages[3]
    stamp = when - 12 * MS
    if fault == "bytes":
        image = depth_image(stamp, distances(3))
        image = make(IMAGE, image.header, *SIZE, "16UC1", 0, image.step, image.data[:-7])
    elif fault == "size":
        image = depth_image(stamp, distances(3, (SIZE[0] + 2, SIZE[1])))
    else:
        image = raw_image(stamp, picture([9, 9, 9], height=SIZE[0], width=SIZE[1]))
    return [*messages[:3], (topic, when, image), *messages[4:]]


@pytest.mark.parametrize(
    ("fault", "code", "said"),
    [
        ("bytes", "image", "1 of {n} images are no depth images: "),
        ("size", "image-size", "the size changes: "),
        (
            "colour",
            "image",
            "ns: not a depth image (expected 16UC1 or 32FC1, got rgb8)",
        ),
    ],
)
def test_depth_images_of_a_bag_are_surveyed_as_those_in_colour(
    tmp_path: Path, fault: str, code: str, said: str
) -> None:
    rest = [
        *arm_messages(UNTIL_MS // 5 + 1),
        *frame_messages("cam", every(100 / 3, 0, UNTIL_MS)),
    ]
    path = bag(tmp_path / "b", [*rest, *broken_depth(fault)], config(), end_ms=UNTIL_MS)
    count = len(every(50, 8, UNTIL_MS))
    # who takes them is stopped by it, who leaves them out is told
    for profile, level in (("train_depth", "error"), ("train", "warning")):
        report = validate_bag(path, profile=load_profile(profile))
        found = [f for f in report.findings if f.code == code and TOPIC in f.where]
        assert [f.level for f in found] == [level]
        assert said.format(n=count) in found[0].text
    whole = validate_bag(depth_bag(tmp_path / "c"), profile=v3()).findings
    assert [f for f in whole if TOPIC in f.where and f.code.startswith("image")] == []


def png_image(stamp_ns: int, content: bytes):
    return make(COMPRESSED, header(stamp_ns), "png", np.frombuffer(content, np.uint8))


def test_depth_images_that_nothing_names_are_counted_as_depth(tmp_path: Path) -> None:
    stamps = every(50, 8, UNTIL_MS)
    others = [
        ("/other/depth", START + round(t * MS), depth_image(START + round(t * MS), distances(k)))
        for k, t in enumerate(stamps)
    ]
    png = png_bytes(distances(1))
    pngs = [
        ("/png/depth", when, png_image(when, png if k else png[:40])) for k, (_, when, _) in enumerate(others)
    ]
    rest = [*arm_messages(UNTIL_MS // 5 + 1), *frame_messages("cam", every(100 / 3, 0, UNTIL_MS))]
    report = validate_bag(bag(tmp_path / "b", [*rest, *others, *pngs], session(), end_ms=UNTIL_MS))
    found = [(f.level, f.where.split()[-1], f.text) for f in report.findings if f.code == "image"]
    assert [(level, topic) for level, topic, _ in found] == [("warning", "/png/depth")]
    assert found[0][2].startswith(f"1 of {len(stamps)} images are no depth images: not a readable PNG")


def test_depth_images_that_are_wanted_and_not_there_are_missed(tmp_path: Path) -> None:
    rest = [*arm_messages(UNTIL_MS // 5 + 1), *frame_messages("cam", every(100 / 3, 0, UNTIL_MS))]
    path = bag(tmp_path / "b", rest, config(), end_ms=UNTIL_MS)
    missed = {
        profile: [f for f in validate_bag(path, profile=load_profile(profile)).findings if TOPIC in f.where]
        for profile in ("train", "train_depth")
    }
    assert missed["train"] == []
    assert [f.code for f in missed["train_depth"]] == ["missing-topic"]

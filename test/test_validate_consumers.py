"""What validate foretells of each consumer is what the real ones did with datasets timed the same way."""

import numpy as np
import pytest
from dataset_edits import edit_json, edit_line
from timed_dataset import Metadata, Timing, write

from piper_collect.core.consumers import (
    CONSUMERS,
    GROOT_N15,
    GROOT_N15_DECORD,
    GROOT_N16,
    GROOT_N17,
    LEROBOT_PYAV,
    LEROBOT_TORCHCODEC,
    LEROBOT_V3,
)
from piper_collect.pipelines.validate import validate_dataset

SPEC = Timing(jitter=True, own_frames=True, b_frames=True)
LOADS = ""
SYNC = "ValueError when it opens"
TOO_FEW = "frame 40 asked for, the video has 40 for 42 rows"
EARLY = "lies before the first frame"
LATE = "lies at or after the end of the video"
FAR = "from their frame"
MODERN = (GROOT_N16, GROOT_N17)

# One row a dataset: how LeRobot (both decoders), n1.5 with torchcodec, n1.5 with decord and the later GR00T
# answered one timed like it (default tolerance 1e-4 s). Empty is "loads".
TABLE = {
    "the format, metadata palatable": (SPEC, SYNC, EARLY, LOADS, TOO_FEW),
    "jitter, one frame a row, ms PTS": (Timing(jitter=True, b_frames=True), SYNC, EARLY, LOADS, LOADS),
    "the same, floored, no B-frames": (Timing(jitter=True, rounding="floor"), SYNC, LOADS, LOADS, LOADS),
    "the same, B-frames": (Timing(jitter=True, rounding="floor", b_frames=True), SYNC, LATE, LOADS, LOADS),
    "grid, ms PTS, B-frames": (Timing(b_frames=True), FAR, LOADS, LOADS, LOADS),
    "grid, ms PTS, no B-frames": (Timing(), FAR, LOADS, LOADS, LOADS),
    "grid, 1/90000, no B-frames": (Timing(ticks=90000), LOADS, LOADS, LOADS, LOADS),
    "grid, 1/90000, B-frames": (Timing(ticks=90000, b_frames=True), LOADS, LATE, LOADS, LOADS),
    "grid, 1/fps": (Timing(ticks=30), LOADS, LOADS, LOADS, LOADS),
    "grid, 1/fps, B-frames": (Timing(ticks=30, b_frames=True), LOADS, LOADS, LOADS, LOADS),
    "grid, 1/fps, timestamps not below": (Timing(ticks=30, up=True), LOADS, LOADS, LOADS, LOADS),
}  # fmt: skip


def outlooks(root):
    return {o.consumer: o for o in validate_dataset(root, decode=False).dataset.outlooks}


@pytest.mark.parametrize("name", TABLE)
def test_the_table_of_the_real_consumers(name, tmp_path):
    timing, lerobot, torchcodec, decord, modern = TABLE[name]
    found = outlooks(write(tmp_path / "ds", timing))
    expected = {LEROBOT_PYAV: lerobot, LEROBOT_TORCHCODEC: lerobot, GROOT_N15: torchcodec}
    expected |= {GROOT_N15_DECORD: decord, **dict.fromkeys(MODERN, modern)}
    for consumer, answer in expected.items():
        assert answer in found[consumer].reason, (consumer, found[consumer])
        assert found[consumer].loads == (answer == LOADS), (consumer, found[consumer])


def test_the_rows_that_get_the_frame_before(tmp_path):
    """float32 timestamps half of which lie just below k/30: GR00T n1.5 shows the frame 33 ms before."""
    timing = Timing(ticks=30)
    found = outlooks(write(tmp_path / "ds", timing))
    grid = np.arange(timing.rows) / 30
    below = int(np.count_nonzero(grid.astype(np.float32).astype(np.float64) < grid))
    assert 5 < below < timing.rows
    assert found[GROOT_N15].wrong_rows == 2 * below
    assert found[GROOT_N15].worst_ms == pytest.approx(1000 / 30, abs=1e-3)
    assert found[LEROBOT_TORCHCODEC].wrong_rows == found[GROOT_N17].wrong_rows == 0
    report = validate_dataset(tmp_path / "ds", decode=False).report
    warned = [f for f in report.findings if f.level == "warning" and f.code == "consumer"]
    assert [f.where for f in warned] == [GROOT_N15]
    assert f"{2 * below} rows get another frame" in warned[0].text
    (tmp_path / "up").mkdir()
    assert outlooks(write(tmp_path / "up/ds", Timing(ticks=30, up=True)))[GROOT_N15].wrong_rows == 0


def test_decord_counts_from_the_first_frame(tmp_path):
    """Frames 21 ms after their rows come out right on paper and 21 ms late in truth."""
    found = outlooks(write(tmp_path / "ds", Timing(jitter=True, own_frames=True)))
    assert found[GROOT_N15_DECORD].loads
    assert found[GROOT_N15_DECORD].worst_ms > 20


def test_the_smallest_tolerance(tmp_path):
    """Rows 6 ms off the grid at most; the wrist camera's frames 17 ms from the rows, or farther."""
    root = write(tmp_path / "ds", SPEC)
    tolerance = validate_dataset(root, decode=False).report.facts["tolerance_s"]
    assert 0.015 < tolerance[LEROBOT_PYAV] < 0.025
    assert tolerance[LEROBOT_TORCHCODEC] is None, "it asks for frames that are not there"
    root = write(tmp_path / "rows", Timing(jitter=True))
    steps = np.abs(np.diff(_timestamps(root)) - np.float32(1 / 30))
    tolerance = validate_dataset(root, decode=False).report.facts["tolerance_s"]
    assert tolerance[LEROBOT_PYAV] == pytest.approx(float(steps.max()), abs=1e-8)


def test_the_format_verbatim_pleases_nobody_at_the_default_tolerance(tmp_path):
    root = write(tmp_path / "ds", SPEC, Metadata(verbatim=True))
    validation = validate_dataset(root, decode=False)
    found = {o.consumer: o for o in validation.dataset.outlooks}
    assert not any(o.loads for o in found.values())
    assert 'rotation_type "quat_wxyz"' in found[GROOT_N15].reason
    assert "do not tell height and width" in found[GROOT_N15].reason
    assert 'KeyError: "annotation.task_index"' in found[GROOT_N17].reason
    assert "it would load with tolerance_s above 0.0" in found[LEROBOT_PYAV].note
    assert "no image statistics" in found[LEROBOT_PYAV].note
    assert validation.report.ok, "LeRobot takes it with a larger tolerance"
    levels = {f.level for f in validation.report.findings if f.code == "consumer"}
    assert levels == {"info"}, "a dataset with capture times is not at fault"


@pytest.mark.parametrize(
    ("metadata", "timing", "reason"),
    [
        (Metadata(version="v2.1", scalars=True), Timing(ticks=30), ""),
        (Metadata(version="v2.0", scalars=True), Timing(ticks=30), "takes v2.1 only, this is v2.0"),
        (Metadata(version="v2.1"), Timing(ticks=30), "stored as lists (action.gripper, observation.gripper)"),
        (Metadata(version="v2.1", scalars=True), Timing(), "FrameTimestampError: 56 rows"),
    ],
)
def test_the_conversion_to_v3(metadata, timing, reason, tmp_path):
    found = outlooks(write(tmp_path / "ds", timing, metadata))[LEROBOT_V3]
    assert reason in found.reason
    assert found.loads == (not reason)


NO_GROOT = (GROOT_N15, *MODERN)
NO_LEROBOT = (LEROBOT_TORCHCODEC,)
METADATA = {
    "chunks_size": (lambda d: d.pop("chunks_size"), "info.json", (*NO_LEROBOT, *NO_GROOT), "chunks_size"),
    "video_path": (lambda d: d.pop("video_path"), "info.json", (*NO_LEROBOT, *NO_GROOT), "video_path"),
    "robot_type": (lambda d: d.pop("robot_type"), "info.json", (), ""),
    "quantiles": (lambda d: d["action.arm_eef"].pop("q01"), "stats.json", MODERN, "no q01 of action.arm_eef"),
    "a slice": (lambda d: d["state"]["arm_joint"].update(end=9), "modality.json", NO_GROOT, "past the end"),
    "no video group": (lambda d: d.pop("video"), "modality.json", NO_GROOT, "has no video"),
    "no annotation": (lambda d: d.pop("annotation"), "modality.json", (), ""),
    "no names": (
        lambda d: [f.pop("names") for f in d["features"].values()],
        "info.json",
        (GROOT_N15,),
        "names",
    ),
}


@pytest.mark.parametrize("name", METADATA)
def test_what_each_consumer_asks_of_the_metadata(name, tmp_path):
    change, file, refusing, word = METADATA[name]
    root = write(tmp_path / "ds", Timing(ticks=30, up=True))
    edit_json(root / "meta" / file, change)
    found = outlooks(root)
    for consumer in (*NO_LEROBOT, *NO_GROOT):
        assert found[consumer].loads == (consumer not in refusing), (consumer, found[consumer])
        assert word in found[consumer].reason or consumer not in refusing


def test_episodes_that_are_not_as_long_as_told(tmp_path):
    root = write(tmp_path / "ds", Timing(ticks=30, up=True, episodes=2))
    edit_line(root, "episodes.jsonl", 0, lambda line: line.update(length=line["length"] + 1))
    found = outlooks(root)
    assert not any(found[c].loads for c in CONSUMERS if c != LEROBOT_V3)
    assert "1 episodes have fewer rows than their lines say" in found[GROOT_N17].reason


def test_a_long_episode_meets_the_limit_of_float32():
    """Steps of float32 timestamps at 30 Hz are first off by more than 1e-4 s after 1024 s."""
    from piper_collect.core.pairing import sync_error_s

    stamps = (np.arange(31_000) / 30).astype(np.float32).astype(np.float64)
    late = np.flatnonzero(sync_error_s(stamps, 30.0) > 1e-4)
    assert stamps[late[0] + 1] == pytest.approx(1024.2, abs=0.1)


def test_every_consumer_has_a_say(tmp_path):
    report = validate_dataset(write(tmp_path / "ds", Timing(ticks=30, up=True)), decode=False).report
    assert tuple(f.where for f in report.findings if f.code == "consumer") == CONSUMERS
    assert set(report.facts["consumers"]) == set(CONSUMERS)


def _timestamps(root):
    import pyarrow.parquet as pq

    return pq.read_table(root / "data/chunk-000/episode_000000.parquet")["timestamp"].to_numpy()

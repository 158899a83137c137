"""The profile train: rows at exactly k/fps, and in each the newest sample and frame not after it."""

from fractions import Fraction
from itertools import pairwise

import av
import numpy as np
import pytest
from av.video.frame import PictureType
from export_cases import (
    bag,
    cells,
    every,
    frame_messages,
    mp4,
    rows,
    run,
    session,
    sources,
    video_numbers,
    video_times,
)
from sample_bags import MS, START, arm_messages

pytestmark = pytest.mark.usefixtures("no_sync")

END_MS = 800
RATES = {10.0: Fraction(10), 25.0: Fraction(25), 29.97: Fraction(2997, 100), 30.0: Fraction(30)}
SOURCES = ("arm_joint", "arm_eef", "gripper", "target_eef", "target_gripper")


def jittered(seed, period_ms, first_ms):
    """Capture times with nanoseconds in them, never in step with any rate."""
    random = np.random.default_rng(seed)
    return [t + random.uniform(0, period_ms / 3) for t in every(period_ms, first_ms, END_MS - period_ms)]


FRAMES = {"cam": jittered(1, 100 / 3, 1.0), "wrist": jittered(2, 41.0, 3.0)}


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    messages = list(arm_messages(END_MS // 5))
    for name, stamps_ms in FRAMES.items():
        messages += frame_messages(name, stamps_ms)
    folder = tmp_path_factory.mktemp("recordings")

    def at(fps):
        path = folder / f"at_{fps}"
        if not path.exists():
            bag(path, messages, session(FRAMES, fps=fps), end_ms=END_MS)
        return path

    return at


@pytest.fixture(params=RATES, ids=str)
def made(request, recording):
    """A dataset of each rate, the exact rate, and T0."""
    path = recording(request.param)
    root = path.with_name(f"{path.name}_ds")
    if not root.exists():
        assert [b.status for b in run(path, root).bags] == ["exported"]
    (source,) = sources(root)
    return root, RATES[request.param], source["t0_ns"]


def row_times_ns(rate, t0_ns, count):
    """T0 + k/fps, rounded to whole ns."""
    return [t0_ns + round(Fraction(k * 10**9) / rate) for k in range(count)]


def newest(stamps_ns, at_ns):
    return max(s for s in stamps_ns if s <= at_ns)


def test_timestamps_are_the_smallest_float32_not_below(made):
    root, rate, _ = made
    stored = rows(root)["timestamp"].to_numpy()
    assert stored.dtype == np.float32
    assert len(stored) >= 7
    for k, value in enumerate(stored):
        assert Fraction(float(value)) >= Fraction(k) / rate
        assert k == 0 or Fraction(float(np.nextafter(value, np.float32(0)))) < Fraction(k) / rate


def test_one_frame_a_row_at_exactly_its_time(made):
    root, rate, _ = made
    count = len(rows(root))
    for camera in FRAMES:
        assert video_times(mp4(root, camera)) == [Fraction(k) / rate for k in range(count)]
        with av.open(str(mp4(root, camera))) as container:
            frames = list(container.decode(video=0))
            assert {f.pict_type for f in frames} <= {PictureType.I, PictureType.P}
            assert [f.pts * f.time_base for f in frames] == [Fraction(k) / rate for k in range(count)]


def test_each_row_shows_the_newest_frame_not_after_it(made):
    root, rate, t0_ns = made
    table = rows(root)
    for camera, stamps_ms in FRAMES.items():
        stamps = [START + round(t * MS) for t in stamps_ms]
        shown = [newest(stamps, at) for at in row_times_ns(rate, t0_ns, len(table))]
        assert video_numbers(mp4(root, camera)) == [stamps.index(s) for s in shown]
        assert table[f"source_timestamp.{camera}"].to_pylist() == [
            float(Fraction(s - t0_ns, 10**9)) for s in shown
        ]


def test_each_row_shows_the_newest_sample_not_after_it(made):
    root, rate, t0_ns = made
    table = rows(root)
    stamps = [START + k * 5 * MS for k in range(END_MS // 5)]
    shown = [newest(stamps, at) for at in row_times_ns(rate, t0_ns, len(table))]
    for name in SOURCES:
        times = table[f"source_timestamp.{name}"].to_pylist()
        assert times == [float(Fraction(s - t0_ns, 10**9)) for s in shown]
    joint1 = cells(table, "observation.arm_joint")[:, 0]
    np.testing.assert_array_equal(joint1, np.array([stamps.index(s) * 1e-3 for s in shown], np.float32))


def test_rows_go_from_the_first_to_the_last_command(made):
    root, rate, t0_ns = made
    first_ms = max(stamps_ms[0] for stamps_ms in FRAMES.values())
    assert t0_ns == START + int(first_ms // 5 + 1) * 5 * MS
    last_ns = START + (END_MS // 5 - 1) * 5 * MS
    assert len(rows(root)) == (last_ns - t0_ns) * rate // 10**9 + 1


def test_marks_and_their_counts(made):
    root, _, _ = made
    table = rows(root)
    repeated = {}
    for name in (*SOURCES, *FRAMES):
        times = table[f"source_timestamp.{name}"].to_pylist()
        states = [0, *(int(a == b) for a, b in pairwise(times))]
        assert table[f"source_state.{name}"].to_pylist() == states
        if sum(states):
            repeated[name] = sum(states)
    (source,) = sources(root)
    assert source["marked_rows"] == {"repeated": repeated, "stale": {}}
    assert {c: n["repeated"] for c, n in source["cameras"].items()} == {c: repeated.get(c, 0) for c in FRAMES}


@pytest.mark.parametrize("fps", [30000 / 1001, 100 / 3])
def test_a_rate_that_no_video_can_hold_is_refused(recording, tmp_path, fps):
    summary = run(recording(fps), tmp_path / "ds")
    assert summary.exit_code == 1
    assert "cannot hold times of exactly k/fps" in summary.bags[0].reason
    assert "fewer digits, as in 29.97" in summary.bags[0].reason
    assert not (tmp_path / "ds").exists()

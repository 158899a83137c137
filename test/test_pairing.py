"""Which frame goes with which row, by our rule and by those of the loaders, on literal times."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from piper_collect.core.pairing import (
    VideoTiming,
    choose_by_number,
    choose_by_rate,
    choose_nearest,
    choose_nearest_from_start,
    choose_shown,
    distance_s,
    gaps_ms,
    newest_frames,
    sync_error_s,
)

ROWS = np.array([0.0, 0.1, 0.2, 0.3])


def timing(pts, *, end=None, rate=10.0, frames=None, tick=0.001):
    pts = np.array(pts, dtype=np.float64)
    return VideoTiming(
        pts_s=pts,
        end_s=pts[-1] + 0.1 if end is None else end,
        rate_hz=rate,
        header_frames=len(pts) if frames is None else frames,
        time_base_s=tick,
    )


def test_the_newest_frame_not_after_a_row():
    pts = np.array([0.05, 0.15, 0.2, 0.31])
    newest = newest_frames(ROWS, pts)
    np.testing.assert_array_equal(newest, [-1, 0, 2, 2])
    np.testing.assert_allclose(gaps_ms(ROWS, pts, newest), [np.nan, 50, 0, 100], atol=1e-9)


def test_a_frame_a_rounding_after_its_row_is_its_frame():
    """float32(0.1) is 1.5e-9 s above 0.1, float32(0.7) 1.2e-8 s below 0.7: both are rows of a frame there."""
    rows = np.array([0.1, 0.7], dtype=np.float32).astype(np.float64)
    np.testing.assert_array_equal(newest_frames(rows, np.array([0.0, 0.1, 0.7])), [1, 2])
    assert newest_frames(np.array([0.1]), np.array([0.0, 0.10001]))[0] == 0


def test_the_nearest_frame():
    chosen = choose_nearest(ROWS, timing([0.05, 0.16, 0.26]))
    np.testing.assert_array_equal(chosen.frame, [0, 0, 1, 2])
    assert choose_nearest(ROWS, timing([0.0])).frame.tolist() == [0, 0, 0, 0]


def test_decord_takes_the_first_frame_for_time_0():
    chosen = choose_nearest_from_start(ROWS, timing([0.06, 0.16, 0.26, 0.36]))
    np.testing.assert_array_equal(chosen.frame, [0, 1, 2, 3])


def test_frames_by_the_rate_of_the_header():
    """Row 0.2 asks for frame 2, nominally at 0.2 s: the first frame from there on is the late one."""
    chosen = choose_by_rate(ROWS, timing([0.0, 0.1, 0.19, 0.29], frames=4))
    assert chosen.refusal == "no frame after the nominal time of row 3"
    chosen = choose_by_rate(ROWS[:3], timing([0.0, 0.1, 0.19, 0.29]))
    np.testing.assert_array_equal(chosen.frame, [0, 1, 3])
    assert choose_by_rate(ROWS, timing([0.0, 0.1, 0.2])).refusal == "frame 3 asked for row 3, the video has 3"
    assert "frame rate" in choose_by_rate(ROWS, timing([0.0], rate=0.0)).refusal


def test_the_frame_being_shown():
    np.testing.assert_array_equal(choose_shown(ROWS, timing([0.0, 0.11, 0.2, 0.3])).frame, [0, 0, 2, 3])
    early = choose_shown(ROWS, timing([0.01, 0.1, 0.2, 0.3])).refusal
    assert early == "row 0 at 0.000000 s lies before the first frame at 0.010000 s"
    late = choose_shown(ROWS, timing([0.0, 0.1, 0.2, 0.3], end=0.3)).refusal
    assert late == "row 3 at 0.300000 s lies at or after the end of the video at 0.300000 s"


def test_frames_by_number():
    assert choose_by_number(ROWS, timing([5.0, 6.0, 7.0, 8.0, 9.0])).frame.tolist() == [0, 1, 2, 3]
    assert choose_by_number(ROWS, timing([0.0])).refusal == "frame 1 asked for, the video has 1 for 4 rows"


@pytest.mark.parametrize("rule", [choose_nearest, choose_nearest_from_start, choose_shown, choose_by_rate])
def test_a_video_without_frames_is_refused(rule):
    empty = VideoTiming(pts_s=np.empty(0), end_s=0.0, rate_hz=10.0, header_frames=0, time_base_s=0.001)
    assert rule(ROWS, empty).refusal


def test_differences_are_taken_in_float32():
    """In float64 these two lie 9.99e-05 s apart, in float32 at 1100 s the step is 1.2e-4 s."""
    row, frame = np.array([1100.0]), np.array([1100.0 + 9.99e-5])
    assert distance_s(row, frame, np.array([0]))[0] == pytest.approx(1.2207e-4, rel=1e-3)
    assert sync_error_s(np.array([0.0, 0.1, 0.25]), 10.0) == pytest.approx([0.0, 0.05], abs=1e-8)


sorted_times = st.lists(st.integers(0, 5000), min_size=1, max_size=30, unique=True).map(
    lambda ms: np.array(sorted(ms)) / 1000
)


@given(rows=sorted_times, pts=sorted_times)
def test_the_newest_frame_is_the_greatest_not_after_the_row(rows, pts):
    for row, frame in zip(rows, newest_frames(rows, pts), strict=True):
        before = pts[pts <= row + 1e-5]
        assert frame == len(before) - 1


@given(rows=sorted_times, pts=sorted_times)
def test_no_frame_is_nearer_than_the_nearest(rows, pts):
    chosen = choose_nearest(rows, timing(pts)).frame
    best = np.abs(rows[:, None] - pts[None, :]).min(axis=1)
    np.testing.assert_allclose(np.abs(rows - pts[chosen]), best)

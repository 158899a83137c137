"""Alignment: T0, ticks, sampling, trimming and counts, on literal stamps; laws with Hypothesis."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from piper_collect.core.align import align
from piper_collect.core.sampling import tick_offsets
from piper_collect.core.types import AlignPolicy, CameraFrame, CameraStream, Episode, RawEpisode, Stream
from piper_collect.errors import AlignmentError

MS = 1_000_000
START = 1_700_000_000_000_000_000


def stream(key, stamps_ms, values=None, start=START):
    stamp = np.array([start + round(t * MS) for t in stamps_ms], dtype=np.int64)
    cells = np.array(values if values is not None else [[float(t)] for t in stamps_ms], dtype=np.float64)
    return Stream(
        key=key,
        stamp_ns=stamp,
        receive_ns=stamp + 7,
        values=cells.reshape(len(stamp), -1 if len(stamp) else 1),
        topic=f"/{key}",
    )


def no_frames(first_ns: int, last_ns: int) -> Iterator[CameraFrame]:
    return iter(())


def camera(name, stamps_ms, start=START):
    stamp = np.array([start + round(t * MS) for t in stamps_ms], dtype=np.int64)
    return CameraStream(camera=name, stamp_ns=stamp, receive_ns=stamp, frames=no_frames)


def episode(streams, cameras=(), *, end_ms=1000.0, start=START):
    return RawEpisode(
        name="s/episode_000000",
        streams={s.key: s for s in streams},
        cameras={c.camera: c for c in cameras},
        start_ns=start,
        end_ns=start + round(end_ms * MS),
        task="pick",
    )


def run(
    raw,
    *,
    clock="action",
    fps=10.0,
    max_age_ms=50.0,
    sampling="hold",
    rotation=(),
    on_gap="drop_row",
    need=None,
):
    return align(
        raw,
        row_clock=clock,
        fps=fps,
        action_source="act",
        policies={
            k: AlignPolicy(
                sampling=sampling,
                max_age_ns=round(max_age_ms * MS),
                rotation="quat_wxyz" if k in rotation else "none",
            )
            for k in raw.streams
        },
        camera_max_age_ns=dict.fromkeys(raw.cameras, 100 * MS),
        required_cameras=list(raw.cameras) if need is None else need,
        on_gap=on_gap,
    )


def rel_ms(aligned: Episode):
    return ((aligned.tick_ns - START) / MS).tolist()


def test_rows_are_the_first_action_of_each_slot_and_keep_its_stamp():
    raw = episode([stream("act", [20, 70, 123, 150, 219, 221, 330])])
    aligned = run(raw)
    # slots start at 20, 120, 220, 320
    assert rel_ms(aligned) == [20, 123, 221, 330]
    assert aligned.t0_ns == START + 20 * MS
    assert aligned.columns["act"].tolist() == [[20], [123], [221], [330]]
    assert aligned.counts["slots"] == 4
    assert aligned.counts["gaps"] == 0


def test_a_slot_without_an_action_is_a_counted_gap():
    raw = episode([stream("act", [0, 100, 205, 410])])
    aligned = run(raw)
    assert rel_ms(aligned) == [0, 100, 205, 410]
    assert (aligned.counts["slots"], aligned.counts["rows"], aligned.counts["gaps"]) == (5, 4, 1)
    with pytest.raises(AlignmentError, match=r"action's ticks at 1 rows, first 0\.300 s"):
        run(raw, on_gap="refuse")


def test_t0_waits_for_every_stream_and_camera_and_counts_what_it_cut():
    raw = episode(
        [stream("act", range(0, 500, 10)), stream("arm", range(95, 500, 10))],
        [camera("cam", [31, 64, 132, 165, 198, 231, 264, 297, 330, 363, 396, 429, 462, 495])],
    )
    aligned = run(raw)
    assert rel_ms(aligned)[0] == 100
    assert aligned.columns["arm"][0] == [95]
    assert aligned.counts["ticks_before_t0"] == 10
    assert aligned.counts["rows_before_t0"] == 1
    cam = aligned.cameras["cam"]
    assert (cam.first_ns, cam.trimmed_before) == (START + 100 * MS, 2)
    # last tick 400, half a period 50 ms later
    assert cam.last_ns == START + 450 * MS
    assert cam.trimmed_after == 2
    assert aligned.counts["frames"] == {"cam": {"kept": 10, "trimmed_before": 2, "trimmed_after": 2}}


def test_only_samples_inside_the_episode_count():
    act = stream("act", [-30, -20, 10, 110, 990, 1010, 1110])
    aligned = run(episode([act], [camera("cam", range(-90, 1200, 30))]))
    assert rel_ms(aligned) == [10, 110, 990]
    assert aligned.counts["outside_episode"] == {"act": 4, "cam": 9}
    assert aligned.cameras["cam"].last_ns == START + 1000 * MS


def test_a_row_without_a_fresh_value_is_dropped_and_counted_by_source():
    raw = episode([stream("act", range(0, 600, 10)), stream("arm", [0, 90, 190, 480, 590])])
    aligned = run(raw)
    assert rel_ms(aligned) == [0, 100, 200, 500]
    assert aligned.counts["dropped"] == 2
    assert aligned.counts["dropped_by_source"] == {"arm": 2}
    assert aligned.counts["age_ms"]["arm"] == {"max": 20.0, "median": 10.0}
    with pytest.raises(AlignmentError, match=r"arm at 2 rows, first 0\.300 s"):
        run(raw, on_gap="refuse")


def test_a_stalled_required_camera_costs_rows_and_an_optional_one_does_not():
    raw = episode([stream("act", range(0, 600, 10))], [camera("cam", [0, 100, 400, 500])])
    assert rel_ms(run(raw)) == [0, 100, 200, 400, 500]
    assert run(raw).counts["dropped_by_source"] == {"cam": 1}
    assert rel_ms(run(raw, need=[])) == [0, 100, 200, 300, 400, 500]


def test_grid_rows_lie_exactly_on_the_grid():
    raw = episode([stream("act", [3, 35, 66, 101, 134])])
    aligned = run(raw, clock="grid", fps=30.0)
    assert (aligned.tick_ns - START).tolist() == [
        3 * MS + o for o in (0, 33_333_333, 66_666_667, 100_000_000)
    ]
    assert aligned.columns["act"].tolist() == [[3], [35], [66], [101]]


def test_tick_offsets_are_exact_for_fractional_rates():
    offsets = tick_offsets(29.97, 29971)
    assert offsets[:3].tolist() == [0, 33_366_700, 66_733_400]
    # 2997 slots at 29.97 a second are 100 s exactly
    assert offsets[2997] == 100_000_000_000
    assert offsets[29970] == 1_000_000_000_000


@pytest.mark.parametrize("fps", [0.0, -30.0, float("nan"), float("inf")])
def test_an_impossible_rate_is_refused(fps):
    with pytest.raises(AlignmentError, match="fps"):
        tick_offsets(fps, 3)


def test_nearest_takes_the_closest_and_the_earlier_of_two_equals():
    raw = episode([stream("act", [100, 200, 300]), stream("arm", [90, 106, 196, 204, 260, 340])])
    assert run(raw, sampling="nearest").columns["arm"].tolist() == [[106], [196], [260]]


def test_linear_interpolates_positions_and_slerps_rotations():
    half = np.sqrt(0.5)
    poses = [[0, 0, 0, 1, 0, 0, 0], [1, 2, 4, half, 0, 0, half]]
    raw = episode([stream("act", [0, 25, 100]), stream("arm", [0, 100], poses)])
    aligned = run(raw, sampling="linear", max_age_ms=100, rotation=("arm",), fps=40.0)
    assert rel_ms(aligned) == [0, 25, 100]
    angle = np.pi / 16
    expected = [0.25, 0.5, 1.0, np.cos(angle), 0, 0, np.sin(angle)]
    np.testing.assert_allclose(aligned.columns["arm"][1], expected, atol=1e-15)
    np.testing.assert_allclose(aligned.columns["arm"][2], poses[1], atol=1e-15)


def test_linear_needs_both_neighbours_within_the_age():
    raw = episode([stream("act", range(0, 400, 10)), stream("arm", [0, 60, 100, 190, 210, 260, 400])])
    aligned = run(raw, sampling="linear", max_age_ms=45)
    # at 300 the neighbours are 40 ms before and 100 ms after
    assert rel_ms(aligned) == [0, 100, 200]
    assert aligned.counts["dropped_by_source"] == {"arm": 1}


def test_quaternion_signs_are_continuous_and_start_positive():
    q = np.array([-0.8, 0, 0, 0.6])
    poses = [np.r_[0, 0, 0, sign * q] for sign in (1, -1, 1, 1, -1)]
    raw = episode([stream("act", [0, 100, 200, 300, 400], poses)])
    aligned = run(raw, rotation=("act",))
    np.testing.assert_allclose(aligned.columns["act"][:, 3:], [-q] * 5)


@pytest.mark.parametrize("scale", [0.0, 0.5, 2.0])
def test_a_quaternion_that_is_no_rotation_is_refused_by_name(scale):
    poses = [[0, 0, 0, 1, 0, 0, 0], [0, 0, 0, scale, 0, 0, 0]]
    with pytest.raises(AlignmentError, match=rf"source act.*{START + 100 * MS}.*norm {scale:g}"):
        run(episode([stream("act", [0, 100], poses)]), rotation=("act",))


def test_a_nearly_unit_quaternion_comes_out_unit():
    aligned = run(episode([stream("act", [0], [[0, 0, 0, 0.7071, 0, 0, 0.7071]])]), rotation=("act",))
    assert np.linalg.norm(aligned.columns["act"][0, 3:]) == pytest.approx(1.0, abs=1e-15)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_values_that_are_not_finite_are_refused_by_name(bad):
    with pytest.raises(AlignmentError, match=f"source arm.*element 0 at stamp {START + 100 * MS}"):
        run(episode([stream("act", [0, 100]), stream("arm", [0, 100], [[0], [bad]])]))


def test_no_common_t0_says_when_each_stream_was_there():
    raw = episode(
        [stream("act", range(0, 400, 10)), stream("arm", range(600, 900, 10))],
        [camera("cam", [])],
        end_ms=1000,
    )
    with pytest.raises(AlignmentError) as error:
        run(raw)
    text = str(error.value)
    assert "act 0.000 to 0.390" in text
    assert "arm 0.600 to 0.890" in text
    assert "cam no samples" in text


def test_a_stream_wholly_outside_says_where_it_is():
    raw = episode([stream("act", range(0, 400, 10)), stream("arm", [5000, 5100])])
    with pytest.raises(AlignmentError, match=r"arm none inside \(stamps 5.000 to 5.100\)"):
        run(raw)


def test_a_missing_source_is_refused_by_name():
    raw = episode([stream("act", [0, 100])])
    with pytest.raises(AlignmentError, match=r"no source.*gripper"):
        align(
            raw,
            row_clock="action",
            fps=10,
            action_source="act",
            policies={"act": AlignPolicy(), "gripper": AlignPolicy()},
            camera_max_age_ns={},
            required_cameras=(),
            on_gap="drop_row",
        )


def jittered(draw, count_max, first_max_ms=60):
    gaps = draw(st.lists(st.integers(1, 90), min_size=3, max_size=count_max))
    first = draw(st.integers(0, first_max_ms))
    return (np.cumsum([first, *gaps])).tolist()


@st.composite
def episodes(draw):
    return jittered(draw, 40), jittered(draw, 40), jittered(draw, 20)


def try_run(stamps, *, start=START, **options):
    act, arm, cam = stamps
    raw = episode(
        [stream("act", act, start=start), stream("arm", arm, start=start)],
        [camera("cam", cam, start=start)],
        end_ms=1500,
        start=start,
    )
    try:
        return run(raw, **options)
    except AlignmentError as error:
        if "no tick" not in str(error):
            raise
        return None


@settings(deadline=None, max_examples=150)
@given(episodes(), st.sampled_from(["action", "grid"]), st.sampled_from([10.0, 29.97, 30.0]))
def test_laws_of_rows(stamps, clock, fps):
    aligned = try_run(stamps, clock=clock, fps=fps)
    if aligned is None:
        return
    offsets = aligned.tick_ns - aligned.t0_ns
    assert offsets[0] == 0
    assert (np.diff(offsets) > 0).all()
    counts = aligned.counts
    assert counts["slots"] == counts["rows"] + counts["gaps"] + counts["dropped"]
    edges = tick_offsets(fps, counts["slots"] + 1)
    slot = np.searchsorted(edges, offsets, side="right") - 1
    assert (np.diff(slot) > 0).all()
    assert slot[-1] < counts["slots"]
    for key in ("act", "arm"):
        age = aligned.tick_ns - aligned.samples[key].stamp_ns
        assert ((age >= 0) & (age <= 50 * MS)).all()
        shown = (aligned.samples[key].stamp_ns - START) / MS
        np.testing.assert_array_equal(aligned.columns[key][:, 0], shown)
    if clock == "action":
        assert set(aligned.tick_ns.tolist()) <= {START + t * MS for t in stamps[0]}
    else:
        assert set(offsets.tolist()) <= set(edges.tolist())
    cam = aligned.cameras["cam"]
    assert cam.trimmed_before + cam.trimmed_after + counts["frames"]["cam"]["kept"] + counts[
        "outside_episode"
    ].get("cam", 0) == len(stamps[2])


@settings(deadline=None, max_examples=100)
@given(episodes(), st.integers(-(10**17), 10**17), st.sampled_from(["hold", "nearest", "linear"]))
def test_a_shift_of_all_stamps_shifts_the_result(stamps, shift, sampling):
    here = try_run(stamps, sampling=sampling, clock="grid")
    there = try_run(stamps, sampling=sampling, clock="grid", start=START + shift)
    assert (here is None) == (there is None)
    if here is not None and there is not None:
        np.testing.assert_array_equal(here.tick_ns + shift, there.tick_ns)
        np.testing.assert_array_equal(here.columns["arm"], there.columns["arm"])
        assert here.counts == there.counts


@settings(deadline=None, max_examples=100)
@given(episodes(), st.integers(0, 1500))
def test_hold_never_looks_ahead(stamps, cut_ms):
    """Taking away every arm sample and frame after a time leaves the rows up to that time as they were."""
    act, arm, cam = stamps
    whole = try_run(stamps)
    cut = try_run((act, [t for t in arm if t <= cut_ms], [t for t in cam if t <= cut_ms]))
    if whole is None or rel_ms(whole)[0] > cut_ms:
        return
    upto = np.searchsorted(whole.tick_ns, START + cut_ms * MS, side="right")
    assert cut is not None
    np.testing.assert_array_equal(cut.tick_ns[:upto], whole.tick_ns[:upto])
    np.testing.assert_array_equal(cut.columns["arm"][:upto], whole.columns["arm"][:upto])


@settings(deadline=None, max_examples=100)
@given(episodes(), st.floats(-5, 5), st.floats(-5, 5))
def test_linear_is_exact_on_linear_values(stamps, slope, offset):
    act, arm, _ = stamps
    raw = episode([stream("act", act), stream("arm", arm, [[slope * t + offset] for t in arm])], end_ms=5000)
    try:
        aligned = run(raw, sampling="linear", max_age_ms=100)
    except AlignmentError:
        return
    at = (aligned.tick_ns - START) / MS
    np.testing.assert_allclose(aligned.columns["arm"][:, 0], slope * at + offset, rtol=1e-9, atol=1e-9)

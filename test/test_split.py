"""export --split: parts that are episodes of their own, and together the whole recording."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from dataset_cases import camera, columns, picture, rows_of, shown_frames
from export_cases import (
    bag,
    cells,
    every,
    files,
    frame_messages,
    mp4,
    rows,
    run,
    session,
    small_bag,
    sources,
    video_numbers,
    video_times,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_bags import MS, START, arm_messages, pose_stamped, quest_input

from piper_collect.config.profile import load_profile
from piper_collect.core.split import split_episode
from piper_collect.core.types import Episode
from piper_collect.pipelines.bag_episodes import ExportOptions
from piper_collect.pipelines.export import export
from piper_collect.pipelines.validate import validate_dataset

POSES = ("arm_eef", "target_eef")


def aligned(ticks_ms, frames_ms, signs):
    """An episode at these ticks, whose poses have these signs."""
    ticks = START + MS * np.array(ticks_ms, np.int64)
    frames = [picture(START + t * MS) for t in frames_ms]
    values = columns(len(ticks))
    values["arm_eef"] = values["arm_eef"] * np.hstack([np.ones((len(ticks), 3)), np.outer(signs, np.ones(4))])
    whole = replace(camera("cam", frames), first_ns=int(ticks[0]), last_ns=int(ticks[-1]) + 17 * MS)
    return Episode(
        name="pick/b",
        t0_ns=int(ticks[0]),
        tick_ns=ticks,
        columns=values,
        samples={**dict.fromkeys(values, rows_of(ticks)), "cam": shown_frames(ticks, frames)},
        cameras={"cam": whole},
        task="pick",
    )


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=20),
    st.lists(st.integers(0, 500), min_size=1, max_size=12),
    st.integers(1, 21),
    st.randoms(use_true_random=False),
)
def test_parts_are_the_whole_cut_in_pieces(steps, frames_ms, most, random):
    ticks_ms = np.cumsum(steps).tolist()
    whole = aligned(ticks_ms, sorted(frames_ms), [random.choice((-1.0, 1.0)) for _ in ticks_ms])
    parts = split_episode(whole, most, POSES)
    assert [(p.part, p.parts) for p in parts] == [(k, len(parts)) for k in range(len(parts))]
    assert len(parts) == -(-whole.length // most)
    lengths = [p.length for p in parts]
    assert max(lengths) <= most
    assert max(lengths) - min(lengths) <= 1
    np.testing.assert_array_equal(np.concatenate([p.tick_ns for p in parts]), whole.tick_ns)
    for name, values in whole.columns.items():
        together = np.concatenate([p.columns[name] for p in parts])
        np.testing.assert_array_equal(np.abs(together), np.abs(values))
        if name not in POSES:
            np.testing.assert_array_equal(together, values)
    for name, samples in whole.samples.items():
        for what in ("stamp_ns", "stale"):
            cut = np.concatenate([getattr(p.samples[name], what) for p in parts])
            np.testing.assert_array_equal(cut, getattr(samples, what))
    for p in parts:
        assert p.t0_ns == p.tick_ns[0]
        if len(parts) > 1:
            assert all(p.columns[name][0, 3] >= 0 for name in POSES)
            # within a part the sign goes on as it did
            turned = (
                p.columns["arm_eef"][:, 3] * whole.columns["arm_eef"][np.isin(whole.tick_ns, p.tick_ns), 3]
            )
            assert len(set(np.sign(turned))) == 1
    spans = [(p.cameras["cam"].first_ns, p.cameras["cam"].last_ns) for p in parts]
    assert spans[0][0] == whole.cameras["cam"].first_ns
    assert spans[-1][1] == whole.cameras["cam"].last_ns
    assert [a[1] + 1 for a in spans[:-1]] == [b[0] for b in spans[1:]]
    for what in ("trimmed_before", "trimmed_after"):
        assert sum(getattr(p.cameras["cam"], what) for p in parts) == getattr(whole.cameras["cam"], what)


def test_a_part_needs_a_row():
    with pytest.raises(ValueError, match="at least one row"):
        split_episode(aligned([0, 5], [0], [1, 1]), 0)


ROWS = 17


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    """17 rows; the measured pose turns through w = 0 in the middle, so that a later part begins below it."""
    ticks = 113
    messages = [m for m in arm_messages(ticks) if m[0] != "/arm/flange_pose"]
    for k in range(ticks):
        half = k / ticks * 2.0
        turn = [0.0, 0.0, np.sin(half), np.cos(half)]
        stamp = START + 5 * k * MS
        messages.append(("/arm/flange_pose", stamp + MS, pose_stamped(stamp, [k * 1e-3, 0.2, 0.3], turn)))
        if k % 8 == 0:
            messages.append(("/quest/input", stamp + MS, quest_input(stamp, k)))
    messages += frame_messages("cam", every(100 / 3, 1, ticks * 5))
    path = tmp_path_factory.mktemp("split") / "episode_000000"
    return bag(path, messages, session(), end_ms=ticks * 5)


@pytest.fixture(params=["train", "piper"])
def split(request, recording, tmp_path, no_sync):
    """Whole, and in parts of at most 0.2 s."""
    whole = run(recording, tmp_path / "whole", request.param, save_raw_quest=True)
    parts = run(recording, tmp_path / "parts", request.param, save_raw_quest=True, split_s=0.2)
    assert (whole.bags[0].status, parts.bags[0].status) == ("exported", "exported")
    assert parts.bags[0].episodes == (0, 1, 2)
    return tmp_path / "whole", tmp_path / "parts", request.param


def joined(pieces):
    return [item for piece in pieces for item in piece]


def test_the_parts_cover_all_rows_once(split):
    whole, parts, _ = split
    table, tables = rows(whole), [rows(parts, i) for i in range(3)]
    assert [len(t) for t in tables] == [5, 6, 6]
    assert [t["frame_index"].to_pylist() for t in tables] == [list(range(len(t))) for t in tables]
    assert joined(t["index"].to_pylist() for t in tables) == list(range(ROWS))
    for key in table.column_names:
        if key.startswith(("observation.", "action")):
            together = np.concatenate([cells(t, key) for t in tables])
            np.testing.assert_array_equal(np.abs(together), np.abs(cells(table, key)), err_msg=key)
    assert all(cells(t, "observation.arm_eef")[0, 3] >= 0 for t in tables)
    assert cells(table, "observation.arm_eef")[-1, 3] < 0
    assert validate_dataset(parts).report.ok
    t0_ns = [s["t0_ns"] for s in sources(parts)]
    assert t0_ns[0] == sources(whole)[0]["t0_ns"]
    starts = np.searchsorted(cells(table, "timestamp"), [(t - t0_ns[0] - 1) / 1e9 for t in t0_ns])
    assert starts.tolist() == [0, 5, 11]
    assert [t["timestamp"][0].as_py() for t in tables] == [0, 0, 0]


def test_each_frame_is_in_the_part_of_its_time(split):
    whole, parts, profile = split
    numbers = [video_numbers(mp4(parts, index=i)) for i in range(3)]
    assert joined(numbers) == video_numbers(mp4(whole))
    if profile == "piper":
        t0_ns = [s["t0_ns"] for s in sources(parts)]
        starts = [Fraction(t - t0_ns[0], 10**9) for t in t0_ns]
        times = joined(
            [start + t for t in video_times(mp4(parts, index=i))] for i, start in enumerate(starts)
        )
        # both are floored to ms, from origins that are apart by no whole number of them
        assert all(
            abs(a - b) < Fraction(1, 1000) for a, b in zip(times, video_times(mp4(whole)), strict=True)
        )
        assert all(video_times(mp4(parts, index=i))[0] >= 0 for i in range(3))


def test_the_headset_input_is_cut_with_the_rows(split):
    whole, parts, _ = split
    quest = "extras/episode_{:06d}.quest.jsonl".format
    pieces = [(parts / quest(i)).read_bytes() for i in range(3)]
    assert b"".join(pieces) == (whole / quest(0)).read_bytes()
    assert min(len(p.splitlines()) for p in pieces) >= 4


def test_a_second_run_changes_nothing(split, recording):
    _, parts, profile = split
    before = files(parts)
    for split_s in (0.2, None, 0.1):
        again = run(recording, parts, profile, save_raw_quest=True, split_s=split_s)
        assert (again.bags[0].status, again.bags[0].episodes) == ("held", (0, 1, 2))
    assert files(parts) == before


@pytest.mark.parametrize("profile", ["train", "piper"])
def test_a_run_stopped_between_parts_goes_on(recording, tmp_path, no_sync, profile):
    run(recording, tmp_path / "ds", profile, split_s=0.2)

    def stop(number, bags, name, fraction):
        if fraction > 0.3 + 0.7 * 6 / ROWS:
            raise KeyboardInterrupt

    options = ExportOptions(profile=load_profile(profile), split_s=0.2)
    with pytest.raises(KeyboardInterrupt):
        export([recording], tmp_path / "stopped", options, on_progress=stop)
    assert [s["part"] for s in sources(tmp_path / "stopped")] == [0]
    other = run(recording, tmp_path / "stopped", profile, split_s=0.1)
    assert "holds this bag as 3 episodes, and it would now be 6" in other.bags[0].reason
    rest = run(recording, tmp_path / "stopped", profile, split_s=0.2)
    assert (rest.bags[0].status, rest.bags[0].episodes) == ("exported", (1, 2))
    assert files(tmp_path / "stopped") == files(tmp_path / "ds")


def test_a_recording_that_is_short_enough_stays_whole(tmp_path, no_sync):
    path = small_bag(tmp_path / "b")
    run(path, tmp_path / "whole")
    run(path, tmp_path / "split", split_s=4 / 30)
    assert files(tmp_path / "whole") == files(tmp_path / "split")

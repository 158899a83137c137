"""dataset.episode_stats: lines of episodes_stats.jsonl, and the totals of a camera."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from piper_collect.core.image_stats import ImageHistogram
from piper_collect.dataset.episode_stats import (
    Entry,
    episode_stats_line,
    image_entry,
    over_episodes,
    with_episode,
)

CAMERA = "observation.images.cam_front"
PICTURES = arrays(np.uint8, st.tuples(st.integers(1, 3), st.just(3), st.just(4), st.just(3)))


def entry_of(pictures: np.ndarray) -> Entry:
    histogram = ImageHistogram.empty()
    for rgb in pictures:
        histogram = histogram.added(rgb)
    return image_entry(histogram.result())


def line() -> dict[str, Any]:
    columns = {
        "action": np.array([[0.5, 1.0], [1.5, 1.0]], np.float32),
        "frame_index": np.array([[0], [1]], np.int64),
        "next.done": np.array([[False], [True]]),
        "source_timestamp.cam_front": np.array([[-0.25], [0.25]]),
    }
    histogram = ImageHistogram.empty().added(np.full((2, 2, 3), (0, 51, 255), np.uint8))
    return episode_stats_line(7, columns, {CAMERA: histogram.result()})


def test_line_of_an_episode() -> None:
    got = line()
    assert list(got) == ["episode_index", "stats"]
    assert got["episode_index"] == 7
    stats = got["stats"]
    assert list(stats) == ["action", "frame_index", "next.done", "source_timestamp.cam_front", CAMERA]
    assert stats["action"] == {
        "mean": [1.0, 1.0],
        "std": [0.5, 0.0],
        "min": [0.5, 1.0],
        "max": [1.5, 1.0],
        "q01": [pytest.approx(0.51), 1.0],
        "q99": [pytest.approx(1.49), 1.0],
        "count": [2],
    }
    assert stats["source_timestamp.cam_front"]["min"] == [-0.25]
    colour = [[[0.0]], [[0.2]], [[1.0]]]
    assert stats[CAMERA] == {
        "mean": colour,
        "std": [[[0.0]], [[0.0]], [[0.0]]],
        "min": colour,
        "max": colour,
        "q01": colour,
        "q99": colour,
        "count": [1],
    }


def test_whole_numbers_and_flags_are_whole_in_json() -> None:
    stats = json.loads(json.dumps(line(), allow_nan=False))["stats"]
    for key in ("frame_index", "next.done"):
        entry = stats[key]
        assert (entry["min"], entry["max"], entry["mean"], entry["std"]) == ([0], [1], [0.5], [0.5])
        assert [type(entry[name][0]) for name in ("min", "max", "mean", "q01")] == [int, int, float, float]


def test_large_whole_numbers_are_not_rounded() -> None:
    top = 2**62 + 1
    entry = episode_stats_line(0, {"x": np.array([[top], [-top]])}, {})["stats"]["x"]
    assert (entry["min"], entry["max"]) == ([-top], [top])


def test_values_that_are_not_finite_are_refused() -> None:
    with pytest.raises(ValueError, match=r"column action: .*not finite.*row 1"):
        episode_stats_line(0, {"action": np.array([[0.0], [np.inf]])}, {})


@settings(deadline=None, max_examples=30)
@given(st.lists(PICTURES, min_size=1, max_size=5))
def test_totals_of_a_camera_are_those_of_all_frames(episodes: list[np.ndarray]) -> None:
    total = over_episodes([entry_of(pictures) for pictures in episodes])
    together = entry_of(np.concatenate(episodes))
    assert total is not None
    assert list(total) == ["mean", "std", "min", "max", "count"]
    for name in ("min", "max", "count"):
        assert total[name] == together[name]
    for name in ("mean", "std"):
        np.testing.assert_allclose(total[name], together[name], rtol=1e-12, atol=1e-12)
    assert np.shape(total["mean"]) == (3, 1, 1)


@settings(deadline=None, max_examples=20)
@given(st.lists(PICTURES, min_size=2, max_size=5))
def test_totals_that_were_kept_in_json_go_on_to_the_bit(episodes: list[np.ndarray]) -> None:
    entries = [entry_of(pictures) for pictures in episodes]
    kept: Entry | None = None
    for entry in entries:
        kept = json.loads(json.dumps(with_episode(kept, entry)))
    assert kept == over_episodes(entries)


def test_no_episodes_have_no_totals_and_one_has_its_own() -> None:
    assert over_episodes([]) is None
    entry = entry_of(np.full((2, 3, 4, 3), (9, 99, 199), np.uint8))
    assert over_episodes([entry]) == {k: v for k, v in entry.items() if k not in ("q01", "q99")}


def test_totals_need_entries_of_a_camera() -> None:
    with pytest.raises(ValueError, match=r"\(3, 1, 1\), not \(2,\)"):
        over_episodes([line()["stats"]["action"]])

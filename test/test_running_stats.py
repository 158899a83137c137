"""core.running_stats: statistics of a growing dataset are those of all its rows."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from piper_collect.core.moments import Moments, merged
from piper_collect.core.running_stats import RunningStats
from piper_collect.core.stats import ColumnStats, column_stats
from piper_collect.core.stats_codec import from_bytes, to_bytes

Column = np.ndarray
STATISTICS = ("mean", "std", "min", "max", "q01", "q99")
FLOAT32 = st.floats(-1e6, 1e6, width=32)
FEW = st.sampled_from([-2.5, -0.0, 0.0, 1.0, 7.25])
EPISODE = arrays(np.float32, st.tuples(st.integers(1, 30), st.just(2)), elements=FLOAT32 | FEW)
EPISODES = st.lists(EPISODE, min_size=1, max_size=8)


def grown(episodes: Sequence[Column]) -> RunningStats:
    stats = RunningStats()
    for values in episodes:
        stats = stats.added({"x": values})
    return stats


def rebuilt(episodes: Sequence[Column]) -> RunningStats:
    return RunningStats.of(({"x": v} for v in episodes), rows=sum(map(len, episodes)))


def assert_is_of(stats: ColumnStats, values: Column) -> None:
    whole = column_stats(values)
    scale = np.abs(values.astype(np.float64)).max() or 1.0
    for name in ("min", "max", "q01", "q99"):
        np.testing.assert_array_equal(getattr(stats, name), getattr(whole, name), err_msg=name)
    np.testing.assert_allclose(stats.mean, whole.mean, rtol=1e-12, atol=1e-12 * scale)
    np.testing.assert_allclose(stats.std, whole.std, rtol=1e-12, atol=1e-12 * scale)
    assert stats.count == len(values)
    assert np.all(stats.min <= stats.mean)
    assert np.all(stats.mean <= stats.max)


def bits(stats: RunningStats) -> list[bytes]:
    return [getattr(column, name).tobytes() for column in stats.result().values() for name in STATISTICS]


@settings(deadline=None, max_examples=60)
@given(EPISODES)
def test_equals_the_statistics_of_all_rows(episodes: list[Column]) -> None:
    assert_is_of(grown(episodes).result()["x"], np.concatenate(episodes))


def walk(rows: int, seed: int) -> Column:
    steps = np.random.default_rng(seed).normal(size=(rows, 2))
    return np.cumsum(steps, axis=0).astype(np.float32)


def saturated(rows: int, seed: int) -> Column:
    return np.clip(np.random.default_rng(seed).normal(size=(rows, 2)), -1.5, 0.5).astype(np.float32)


LONG = {
    "no order": lambda: np.random.default_rng(0).normal(size=(12_000, 2)).astype(np.float32),
    "random walk": lambda: walk(12_000, 1),
    "saturated": lambda: saturated(12_000, 2),
    "constant": lambda: np.full((12_000, 2), np.float32(0.1)),
    "rising": lambda: np.arange(24_000, dtype=np.int64).reshape(-1, 2),
    "falling": lambda: -np.arange(24_000, dtype=np.int64).reshape(-1, 2),
    "outward": lambda: np.arange(24_000.0).reshape(-1, 2) * np.array([[1], [-1]] * 6000),
    "zeros of both signs": lambda: np.tile(np.array([[0.0, -0.0], [-0.0, 0.0]], np.float32), (6_000, 1)),
    "one in fifty": lambda: np.arange(24_000).reshape(-1, 2) % 50 == 0,
    "doubles": lambda: np.random.default_rng(3).normal(size=(12_000, 2)) * 1e-200,
}


@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize("length", [7, 450, 5_000])
def test_long_columns_stay_exact_while_they_grow(name: str, length: int) -> None:
    values = LONG[name]()
    episodes = [values[i : i + length] for i in range(0, len(values), length)]
    stats = RunningStats()
    looked_at = 0
    for number, episode in enumerate(episodes):
        stats = stats.added({"x": episode})
        if stats.needs_rebuild:
            stats = rebuilt(episodes[: number + 1])
        if number == len(episodes) - 1 or number % (len(episodes) // 5 + 1) == 0:
            assert_is_of(stats.result()["x"], values[: stats.rows])
            looked_at += 1
    assert looked_at >= min(3, len(episodes))
    assert bits(stats) == bits(rebuilt(episodes))


def test_zeros_come_out_positive() -> None:
    stats = grown([np.array([[-0.0], [0.0]]), np.array([[0.0], [-0.0], [-0.0]])]).result()["x"]
    assert not any(np.signbit(getattr(stats, name)[0]) for name in STATISTICS)


def test_constants_are_exact() -> None:
    value = float(np.float32(0.1))
    stats = grown([np.full((n, 1), value, np.float32) for n in (1, 7, 1000, 3)]).result()["x"]
    assert [getattr(stats, name)[0] for name in STATISTICS] == [value, 0.0, value, value, value, value]


@settings(deadline=None, max_examples=30)
@given(EPISODES)
def test_the_way_there_leaves_no_trace(episodes: list[Column]) -> None:
    one_run = grown(episodes)
    many_runs = RunningStats()
    for values in episodes:
        many_runs = from_bytes(to_bytes(many_runs.added({"x": values})))
    assert to_bytes(many_runs) == to_bytes(one_run)
    assert bits(many_runs) == bits(one_run) == bits(rebuilt(episodes))


@pytest.mark.parametrize("sign", [1, -1])
def test_a_drift_needs_a_rebuild_after_the_doubling_not_before(sign: int) -> None:
    rows = 60_000
    values = sign * np.arange(3 * rows, dtype=np.float64)[:, None]
    kept = rebuilt([values[:rows]])
    doubled = kept.added({"x": values[rows : 2 * rows]})
    assert not doubled.needs_rebuild
    assert_is_of(doubled.result()["x"], values[: 2 * rows])
    over = doubled.added({"x": values[2 * rows : 2 * rows + 300]})
    assert over.needs_rebuild
    with pytest.raises(ValueError, match="read all episodes again"):
        over.result()
    again = rebuilt([values[:rows], values[rows : 2 * rows], values[2 * rows : 2 * rows + 300]])
    assert_is_of(again.result()["x"], values[: 2 * rows + 300])


def test_a_rebuild_keeps_no_more_than_the_ends() -> None:
    values = np.random.default_rng(6).normal(size=(100_000, 1)).astype(np.float32)
    stats = rebuilt([values[i : i + 2_000] for i in range(0, len(values), 2_000)])
    assert len(to_bytes(stats)) < 0.06 * values.nbytes


def test_several_columns_of_any_number_type_and_an_episode_that_is_refused() -> None:
    rng = np.random.default_rng(7)
    episodes = [
        {
            "pose": rng.normal(size=(n, 3)).astype(np.float32),
            "index": np.arange(10 * n, 11 * n, dtype=np.int64)[:, None],
            "done": (np.arange(n) == n - 1)[:, None],
            "stamp": rng.normal(size=(n, 1)),
        }
        for n in (5, 1, 9)
    ]
    stats = RunningStats()
    for columns in episodes:
        stats = stats.added(columns)
    before = to_bytes(stats)
    with pytest.raises(ValueError, match=r"column stamp: 1 values are not finite.*row 2"):
        stats.added({**episodes[0], "stamp": np.array([[0.0], [1.0], [np.nan], [0.0], [0.0]])})
    assert to_bytes(stats) == before
    assert (stats.episodes, stats.rows) == (3, 15)
    result = stats.result()
    assert list(result) == ["pose", "index", "done", "stamp"]
    for key, column in result.items():
        assert_is_of(column, np.concatenate([episode[key] for episode in episodes]))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"x": np.zeros((3, 2)), "y": np.zeros((3, 1))}, "columns x, y, not x"),
        ({"y": np.zeros((3, 2))}, "columns y, not x"),
        ({}, "columns none, not x"),
        ({"x": np.zeros((3, 1))}, "column x: 1 elements, not 2"),
        ({"x": np.zeros((0, 2))}, "column x: .*at least 1"),
        ({"x": np.zeros(3)}, "column x: .*at least 1"),
    ],
)
def test_other_columns_are_refused(columns: dict[str, Column], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        grown([np.zeros((4, 2))]).added(columns)


def test_columns_of_one_episode_have_the_same_rows() -> None:
    with pytest.raises(ValueError, match="column y: 2 rows, not 3"):
        RunningStats().added({"x": np.zeros((3, 1)), "y": np.zeros((2, 1))})


def test_no_rows_have_no_statistics_and_the_number_of_rows_is_checked() -> None:
    with pytest.raises(ValueError, match="no rows"):
        RunningStats().result()
    with pytest.raises(ValueError, match="have 4 rows, not 5"):
        RunningStats.of([{"x": np.zeros((4, 1))}], rows=5)


@settings(deadline=None, max_examples=40)
@given(EPISODES)
def test_moments_merge_to_those_of_the_concatenation(episodes: list[Column]) -> None:
    total = Moments.of(episodes[0])
    for values in episodes[1:]:
        total = merged(total, Moments.of(values))
    whole = Moments.of(np.concatenate(episodes))
    scale = float(np.abs(np.concatenate(episodes)).max()) or 1.0
    assert total.count == whole.count
    np.testing.assert_allclose(total.mean, whole.mean, rtol=1e-12, atol=1e-12 * scale)
    np.testing.assert_allclose(total.std, whole.std, rtol=1e-12, atol=1e-12 * scale)
    np.testing.assert_array_equal(total.min, whole.min)
    np.testing.assert_array_equal(total.max, whole.max)


def saved() -> bytes:
    return to_bytes(grown([walk(50, 1), walk(2_000, 2), walk(300, 3)]))


def test_saved_statistics_go_on_as_if_never_saved() -> None:
    kept, again = grown([walk(50, 1), walk(2_000, 2), walk(300, 3)]), from_bytes(saved())
    for seed in (4, 5):
        assert bits(again) == bits(kept)
        kept, again = (stats.added({"x": walk(900, seed)}) for stats in (kept, again))
        assert to_bytes(again) == to_bytes(kept)
    assert bits(again) == bits(kept)


def test_bytes_hold_everything_even_what_float32_cannot() -> None:
    values = np.array([[0.1, 1e100, 2.0**53, -0.0], [math.pi, -1e-320, 3.0, 5.0]])
    stats = grown([values])
    again = from_bytes(to_bytes(stats))
    assert bits(again) == bits(stats)
    assert (again.episodes, again.rows) == (1, 2)


def test_damaged_and_foreign_bytes_are_refused() -> None:
    content = saved()
    for place in (60, 100, len(content) // 2, len(content) - 1):
        damaged = bytearray(content)
        damaged[place] ^= 1
        with pytest.raises(ValueError, match="damaged"):
            from_bytes(bytes(damaged))
    for cut in (content[:-1], content[:60], content + b"\0"):
        with pytest.raises(ValueError, match="damaged"):
            from_bytes(cut)
    for foreign in (b"", b"PAR1", content.replace(b"version 1", b"version 2")):
        with pytest.raises(ValueError, match="not running statistics of this version"):
            from_bytes(foreign)


def test_bytes_are_the_same_each_time() -> None:
    assert saved() == saved()

"""core.image_stats: exact statistics of pictures, and the frames and pixels that LeRobot looks at."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from piper_collect.core.image_stats import ImageHistogram, sample_rows, thin
from piper_collect.core.stats import column_stats

PICTURES = arrays(
    np.uint8, st.tuples(st.integers(1, 4), st.integers(1, 6), st.integers(1, 6), st.just(3))
)  # frames, height, width, channels


def counted(pictures: np.ndarray) -> ImageHistogram:
    histogram = ImageHistogram.empty()
    for rgb in pictures:
        histogram = histogram.added(rgb)
    return histogram


def test_known_picture() -> None:
    rgb = np.array([[[0, 255, 10], [255, 255, 10]], [[0, 255, 20], [255, 0, 20]]], np.uint8)
    stats = counted(rgb[None]).result()
    np.testing.assert_allclose(stats.mean, [0.5, 0.75, 15 / 255], rtol=1e-15)
    np.testing.assert_allclose(stats.std, [0.5, np.sqrt(3) / 4, 5 / 255], rtol=1e-15)
    assert stats.min.tolist() == [0.0, 0.0, 10 / 255]
    assert stats.max.tolist() == [1.0, 1.0, 20 / 255]
    np.testing.assert_allclose(stats.q01, [0.0, 0.03, 10 / 255], rtol=1e-13)
    np.testing.assert_allclose(stats.q99, [1.0, 1.0, 20 / 255], rtol=1e-13)
    assert stats.frames == 1


def test_one_colour_is_exact() -> None:
    stats = counted(np.full((5, 7, 9, 3), (37, 0, 255), np.uint8)).result()
    colour = [37 / 255, 0.0, 1.0]
    for name in ("mean", "min", "max", "q01", "q99"):
        assert getattr(stats, name).tolist() == colour, name
    assert stats.std.tolist() == [0.0, 0.0, 0.0]
    assert stats.frames == 5


@settings(deadline=None, max_examples=50)
@given(PICTURES)
def test_equals_the_statistics_of_all_pixels(pictures: np.ndarray) -> None:
    stats = counted(pictures).result()
    pixels = column_stats(pictures.reshape(-1, 3) / 255)
    for name in ("min", "max", "q01", "q99"):
        np.testing.assert_array_equal(getattr(stats, name), getattr(pixels, name), err_msg=name)
    np.testing.assert_allclose(stats.mean, pixels.mean, rtol=1e-13)
    np.testing.assert_allclose(stats.std, pixels.std, rtol=1e-12, atol=1e-15)
    assert stats.frames == len(pictures)


@settings(deadline=None, max_examples=20)
@given(PICTURES, st.integers(0, 4))
def test_merged_is_counted_together(pictures: np.ndarray, cut: int) -> None:
    parts = counted(pictures[:cut]).merged(counted(pictures[cut:]))
    np.testing.assert_array_equal(parts.counts, counted(pictures).counts)
    assert parts.frames == len(pictures)


def test_a_million_pixels_lose_nothing() -> None:
    half = np.full((1000, 500, 3), 254, np.uint8)
    stats = counted(np.stack([np.hstack([half, half + 1])])).result()
    assert stats.std.tolist() == [0.5 / 255] * 3
    np.testing.assert_allclose(stats.mean, 254.5 / 255, rtol=1e-15)


@pytest.mark.parametrize(
    "rgb",
    [
        np.zeros((2, 2, 3)),
        np.zeros((2, 2), np.uint8),
        np.zeros((2, 2, 4), np.uint8),
        np.zeros((3, 2, 2), np.uint8),
        np.zeros((0, 2, 3), np.uint8),
    ],
)
def test_what_is_no_picture_is_refused(rgb: np.ndarray) -> None:
    with pytest.raises(ValueError, match="a picture is uint8"):
        ImageHistogram.empty().added(rgb)


def test_no_pictures_have_no_statistics() -> None:
    with pytest.raises(ValueError, match="no pictures"):
        ImageHistogram.empty().result()


@pytest.mark.parametrize(
    ("length", "samples"),
    [
        (1, 1),
        (2, 2),
        (99, 99),
        (100, 100),
        (464, 100),
        (500, 105),
        (1000, 177),
        (10_000, 1000),
        (300_000, 10_000),
    ],
)
def test_number_of_sampled_rows(length: int, samples: int) -> None:
    rows = sample_rows(length)
    assert (rows.size, rows.dtype) == (samples, np.int64)
    assert (rows[0], rows[-1]) == (0, length - 1)
    assert np.all(np.diff(rows) > 0)


def test_sampled_rows_lie_evenly() -> None:
    assert sample_rows(199).tolist() == list(range(0, 199, 2))
    assert sample_rows(3).tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="at least 1 row"):
        sample_rows(0)


@pytest.mark.parametrize(
    ("size", "stride"),
    [((48, 64), 1), ((299, 299), 1), ((300, 200), 2), ((480, 640), 4), ((640, 480), 4), ((1080, 1920), 12)],
)
def test_large_pictures_are_thinned(size: tuple[int, int], stride: int) -> None:
    rgb = np.zeros((*size, 3), np.uint8)
    rgb[::stride, ::stride] = 1
    seen = thin(rgb)
    assert seen.shape == (-(-size[0] // stride), -(-size[1] // stride), 3)
    assert seen.all()

"""The shift between two pictures: found to half a pixel, and not made up where it cannot be told."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import ndimage

from piper_collect.core.picture_shift import estimate_shift, mean_difference

ROWS, COLUMNS, MARGIN = 120, 160, 48
NEAR_PX = 0.5


def texture(seed: int, blur_px: float) -> NDArray[np.float64]:
    """Random blobs of about ``blur_px``, more of them than a picture shows."""
    noise = np.random.default_rng(seed).normal(size=(ROWS + 2 * MARGIN, COLUMNS + 2 * MARGIN))
    blobs = ndimage.gaussian_filter(noise, blur_px)
    return (blobs - blobs.mean()) / blobs.std()


def seen(
    world: NDArray[np.float64], down: float, right: float, *, light: float = 128.0, noise: int = 0
) -> NDArray[np.uint8]:
    """What a camera sees of it whose picture has moved; something new comes in at the edges."""
    moved = ndimage.shift(world, (down, right), order=3, mode="mirror")
    picture = 30.0 * moved[MARGIN : MARGIN + ROWS, MARGIN : MARGIN + COLUMNS] + light
    picture += np.random.default_rng(noise).normal(size=picture.shape)
    return np.clip(np.rint(picture), 0, 255).astype(np.uint8)


def noise_only(seed: int) -> NDArray[np.uint8]:
    return np.clip(np.random.default_rng(seed).normal(90, 4, (ROWS, COLUMNS)), 0, 255).astype(np.uint8)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 1000),
    blur_px=st.sampled_from([1.0, 2.0, 4.0]),
    down=st.floats(-20, 20),
    right=st.floats(-20, 20),
)
def test_a_known_shift_is_found(seed: int, blur_px: float, down: float, right: float) -> None:
    world = texture(seed, blur_px)
    found = estimate_shift(seen(world, 0, 0, noise=1), seen(world, down, right, noise=2))
    assert found is not None
    assert abs(found.down_px - down) < NEAR_PX
    assert abs(found.right_px - right) < NEAR_PX


def test_right_and_down_are_those_of_the_second_picture() -> None:
    picture = seen(texture(1, 2.0), 0, 0)
    found = estimate_shift(picture[4:, 9:], picture[:-4, :-9])
    assert found is not None
    assert (round(found.right_px), round(found.down_px)) == (9, 4)


def test_the_same_picture_has_not_moved() -> None:
    picture = seen(texture(1, 2.0), 0, 0)
    found = estimate_shift(picture, picture)
    assert found is not None
    assert (abs(found.right_px), abs(found.down_px)) == (
        pytest.approx(0, abs=0.01),
        pytest.approx(0, abs=0.01),
    )
    assert mean_difference(picture, picture) == 0.0


def test_light_and_a_thing_that_moved_do_not_mislead_it() -> None:
    world = texture(5, 2.0)
    picture = seen(world, 3.0, -6.0, light=150.0)
    picture[30:60, 40:80] = 20
    found = estimate_shift(seen(world, 0, 0), picture)
    assert found is not None
    assert abs(found.down_px - 3.0) < NEAR_PX
    assert abs(found.right_px + 6.0) < NEAR_PX


@pytest.mark.parametrize(
    ("what", "reference", "picture"),
    [
        ("flat", np.full((ROWS, COLUMNS), 90, np.uint8), np.full((ROWS, COLUMNS), 90, np.uint8)),
        ("noise", noise_only(1), noise_only(2)),
        ("another scene", seen(texture(1, 2.0), 0, 0), seen(texture(2, 2.0), 0, 0)),
        ("a dark lens", seen(texture(1, 2.0), 0, 0), np.zeros((ROWS, COLUMNS), np.uint8)),
        ("tiny", seen(texture(1, 2.0), 0, 0)[:20, :20], seen(texture(1, 2.0), 0, 0)[:20, :20]),
        ("too far", seen(texture(1, 2.0), 0, -24), seen(texture(1, 2.0), 0, 24)),
    ],
)
def test_it_says_when_it_cannot_tell(
    what: str, reference: NDArray[np.uint8], picture: NDArray[np.uint8]
) -> None:
    assert estimate_shift(reference, picture) is None, what


@pytest.mark.parametrize("step", [0, 5])
def test_stripes_slide_along_themselves_unseen(step: int) -> None:
    stripes = np.tile((np.arange(COLUMNS) // 16 % 2 * 200).astype(np.uint8), (ROWS, 1))
    assert estimate_shift(stripes, np.roll(stripes, step, axis=1)) is None


def test_a_grid_looks_the_same_one_step_on() -> None:
    down, right = np.mgrid[:ROWS, :COLUMNS]
    grid = ((down // 8 + right // 8) % 2 * 180).astype(np.uint8)
    assert estimate_shift(grid, np.roll(grid, 7, axis=1)) is None


def test_pictures_of_two_shapes_are_no_pair() -> None:
    with pytest.raises(ValueError, match="differ in shape"):
        estimate_shift(np.zeros((40, 40), np.uint8), np.zeros((40, 50), np.uint8))


def test_the_mean_difference_counts_grey_levels_either_way() -> None:
    a = np.array([[0, 255], [10, 10]], np.uint8)
    b = np.array([[255, 0], [12, 8]], np.uint8)
    assert mean_difference(a, b) == mean_difference(b, a) == (255 + 255 + 2 + 2) / 4

"""What is noticed of a camera while it is recorded: by times and sizes, and of real messages."""

import numpy as np
import pytest
from sample_bags import jpeg_image, raw_image, store

from piper_collect.bag.definitions import Definitions
from piper_collect.bag.live_pictures import LivePictures
from piper_collect.core.picture_watch import DARK_NS, FROZEN_NS, LOOK_NS, PictureWatch
from piper_collect.core.topics import TopicMonitor, incomplete_reasons

SECOND = 1_000_000_000
PERIOD_NS = 33_000_000
START_NS = 100 * SECOND
VGA = "640x480 rgb8"


def fed(watch, seconds, *, start_ns=START_NS, same=False, form=VGA, luma=90.0, contrast=30.0):
    """Pictures at 30 Hz; the time after them."""
    at_ns = start_ns
    while at_ns < start_ns + seconds * SECOND:
        watch.take(at_ns, form=form, same=same)
        if watch.look_due(at_ns):
            watch.look(at_ns, luma=luma, contrast=contrast)
        at_ns += PERIOD_NS
    return at_ns


@pytest.fixture
def watch():
    watch = PictureWatch()
    watch.begin_episode(START_NS)
    return watch


def test_live_pictures_are_fine(watch):
    fed(watch, 5)
    assert (watch.reason, watch.flaws) == ("", [])


def test_a_frozen_picture_is_told_while_it_lasts_and_of_the_episode_after_that(watch):
    at_ns = fed(watch, 1)
    at_ns = fed(watch, 0.9, start_ns=at_ns, same=True)
    assert (watch.reason, watch.flaws) == ("", [])  # a stutter
    at_ns = fed(watch, 2, start_ns=at_ns, same=True)
    assert watch.reason == watch.flaws[0] == "its picture is frozen for 2.9 s"
    at_ns = fed(watch, 1, start_ns=at_ns)
    at_ns = fed(watch, 1.5, start_ns=at_ns, same=True)
    fed(watch, 1, start_ns=at_ns)
    assert (watch.reason, watch.flaws) == ("", ["its picture is frozen for 2.9 s"])
    watch.begin_episode(START_NS + 100 * SECOND)
    assert watch.flaws == []


def test_what_was_frozen_before_the_episode_counts_from_its_start(watch):
    at_ns = fed(watch, 5, same=True)
    watch.begin_episode(at_ns)
    assert (watch.reason, watch.flaws) == ("", [])
    fed(watch, 2, start_ns=at_ns, same=True)
    assert watch.flaws == ["its picture is frozen for 2.0 s"]


def test_a_slow_camera_is_not_frozen_by_one_picture_twice(watch):
    for second, same in enumerate((False, True, True, False)):
        watch.take(START_NS + second * SECOND, form=VGA, same=same)
    assert watch.flaws == []
    for second in (4, 5, 6):
        watch.take(START_NS + second * SECOND, form=VGA, same=True)
    assert watch.flaws == ["its picture is frozen for 3.0 s"]


def test_a_camera_that_goes_black(watch):
    at_ns = fed(watch, 1)
    at_ns = fed(watch, DARK_NS / SECOND, start_ns=at_ns, luma=3.0, contrast=0.5)
    assert watch.flaws == []
    at_ns = fed(watch, 2, start_ns=at_ns, luma=3.0, contrast=0.5)
    assert watch.reason.startswith("its pictures are black for ")
    seconds = float(watch.reason.split()[-2])
    assert 3.0 - 2 * LOOK_NS / SECOND <= seconds <= 3.0
    fed(watch, 1, start_ns=at_ns)
    assert watch.reason == ""
    (flaw,) = watch.flaws
    assert flaw.startswith("its pictures are black for ")


@pytest.mark.parametrize(("luma", "contrast"), [(3.0, 8.0), (90.0, 0.5)])
def test_a_dark_scene_and_a_bright_wall_are_not_black(watch, luma, contrast):
    fed(watch, 5, luma=luma, contrast=contrast)
    assert (watch.reason, watch.flaws) == ("", [])


def test_another_resolution_in_the_episode_is_told_and_one_before_it_is_not(watch):
    at_ns = fed(watch, 1)
    at_ns = fed(watch, 1, start_ns=at_ns, form="320x240 rgb8")
    assert watch.flaws == ["its pictures changed from 640x480 rgb8 to 320x240 rgb8"]
    watch.begin_episode(at_ns)
    fed(watch, 1, start_ns=at_ns)
    assert watch.flaws == []


def test_no_episode_starts_with_a_frozen_picture_and_one_that_held_it_is_incomplete():
    monitor = TopicMonitor(name="/cam", required=True, publishers=("/cam",), pictures=PictureWatch())
    monitor.begin_episode(START_NS)
    fed(monitor.pictures, 3, same=True)
    for sequence, at_ns in enumerate(range(START_NS, START_NS + 3 * SECOND, PERIOD_NS), 1):
        monitor.receive(receive_ns=at_ns, stamp_ns=at_ns, sequence=sequence)
    monitor.messages = 90
    end_ns = START_NS + 3 * SECOND
    assert monitor.reason(end_ns, SECOND) == "its picture is frozen for 3.0 s"
    said = incomplete_reasons([monitor], 0, end_ns=end_ns, fresh_ns=SECOND)
    assert said == ["/cam: its picture is frozen for 3.0 s"]


# -- real messages ---------------------------------------------------------------------------------


def rgb(level, size=(48, 64), seed=1):
    noise = np.random.default_rng(seed).integers(0, 40, (*size, 3))
    return np.clip(level + noise * (level > 0), 0, 255).astype(np.uint8)


MAKERS = {"sensor_msgs/msg/Image": raw_image, "sensor_msgs/msg/CompressedImage": jpeg_image}


@pytest.mark.parametrize("kind", MAKERS)
def test_real_messages_are_told_apart(kind, tally):
    watch = PictureWatch()
    watch.begin_episode(START_NS)
    live, codec = LivePictures("/cam", watch), Definitions().codec(kind)
    at_ns = START_NS

    def show(pictures):
        nonlocal at_ns
        for pixels in pictures:
            message = MAKERS[kind](at_ns, pixels)
            live.take(codec, bytes(store().serialize_cdr(message, kind)), at_ns)
            at_ns += 100_000_000

    show(rgb(90, seed=k) for k in range(20))
    assert (watch.reason, watch.flaws) == ("", [])
    show([rgb(90)] * 20)
    assert watch.reason == "its picture is frozen for 1.9 s"
    show(rgb(90, seed=k) for k in range(2, 5))
    assert watch.reason == ""
    show(rgb(0) for _ in range(30))
    assert watch.reason.startswith("its pictures are black for 2.")
    show([rgb(90, (24, 32), seed=k) for k in range(20)])
    assert watch.reason == ""
    assert len(watch.flaws) == 3
    assert "64x48" in watch.flaws[2]
    assert "to 32x24" in watch.flaws[2]
    tally("flaws of pictures told", len(watch.flaws))
    live.take(codec, b"\0\1\0\0" + bytes(9), at_ns)  # no image: told by others
    assert len(watch.flaws) == 3


def test_a_stutter_shorter_than_the_limit_is_none():
    watch = PictureWatch()
    watch.begin_episode(START_NS)
    for k in range(1000):
        watch.take(START_NS + k * PERIOD_NS, form=VGA, same=k % 20 > 0)
    assert 19 * PERIOD_NS < FROZEN_NS
    assert watch.flaws == []

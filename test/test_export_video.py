"""Cameras that send H.264: packets taken over where they are what was asked for, else encoded anew."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from export_cases import lines, mp4, rows, run, small_bag, sources, video_numbers, video_times
from sample_bags import START, picture
from video_cases import PERIOD_MS, SIZE, decoded, encoded, pictures, video_bag, video_planes

from piper_collect.bag.episode import read_episode
from piper_collect.bag.reader import open_bag
from piper_collect.bag.sidecar import choose_config, read_record
from piper_collect.config.profile import load_profile
from piper_collect.imaging.frames import video_frame_to_rgb
from piper_collect.pipelines.validate import validate_dataset
from piper_collect.pipelines.validate_bag import validate_bag

pytestmark = pytest.mark.usefixtures("no_sync")

FRAMES = 20
EVERY_FIFTH = range(0, FRAMES, 5)


def source_of(root: Path) -> str:
    return sources(root)[0]["cameras"]["cam"]["video"]


def note_of(summary) -> str:
    (note,) = [n for n in summary.bags[0].notes if "its H.264 is" in n]
    return note


@pytest.mark.parametrize("transport", ["ffmpeg", "foxglove"])
def test_rows_that_show_each_frame_once_take_the_packets_over(tmp_path: Path, transport: str) -> None:
    packets = encoded(pictures(FRAMES), keys=EVERY_FIFTH)
    summary = run(video_bag(tmp_path / "bag", packets, transport), tmp_path / "ds", "train")
    assert (summary.bags[0].status, summary.bags[0].rows) == ("exported", FRAMES)
    assert note_of(summary) == "cam: its H.264 is taken over as it is"
    assert source_of(tmp_path / "ds") == "copied"
    video = mp4(tmp_path / "ds")
    assert video_times(video) == [Fraction(k, 30) for k in range(FRAMES)]
    for got, wanted in zip(video_planes(video), decoded(p for _, p in packets), strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_true_capture_times_take_the_packets_over(tmp_path: Path) -> None:
    packets = encoded(pictures(FRAMES), keys=(0, 1, 8, 15))  # T0 is after the first frame
    summary = run(video_bag(tmp_path / "bag", packets), tmp_path / "ds", "piper")
    assert note_of(summary) == "cam: its H.264 is taken over as it is"
    video = mp4(tmp_path / "ds")
    stamps = [START + round((1 + k * PERIOD_MS) * 1e6) for k in range(1, FRAMES)]
    t0_ns = sources(tmp_path / "ds")[0]["t0_ns"]
    assert video_times(video) == [Fraction((s - t0_ns) // 1_000_000, 1000) for s in stamps]
    for got, wanted in zip(video_planes(video), decoded(p for _, p in packets)[1:], strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_what_is_copied_and_what_is_encoded_anew_are_sound_datasets(tmp_path: Path) -> None:
    for name, keys in (("copied", range(0, FRAMES, 5)), ("anew", (0, 11))):
        bag = video_bag(tmp_path / name, encoded(pictures(FRAMES), keys=keys))
        for profile in ("train", "piper"):
            root = tmp_path / f"{name}_{profile}"
            run(bag, root, profile)
            report = validate_dataset(root).report
            assert [f for f in report.findings if f.level == "error"] == []
        report = validate_bag(tmp_path / name, profile=load_profile("train"))
        assert [f for f in report.findings if f.level == "error"] == []
    copied, anew = (lines(tmp_path / f"{n}_train/meta/episodes_stats.jsonl")[0] for n in ("copied", "anew"))
    key = "observation.images.cam"
    np.testing.assert_allclose(copied["stats"][key]["mean"], anew["stats"][key]["mean"], atol=0.01)
    assert rows(tmp_path / "copied_train") == rows(tmp_path / "anew_train")


WRONG = {
    "it has B-frames": {"b_frames": 2, "keys": (0, 7, 14)},
    "the first frame is no key frame": {"keys": (0, 7, 14)},
    "its key frames are up to 40 frames apart": {"keys": (0, 1)},
    "its values span the full range": {"keys": (0, 1, 9), "full_range": True, "pix_fmt": "yuvj420p"},
}


@pytest.mark.parametrize("reason", WRONG)
def test_true_capture_times_of_other_streams_are_encoded_anew(tmp_path: Path, reason: str) -> None:
    frames = 41 if "apart" in reason else FRAMES
    images = pictures(frames)
    bag = video_bag(tmp_path / "bag", encoded(images, **WRONG[reason]), frames=frames)
    summary = run(bag, tmp_path / "ds", "piper")
    assert f"cam: its H.264 is encoded anew: {reason}" in note_of(summary)
    assert reason in source_of(tmp_path / "ds")
    assert video_numbers(mp4(tmp_path / "ds")) == [k % 30 for k in range(1, frames)]
    assert len(video_times(mp4(tmp_path / "ds"))) == frames - 1


def test_rows_that_repeat_or_skip_frames_are_encoded_anew(tmp_path: Path) -> None:
    packets = encoded(pictures(FRAMES), keys=EVERY_FIFTH)
    slow = video_bag(tmp_path / "slow", packets, frames=FRAMES, period_ms=50)
    summary = run(slow, tmp_path / "ds_slow", "train")
    assert "rows show the frame of the row before" in note_of(summary)
    numbers = video_numbers(mp4(tmp_path / "ds_slow"))
    shown = [(5 + k * PERIOD_MS - 1) // 50 for k in range(len(numbers))]
    assert numbers == shown
    fast = video_bag(tmp_path / "fast", packets, frames=FRAMES, period_ms=PERIOD_MS / 2)
    summary = run(fast, tmp_path / "ds_fast", "train")
    assert "frames that others refer to are left out" in note_of(summary)
    assert video_numbers(mp4(tmp_path / "ds_fast")) == list(range(0, FRAMES, 2))


def test_another_codec_is_encoded_anew(tmp_path: Path) -> None:
    profile = load_profile("train")
    other = replace(profile, video=replace(profile.video, codec="libx265"))
    bag = video_bag(tmp_path / "bag", encoded(pictures(FRAMES), keys=EVERY_FIFTH))
    assert "the profile's codec is libx265" in note_of(run(bag, tmp_path / "ds", other))


def test_frames_that_cannot_be_decoded_are_left_out_and_counted(tmp_path: Path) -> None:
    packets = encoded(pictures(FRAMES), keys=(0, 4, 5, 12))
    missing = [p for p in packets[1:] if p[0] != 6]  # the first key frame, and a packet on the way
    summary = run(video_bag(tmp_path / "bag", missing), tmp_path / "ds", "piper")
    notes = summary.bags[0].notes
    assert "cam: 3 frames before the first key frame cannot be decoded: left out" in notes
    assert any(n.startswith("cam: packets of the video were lost: 5 frames") for n in notes)
    assert note_of(summary) == "cam: its H.264 is taken over as it is"  # from one key frame on, to another
    assert video_numbers(mp4(tmp_path / "ds")) == [5, *range(12, FRAMES)]


@pytest.mark.parametrize("transport", ["ffmpeg", "foxglove"])
def test_a_whole_group_of_frames_that_is_lost_is_noticed(tmp_path: Path, transport: str) -> None:
    packets = encoded(pictures(30), keys=range(0, 30, 5))
    missing = packets[:13] + packets[18:]  # 12 is the third of its group, 18 the fourth of the next
    summary = run(video_bag(tmp_path / "bag", missing, transport, frames=30), tmp_path / "ds", "piper")
    assert any(n.startswith("cam: packets of the video were lost: 2 frames") for n in summary.bags[0].notes)
    assert video_numbers(mp4(tmp_path / "ds")) == [*range(1, 13), *range(20, 30)]


def joined(*streams: Sequence[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """Streams one behind the other, as of a camera that begins anew."""
    return [(k, packet) for k, (_, packet) in enumerate(p for stream in streams for p in stream)]


def test_a_camera_that_began_anew_is_taken_over_as_it_is(tmp_path: Path) -> None:
    images = pictures(FRAMES)
    again = joined(encoded(images[:12], keys=(0, 1, 6)), encoded(images[12:], keys=(0, 5)))
    summary = run(video_bag(tmp_path / "bag", again), tmp_path / "ds", "piper")
    assert note_of(summary) == "cam: its H.264 is taken over as it is"
    assert video_numbers(mp4(tmp_path / "ds")) == list(range(1, FRAMES))
    for got, wanted in zip(video_planes(mp4(tmp_path / "ds")), decoded(p for _, p in again[1:]), strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_a_camera_that_began_anew_with_other_parameters_is_encoded_anew(tmp_path: Path) -> None:
    images = pictures(FRAMES)
    again = joined(encoded(images[:12], keys=(0, 1, 6)), encoded(images[12:], crf=26))
    summary = run(video_bag(tmp_path / "bag", again), tmp_path / "ds", "piper")
    assert note_of(summary) == "cam: its H.264 is encoded anew: its parameters change on the way"
    assert video_numbers(mp4(tmp_path / "ds")) == list(range(1, FRAMES))


def test_a_camera_whose_first_packets_were_missed_when_it_began_anew(tmp_path: Path) -> None:
    images = pictures(FRAMES)
    first, second = encoded(images[:12], keys=(0, 1)), encoded(images[12:], keys=(0, 5))
    again = [*first, *((k + 12, packet) for k, packet in second[3:])]  # 11 is followed by number 3 of another
    summary = run(video_bag(tmp_path / "bag", again), tmp_path / "ds", "piper")
    assert any("packets of the video were lost: 2 frames" in n for n in summary.bags[0].notes)
    assert video_numbers(mp4(tmp_path / "ds")) == [*range(1, 12), *range(17, 20)]


def refused(bag: Path, tmp_path: Path) -> str:
    (outcome,) = run(bag, tmp_path / "ds", "train").bags
    assert outcome.status == "failed"
    return outcome.reason


def test_streams_that_are_refused(tmp_path: Path) -> None:
    packets = encoded(pictures(FRAMES), keys=EVERY_FIFTH)
    assert "video of this format is not exported (got h265)" in refused(
        video_bag(tmp_path / "h265", packets, "foxglove", text="h265"), tmp_path
    )
    assert "no key frame" in refused(video_bag(tmp_path / "no_key", packets[1:5]), tmp_path)
    larger = [(k + 10, p) for k, p in encoded(pictures(10, (64, 64)))]
    reason = refused(video_bag(tmp_path / "size", [*packets[:10], *larger]), tmp_path)
    assert "the size of the video's pictures changes" in reason
    assert "got 64x64" in reason
    lengths = [(k, len(p).to_bytes(4) + p[4:]) for k, p in packets]
    assert "not a picture in H.264" in refused(video_bag(tmp_path / "mp4_units", lengths), tmp_path)
    high = encoded(pictures(FRAMES), keys=EVERY_FIFTH, pix_fmt="yuv444p")
    assert "expected 4:2:0 of 8 bits, got yuv444p" in refused(video_bag(tmp_path / "high", high), tmp_path)
    small_bag(tmp_path / "jpeg")
    run(tmp_path / "jpeg", tmp_path / "ds", "train")
    other = video_bag(tmp_path / "other_size", packets)
    assert run(other, tmp_path / "ds", "train").bags[0].status == "failed"


def test_frames_asked_for_by_time_are_those_of_the_stream(tmp_path: Path) -> None:
    packets = encoded(pictures(FRAMES), keys=(0, 6, 13), b_frames=2)
    with open_bag(video_bag(tmp_path / "bag", packets)) as bag:
        record = read_record(bag)
        stream = read_episode(bag, choose_config(bag, record)[0], record).cameras["cam"]
    stamps = np.sort(stream.stamp_ns)
    whole = {f.stamp_ns: bytes(f.payload) for f in stream.frames(0, 2**62)}
    assert sorted(whole) == stamps.tolist()
    planes = decoded(p for _, p in packets)
    for stamp, wanted in zip(stamps.tolist(), planes, strict=True):
        assert whole[stamp] == wanted.tobytes()
    assert (wanted.shape[0] * 2 // 3, wanted.shape[1]) == SIZE
    for first, last in ((3, 3), (7, 15), (18, 19)):
        some = {f.stamp_ns: bytes(f.payload) for f in stream.frames(int(stamps[first]), int(stamps[last]))}
        assert some == {s: whole[s] for s in stamps[first : last + 1].tolist()}
    assert list(stream.frames(0, START - 1)) == []


@pytest.mark.parametrize("matrix", [1, 6])
@pytest.mark.parametrize("keys", [range(0, FRAMES, 5), (0,)])
def test_colours_survive_whatever_the_matrix(tmp_path: Path, matrix: int, keys: Sequence[int]) -> None:
    rgb = [190, 80, 40]
    packets = encoded([picture(rgb)] * FRAMES, keys=keys, matrix=matrix)
    summary = run(video_bag(tmp_path / "bag", packets), tmp_path / "ds", "train")
    assert ("taken over" in note_of(summary)) == (len(keys) > 1)
    with av.open(str(mp4(tmp_path / "ds"))) as container:
        shown = [video_frame_to_rgb(f).mean((0, 1)) for f in container.decode(video=0)]
    np.testing.assert_allclose(shown, np.broadcast_to(rgb, (FRAMES, 3)), atol=4)

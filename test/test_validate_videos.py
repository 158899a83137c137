"""Faults in videos and statistics: each is found by its name and numbers, and no other one."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
from dataset_cases import MS, camera, rows_of, shown_frames
from dataset_edits import FRONT, WRIST, edit_json, edit_line, rewrite_video, video_path
from fault_support import check, drop_frames, found, line, stats, video
from validation_cases import write_dataset

EEF, JOINTS = "observation.arm_eef", "observation.arm_joint"


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    return write_dataset(tmp_path_factory.mktemp("good") / "piper", "piper")


def damage(root):
    """Overwrite the middle of the pictures, and leave the index at the end."""
    content = bytearray(video_path(root).read_bytes())
    start = content.index(b"mdat")
    content[start + 2000 : start + 6000] = b"\x00" * 4000
    video_path(root).write_bytes(content)


def frozen(frames):
    return [(pts, frames[5][1] if 5 <= i < 30 else picture) for i, (pts, picture) in enumerate(frames)]


def twice(frames):
    return [(pts, frames[i - i % 2][1]) for i, (pts, _) in enumerate(frames)]


def black(frames):
    return [(pts, 0 * picture if 10 <= i < 13 else picture) for i, (pts, picture) in enumerate(frames)]


def swap_videos(root):
    front, wrist = video_path(root, FRONT), video_path(root, WRIST)
    front.rename(root / "x.mp4")
    wrist.rename(front)
    (root / "x.mp4").rename(wrist)


VIDEOS = {
    "frame count told": (line("episodes.jsonl", lambda d: d["video_frame_lengths"].update({FRONT: 12})),
        ["frame-count"], ["44 frames in the file, episodes.jsonl says 12", "the least is 12"]),
    "least": (line("episodes.jsonl", lambda d: d.update(video_frame_length=3)),
        ["frame-count"], ["is 3, the least"]),
    "lost frames": (lambda r: drop_frames(r, FRONT, range(12, 17)),
        ["frame-count", "frame-gap", "frame-stamps"],
        ["39 frames in the file, episodes.jsonl says 44", "the export counted 44", "at worst 17"]),
    "lost end": (lambda r: drop_frames(r, FRONT, range(20, 44)),
        ["frame-count", "time-span", "frame-stamps", "few-frames"], ["20 frames for 45 rows"]),
    "lost start": (lambda r: drop_frames(r, FRONT, range(10)),
        ["frame-count", "time-span", "few-frames"], ["after the first row"]),
    "not a video": (lambda r: video_path(r).write_bytes(b"x" * 2000),
        ["video-unreadable", "no-consumer"], ["not a readable video"]),
    "cut short": (lambda r: video_path(r).write_bytes(video_path(r).read_bytes()[:-400]),
        ["video-unreadable", "no-consumer"], ["not a readable video"]),
    "damaged inside": (damage, ["frames-undecodable"], ["of 44"]),
    "frozen": (video(frozen), ["frozen-frames"], ["stands still for 0.8"]),
    "every picture twice": (video(twice),
        ["repeated-frames"], ["21 of 44 frames are the picture of the frame before, amid motion"]),
    "black": (video(black), ["flat-frames"], ["3 of 44 frames are black"]),
    "shifted": (video(lambda f: [(p + 20, x) for p, x in f]),
        ["frame-stamps"], ["show another frame than the stamps beside them"]),
    "other size": (video(lambda f: [(p, x[:32]) for p, x in f]),
        ["video-size"], ["pictures are 32x64", "the export wrote [48, 64]"]),
}  # fmt: skip


@pytest.mark.parametrize("name", VIDEOS)
def test_a_fault_of_videos(name, good, tmp_path):
    spoil, codes, words = VIDEOS[name]
    root = shutil.copytree(good, tmp_path / "ds")
    spoil(root)
    check(root, codes, words)


def test_swapped_videos_are_told_by_their_counts(good, tmp_path):
    root = shutil.copytree(good, tmp_path / "ds")
    drop_frames(root, WRIST, (43,))
    counts = {FRONT: 44, WRIST: 43}
    edit_line(
        root,
        "episodes.jsonl",
        0,
        lambda d: d.update(video_frame_length=43, video_frame_lengths=counts),
    )
    edit_line(root, "episode_sources.jsonl", 0, lambda d: d["cameras"]["cam_wrist"].update(frames=43))
    swap_videos(root)
    check(root, ["frame-count", "frame-stamps"], ["it counted 43 for cam_wrist: are the two videos swapped?"])


def test_a_first_frame_within_the_tick_of_a_row_is_not_the_one_the_row_shows(tmp_path):
    """Its PTS is rounded down to before the row, which shows a frame of before T0: that is no fault."""

    def shape(episode):
        stream = episode.cameras["cam_front"].stream
        first_ns = int(stream.stamp_ns[stream.stamp_ns >= episode.t0_ns][0])
        lag_ns = 400_000 - (first_ns - episode.t0_ns) % MS
        frames = [replace(f, stamp_ns=f.stamp_ns + lag_ns) for f in stream.frames(0, 2**62)]
        ticks = episode.tick_ns.copy()
        ticks[1] = first_ns + lag_ns - 200_000
        cameras = {
            name: replace(camera(name, frames), first_ns=episode.t0_ns, last_ns=int(ticks[-1]))
            for name in episode.cameras
        }
        rows = dict.fromkeys(episode.columns, rows_of(ticks))
        shown = dict.fromkeys(cameras, shown_frames(ticks, frames))
        assert shown["cam_front"].stamp_ns[1] < episode.t0_ns
        return replace(episode, tick_ns=ticks, cameras=cameras, samples={**rows, **shown})

    root = write_dataset(tmp_path / "ds", shape=shape)
    assert "frame-stamps" not in [code for code, _ in found(root)]


def test_a_picture_that_stands_still_with_the_arm_is_no_fault(tmp_path):
    """A quiet scene looks like a frozen camera; only motion elsewhere tells them apart."""

    def resting(episode):
        still = {key: np.repeat(values[:1], len(values), axis=0) for key, values in episode.columns.items()}
        return replace(episode, columns=still)

    root = write_dataset(tmp_path / "ds", "piper", episodes=1, shape=resting)
    rewrite_video(video_path(root), frozen)
    assert found(root) == []


STATS = {
    "mean": (stats(lambda d: d["observation.gripper"].update(mean=[0.06])),
        ["stats"], ["mean of observation.gripper[0] is 0.06, the rows give 0.0"]),
    "std": (stats(lambda d: d[JOINTS]["std"].__setitem__(2, 0.5)), ["stats"], [f"std of {JOINTS}[2] is 0.5"]),
    "max": (stats(lambda d: d[EEF]["max"].__setitem__(0, 0.9)), ["stats"], [f"max of {EEF}[0] is 0.9"]),
    "q99": (stats(lambda d: d[JOINTS]["q99"].__setitem__(3, 0.0)),
        ["stats"], [f"q99 of {JOINTS}[3] is 0, ", "% of the rows lie below it"]),
    "none": (stats(lambda d: d.pop(JOINTS)), ["stats"], [f"no statistics of {JOINTS}"]),
    "no quantile": (stats(lambda d: d[JOINTS].pop("q01")), ["stats"], [f"no q01 of {JOINTS}"]),
    "short": (stats(lambda d: d[JOINTS]["mean"].pop()), ["stats"], ["has 5 elements, the rows 6"]),
    "text": (stats(lambda d: d[JOINTS].update(mean=["x"] * 6)), ["stats"], ["not a list of finite numbers"]),
    "missing": (lambda r: (r / "meta/stats.json").unlink(), ["no-stats"], ["the file is missing"]),
    "NaN": (lambda r: edit_json(r / "meta/stats.json", lambda d: d[JOINTS].update(mean=[float("nan")] * 6)),
        ["json", "stats"], ["NaN is no JSON (6 values)"]),
}  # fmt: skip


@pytest.mark.parametrize("name", STATS)
def test_a_fault_of_statistics(name, good, tmp_path):
    spoil, codes, words = STATS[name]
    root = shutil.copytree(good, tmp_path / "ds")
    spoil(root)
    check(root, codes, words)

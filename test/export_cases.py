"""Bags of known content to datasets, and what was written read back independently of the package."""

import hashlib
import json
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pyarrow.parquet as pq
from sample_bags import (
    MS,
    START,
    arm_messages,
    camera_info,
    custom,
    jpeg_image,
    picture,
    quest_input,
    write_bag,
)

from piper_collect.config.load import dump_session
from piper_collect.config.profile import Profile, load_profile
from piper_collect.config.schema import CameraSettings, SessionConfig, SessionSettings
from piper_collect.pipelines.bag_episodes import ExportOptions
from piper_collect.pipelines.export import export
from piper_collect.pipelines.export_outcome import ExportSummary

GREY_STEP, DARKEST = 7, 24


def grey(number: int) -> int:
    """The colour of a camera's frame of this number; up to 30 can be told apart in the video."""
    return DARKEST + GREY_STEP * (number % 30)


def frame_messages(name, stamps_ms, *, start=START, delays_ms=None, first=0):
    """Frames whose grey tells their number: captured at ``stamps_ms``, received ``delays_ms`` later."""
    for k, t in enumerate(stamps_ms):
        stamp = start + round(t * MS)
        delay = 9 if delays_ms is None else delays_ms[k]
        message = jpeg_image(stamp, picture([grey(first + k)] * 3, height=16, width=32))
        yield f"/{name}/image_raw/compressed", stamp + round(delay * MS), message


def every(period_ms, first_ms, until_ms):
    return [first_ms + k * period_ms for k in range(int((until_ms - first_ms) / period_ms) + 1)]


def session(cameras=("cam",), *, fps=30.0, sources=None, **settings) -> SessionConfig:
    known = {name: CameraSettings(**settings) for name in cameras}
    more = {} if sources is None else {"sources": sources}
    return SessionConfig(cameras=known, session=SessionSettings(fps=fps), **more)


def bag(path, messages, config, *, end_ms, start=START, **more) -> Path:
    text = dump_session(config)
    return write_bag(path, messages, custom(start=start, end_ms=end_ms, session_config=text, **more))


def small_bag(path, number=0, *, rows=4, cameras=("cam",), task="pick the cube", more=(), **known) -> Path:
    """A short recording, at its own time, with its own values and pictures."""
    start = START + number * 10**10
    ticks = int(rows * 100 / 3 / 5) + 2
    messages = [*arm_messages(ticks, start=start, width=0.01 * (number + 1)), *more]
    for name in cameras:
        messages += frame_messages(name, every(100 / 3, 1, ticks * 5), start=start, first=3 * number)
    return bag(path, messages, session(cameras), end_ms=ticks * 5, start=start, task=task, **known)


def run(paths, root, profile: str | Profile = "train", **options) -> ExportSummary:
    made_of = load_profile(profile) if isinstance(profile, str) else profile
    return export(
        [paths] if isinstance(paths, Path) else paths, root, ExportOptions(profile=made_of, **options)
    )


def rows(root, index=0, chunk=0):
    return pq.ParquetFile(root / f"data/chunk-{chunk:03d}/episode_{index:06d}.parquet").read()


def cells(table, key):
    return np.array(table[key].to_pylist())


def lines(path):
    return [json.loads(line) for line in path.read_bytes().decode("utf-8").split("\n") if line]


def sources(root):
    return lines(root / "meta/episode_sources.jsonl")


def mp4(root, camera="cam", index=0, chunk=0):
    return root / f"videos/chunk-{chunk:03d}/observation.images.{camera}/episode_{index:06d}.mp4"


def video_times(path) -> list[Fraction]:
    """PTS of every frame, in the order of decoding, exactly."""
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        packets = [p for p in container.demux(stream) if p.pts is not None]
        assert [p.dts for p in packets] == [p.pts for p in packets]
        return [p.pts * stream.time_base for p in packets]


def video_numbers(path) -> list[int]:
    """The number of each decoded frame, read from its grey."""
    with av.open(str(path)) as container:
        levels = np.array([f.to_ndarray(format="rgb24").mean() for f in container.decode(video=0)])
    numbers = np.round((levels - DARKEST) / GREY_STEP)
    assert np.abs(levels - DARKEST - GREY_STEP * numbers).max() < GREY_STEP / 2 - 1
    return numbers.astype(int).tolist()


def files(root, *left_out) -> dict[str, str]:
    """SHA-256 of every file by its path."""
    found = {p.relative_to(root).as_posix(): p for p in sorted(root.rglob("*")) if p.is_file()}
    return {
        name: hashlib.sha256(p.read_bytes()).hexdigest() for name, p in found.items() if name not in left_out
    }


TASKS = ("pick the cube", "valid", "stack the cups", "pick the cube")


def varied_bags(folder: Path, count: int = 4, *, sessions=1) -> list[Path]:
    """Recordings that differ in what a dataset keeps of them: length, task, outcome, calibration, headset."""
    paths = []
    for k in range(count):
        start = START + k * 10**10
        name = f"pick_2026010{1 + k % sessions}_120000"
        # the intrinsics of one camera change, those of the other are not always there
        infos = [("/wrist/camera_info", start + 9 * MS, camera_info(start, focal=400.0 + 9 * (k // 2)))]
        if k % 3:
            infos.append(("/cam/camera_info", start + 9 * MS, camera_info(start)))
        headset = [
            ("/quest/input", start + 5 * j * MS, quest_input(start + 5 * j * MS, j)) for j in range(2 + k)
        ]
        paths.append(
            small_bag(
                folder / name / f"episode_{k:06d}",
                k,
                rows=3 + (k * 2) % 3,
                cameras=("cam", "wrist"),
                task=TASKS[k % len(TASKS)],
                more=[*infos, *(headset if k != 1 else [])],
                session=name,
                outcome="interrupted" if k == 2 else "success",
            )
        )
    return paths

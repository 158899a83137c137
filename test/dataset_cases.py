"""Small literal episodes for the dataset tests."""

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from piper_collect.config.profile import Profile, load_profile
from piper_collect.core.types import (
    NO_SAMPLE,
    CameraFrame,
    CameraStream,
    Episode,
    EpisodeCamera,
    RowSamples,
)
from piper_collect.dataset.stage import EpisodeIdentity
from piper_collect.dataset.writer import DatasetWriter, SavedEpisode

T0 = 1_700_000_000_000_000_000
MS = 1_000_000
SIZE = (16, 24)
CAMERAS = {"cam_front": SIZE, "cam_wrist": SIZE}
TICKS_MS = (0, 34, 66, 101)
FRAMES_MS = (2, 36, 69, 102)
QUARTER_TURN = (0.7071067811865476, 0.0, 0.0, 0.7071067811865476)


@cache
def profile() -> Profile:
    return load_profile(Path(__file__).parents[1] / "config/profiles/piper.yaml")


def picture(stamp_ns: int, size: tuple[int, int] = SIZE, grey: int = 90) -> CameraFrame:
    payload = np.full((*size, 3), grey, np.uint8).tobytes()
    return CameraFrame(
        stamp_ns=stamp_ns, encoding="rgb8", height=size[0], width=size[1], step=3 * size[1], payload=payload
    )


def camera(name: str, frames: Sequence[CameraFrame]) -> EpisodeCamera:
    stamps = np.array([f.stamp_ns for f in frames], np.int64)

    def read(first_ns: int, last_ns: int) -> Iterator[CameraFrame]:
        return (f for f in frames if first_ns <= f.stamp_ns <= last_ns)

    stream = CameraStream(camera=name, stamp_ns=stamps, receive_ns=stamps, frames=read)
    return EpisodeCamera(
        stream=stream, first_ns=T0, last_ns=T0 + 10_000 * MS, trimmed_before=2, trimmed_after=1
    )


def columns(rows: int, start: float = 0.0) -> dict[str, np.ndarray]:
    ramp = start + np.arange(rows, dtype=np.float64)[:, None]
    pose = np.hstack([0.1 * ramp, 0.2 * ramp, 0.3 * ramp, np.tile(QUARTER_TURN, (rows, 1))])
    return {
        "arm_joint": ramp + np.arange(6) / 10,
        "arm_eef": pose,
        "gripper": 0.01 * ramp,
        "target_eef": pose + np.array([1, 1, 1, 0, 0, 0, 0]),
        "target_gripper": np.full((rows, 1), 0.07),
    }


def rows_of(stamps: np.ndarray) -> RowSamples:
    return RowSamples(stamp_ns=stamps, stale=np.zeros(len(stamps), dtype=bool))


def shown_frames(ticks: np.ndarray, frames: Sequence[CameraFrame]) -> RowSamples:
    """The newest frame not after each tick."""
    stamps = np.sort(np.array([f.stamp_ns for f in frames], np.int64))
    newest = np.searchsorted(stamps, ticks, side="right") - 1
    shown = np.where(newest >= 0, stamps[np.maximum(newest, 0)], NO_SAMPLE)
    return RowSamples(stamp_ns=shown, stale=newest < 0)


def episode(
    name: str = "pick/episode_000000",
    *,
    task: str = "pick the cube",
    ticks_ms: Sequence[float] = TICKS_MS,
    frames_ms: Sequence[float] = FRAMES_MS,
    start: float = 0.0,
    cameras: Sequence[str] = tuple(CAMERAS),
    size: tuple[int, int] = SIZE,
) -> Episode:
    ticks = np.array([T0 + round(ms * MS) for ms in ticks_ms], np.int64)
    frames = [picture(T0 + round(ms * MS), size, 40 + 10 * k) for k, ms in enumerate(frames_ms)]
    values = columns(len(ticks), start)
    return Episode(
        name=name,
        t0_ns=T0,
        tick_ns=ticks,
        columns=values,
        samples={
            **dict.fromkeys(values, rows_of(ticks)),
            **{c: shown_frames(ticks, frames) for c in cameras},
        },
        cameras={c: camera(c, frames) for c in cameras},
        task=task,
        counts={"rows_gap": 0},
    )


def open_writer(root: Path, **changes: Any) -> DatasetWriter:
    settings = {"fps": 30.0, "robot_type": "piper", "cameras": CAMERAS, **changes}
    return DatasetWriter.open(root, settings.pop("profile", profile()), **settings)


def add(
    writer: DatasetWriter, what: Episode, bag: str = "episode_000000", session: str = "pick"
) -> SavedEpisode:
    return writer.add_episode(
        what,
        identity=EpisodeIdentity(session=session, bag=bag, content_hash=f"hash of {bag}"),
        session_record={"session": session, "arm": {"firmware": None}},
    )


def tree(root: Path) -> dict[str, bytes | None]:
    """Every file (and folder, as None) below ``root``; empty when there is no root."""
    if not root.exists():
        return {}
    return {
        str(p.relative_to(root)): p.read_bytes() if p.is_file() else None for p in sorted(root.rglob("*"))
    }

"""Episodes to measure with: small, but with all that a real one has."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from piper_collect.config.profile import Profile
from piper_collect.core.sampling import tick_offsets
from piper_collect.core.types import (
    CameraFrame,
    CameraStream,
    Episode,
    EpisodeCamera,
    FloatArray,
    RowSamples,
    StampArray,
)
from piper_collect.dataset.stage import EpisodeIdentity
from piper_collect.dataset.writer import DatasetWriter

FPS = 30.0
CAMERAS = {"cam_front": (48, 64), "cam_wrist": (48, 64)}

_T0_NS = 1_700_000_000_000_000_000


def open_writer(root: Path, profile: Profile) -> DatasetWriter:
    """The writer of the dataset at ``root``."""
    return DatasetWriter.open(root, profile, fps=FPS, robot_type="piper", cameras=CAMERAS)


def append_episode(writer: DatasetWriter, episode: Episode) -> None:
    """Save ``episode`` at the end."""
    identity = EpisodeIdentity(session="bench", bag=episode.name, content_hash=f"hash of {episode.name}")
    writer.add_episode(episode, identity=identity, session_record={"session": "bench"})


def made_episode(seed: int, profile: Profile, *, rows: int) -> Episode:
    """An arm that wanders about before two cameras; another one for every ``seed``."""
    rng = np.random.default_rng(seed)
    ticks = _T0_NS + tick_offsets(FPS, rows)
    widths = {c.source: len(c.names) for c in profile.columns if c.source}
    columns = {source: _walk(rng, rows, width) for source, width in widths.items()}
    shown = RowSamples(stamp_ns=ticks, stale=np.zeros(rows, dtype=bool))
    return Episode(
        name=f"bench/episode_{seed:06d}",
        t0_ns=_T0_NS,
        tick_ns=ticks,
        columns=columns,
        samples=dict.fromkeys([*columns, *CAMERAS], shown),
        cameras={camera: _camera(camera, size, ticks, rng) for camera, size in CAMERAS.items()},
        task="wander about",
        counts={"rows_gap": 0},
        provenance={"outcome": "success"},
    )


def _walk(rng: np.random.Generator, rows: int, width: int) -> FloatArray:
    """float64 [rows, width]; seven elements are a pose, whose rotation has the norm 1."""
    values = rng.normal(scale=0.3, size=width) + np.cumsum(rng.normal(scale=0.01, size=(rows, width)), axis=0)
    if width == 7:
        values[:, 3] = 2.0
        values[:, 3:] /= np.linalg.norm(values[:, 3:], axis=1, keepdims=True)
    return np.asarray(values)


def _camera(camera: str, size: tuple[int, int], ticks: StampArray, rng: np.random.Generator) -> EpisodeCamera:
    height, width = size
    scene = rng.integers(0, 256, (height, 1, 3), np.uint8) // 2 + np.arange(width, dtype=np.uint8)[:, None]
    numbers: Mapping[int, int] = {int(stamp): k for k, stamp in enumerate(ticks)}

    def frames(first_ns: int, last_ns: int) -> Iterator[CameraFrame]:
        for stamp, number in numbers.items():
            if first_ns <= stamp <= last_ns:
                yield CameraFrame(
                    stamp_ns=stamp,
                    encoding="rgb8",
                    height=height,
                    width=width,
                    step=3 * width,
                    payload=np.roll(scene, number, axis=1).tobytes(),
                )

    stream = CameraStream(camera=camera, stamp_ns=ticks, receive_ns=ticks, frames=frames)
    return EpisodeCamera(stream=stream, first_ns=int(ticks[0]), last_ns=int(ticks[-1]))

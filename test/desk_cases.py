"""What tests of the page at the desk are made of: a dataset to align to, and views of a session."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from dataset_cases import MS, T0, add, camera, episode, open_writer, shown_frames
from numpy.typing import NDArray

from piper_collect.core.types import CameraFrame


def write_reference(root: Path, pictures: Mapping[str, NDArray[np.uint8]]) -> None:
    """A dataset of one short episode in which each camera sees one picture, uint8 [H, W, 3] RGB."""
    sizes = {name: (pixels.shape[0], pixels.shape[1]) for name, pixels in pictures.items()}
    frames = {name: _frames(pixels) for name, pixels in pictures.items()}
    bare = episode(cameras=())
    samples = {name: shown_frames(bare.tick_ns, seen) for name, seen in frames.items()}
    whole = replace(
        bare,
        samples={**bare.samples, **samples},
        cameras={name: camera(name, seen) for name, seen in frames.items()},
    )
    add(open_writer(root, cameras=sizes), whole)


def _frames(pixels: NDArray[np.uint8]) -> list[CameraFrame]:
    rows, columns = pixels.shape[:2]
    return [
        CameraFrame(
            stamp_ns=T0 + ms * MS,
            encoding="rgb8",
            height=rows,
            width=columns,
            step=3 * columns,
            payload=pixels.tobytes(),
        )
        for ms in (2, 36, 69, 102)
    ]


def save_record(session: Path, number: int, *, flaws: tuple[str, ...] = (), size: int = 1000) -> Path:
    """What a saved episode leaves in its session's folder, but for a bag that could be read."""
    folder = session / f"episode_{number:06d}"
    folder.mkdir(parents=True)
    (folder / "bag.mcap").write_bytes(bytes(size))
    record = {
        "episode": number,
        "outcome": "interrupted" if flaws else "success",
        "episode_start_ns": 1_000_000_000,
        "episode_end_ns": 5_500_000_000,
        "incomplete_reasons": list(flaws),
        "topics": {"/a": {"lost": 2}, "/b": {"lost": 1}},
    }
    (folder / "episode.json").write_text(json.dumps(record))
    return folder

"""LeRobot v2 datasets without videos, as other tools write them: any columns, any parquet types."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

POSE_NAMES = ["x", "y", "z", "qw", "qx", "qy", "qz"]


def feature(width: int, names: Any = None, dtype: str = "float32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": [width], "names": names}


PIPER_FEATURES = {
    "observation.arm_joint": feature(6),
    "observation.arm_eef": feature(7, POSE_NAMES),
    "observation.gripper": feature(1, ["width"]),
    "action.arm_eef": feature(7, POSE_NAMES),
    "action.gripper": feature(1, ["width"]),
}


def random_poses(rng: np.random.Generator, rows: int) -> NDArray[np.float64]:
    quats = rng.normal(size=(rows, 4))
    return np.hstack([rng.normal(size=(rows, 3)), quats / np.linalg.norm(quats, axis=1, keepdims=True)])


def random_episode(rng: np.random.Generator, rows: int) -> dict[str, NDArray[np.float64]]:
    """Random cells for ``PIPER_FEATURES``."""
    return {
        "observation.arm_joint": rng.normal(size=(rows, 6)),
        "observation.arm_eef": random_poses(rng, rows),
        "observation.gripper": rng.uniform(0, 0.07, (rows, 1)),
        "action.arm_eef": random_poses(rng, rows),
        "action.gripper": rng.uniform(0, 0.07, (rows, 1)).round(2),
    }


def write_plain_dataset(
    root: Path,
    episodes: Iterable[Mapping[str, Any]],
    features: Mapping[str, Any] = PIPER_FEATURES,
    *,
    version: str = "v2.1",
    modality: Mapping[str, Any] | None = None,
) -> None:
    """Write ``episodes``: cells by column, as an Arrow array or a plain one.

    A plain one [T, D] becomes float32 lists, one [T] scalars.
    """
    (root / "meta").mkdir(parents=True)
    (root / "data/chunk-000").mkdir(parents=True)
    lengths = []
    for index, episode in enumerate(episodes):
        table = pa.table({key: arrow_cells(cells) for key, cells in episode.items()})
        pq.write_table(table, root / f"data/chunk-000/episode_{index:06d}.parquet")
        lengths.append(len(table))
    info = {
        "codebase_version": version,
        "fps": 30,
        "chunks_size": 100_000,
        "total_episodes": len(lengths),
        "total_frames": sum(lengths),
        "data_path": "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
        "features": dict(features),
    }
    (root / "meta/info.json").write_text(json.dumps(info))
    lines = [{"episode_index": i, "length": n, "tasks": ["pick"]} for i, n in enumerate(lengths)]
    (root / "meta/episodes.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (root / "meta/tasks.jsonl").write_text('{"task_index": 0, "task": "pick"}\n')
    if modality is not None:
        (root / "meta/modality.json").write_text(json.dumps(modality))


def arrow_cells(cells: Any) -> pa.Array:
    if isinstance(cells, pa.Array):
        return cells
    array = np.asarray(cells, dtype=np.float32)
    if array.ndim == 1:
        return pa.array(array)
    return pa.FixedSizeListArray.from_arrays(pa.array(array.reshape(-1)), array.shape[1])

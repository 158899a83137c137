"""One episode's HDF5 file: the format's fields, the videos as bytes, under ``columns`` the rows themselves.

Equal episodes come to equal bytes: nothing in a file depends on the clock, nor on its place in the dataset.
"""

import importlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from piper_collect.dataset.hdf5.fields import CaseFields
from piper_collect.dataset.layout import VIDEO_KEY_PREFIX
from piper_collect.dataset.parquet import BOOKKEEPING, TIMESTAMP, column_values, is_list, list_cells
from piper_collect.errors import DatasetError
from piper_collect.files import sync

COLUMNS, TASKS = "columns", "task_strings"
_BLOCK = 4 << 20
_VERSIONS = ("v108", "v110")
"""Of the file format: what HDF5 1.10 and all later ones read."""


def h5py_module() -> Any:
    """The library.

    Raises:
        DatasetError: It is not installed.
    """
    try:
        return importlib.import_module("h5py")
    except ImportError as err:
        raise DatasetError(f"h5py is not installed: {err}", hint="pip install 'piper_collect[hdf5]'") from err


def video_field(key: str) -> str:
    """Name of the field of a video feature."""
    return f"camera_{key.removeprefix(VIDEO_KEY_PREFIX)}_rgb"


def stored_columns(features: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    """The features that lie under ``columns``: numbers that do not follow from the episode's place."""
    plain = [k for k, f in features.items() if f["dtype"] != "video" and k not in BOOKKEEPING]
    return (*plain, TIMESTAMP)


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseEpisode:
    """What goes into a file.

    Attributes:
        table: The rows; columns that point at tasks count in ``tasks``.
        tasks: The strings that they point at, the episode's task first.
        features: As info.json describes them.
        fields: The format's fields of them.
        videos: mp4 by video feature, one frame a row.
        fps: Rows a second.
    """

    table: pa.Table
    tasks: Sequence[str]
    features: Mapping[str, Mapping[str, Any]]
    fields: CaseFields
    videos: Mapping[str, Path]
    fps: float


def write_episode(path: Path, episode: CaseEpisode) -> None:
    """Write a file and flush it to the disk.

    Raises:
        DatasetError: h5py is missing, or the file cannot be written.
    """
    h5py = h5py_module()
    try:
        with h5py.File(path, "w", libver=_VERSIONS) as file:
            file.attrs["fps"] = episode.fps
            file.attrs["frame_count"] = len(episode.table)
            _write_fields(h5py, file, episode)
            for key in stored_columns(episode.features):
                _write_column(file, key, episode)
            for key, video in episode.videos.items():
                _write_video(file, key, video, episode)
    except (OSError, ValueError) as err:
        raise DatasetError(f"the file cannot be written: {err}", where=path.name) from err
    sync(path)


def _write_fields(h5py: Any, file: Any, episode: CaseEpisode) -> None:
    fields, text = episode.fields, h5py.string_dtype()
    width = len(fields.names)
    for name, values in (
        ("agent_pose", fields.joint_positions),
        ("actions", fields.actions),
        ("joint_positions", fields.joint_positions),
    ):
        _write(file, name, values)
    for name in ("agent_pose_names", "joint_position_names"):
        _write(file, name, list(fields.names), text)
    _write(file, "agent_pose_indices", np.arange(width))
    _write(file, "arm_joint_indices", np.arange(fields.arm_joints))
    _write(file, "gripper_indices", np.arange(fields.arm_joints, width))
    if fields.pose is not None:
        pose = _write(file, "ee_pose", fields.pose.values)
        if fields.pose.quaternion_order:
            pose.attrs["quaternion_order"] = fields.pose.quaternion_order
        _write(file, "ee_pose_names", list(fields.pose.names), text)
        _write(file, "ee_frame", fields.pose.frame, text)
        if fields.pose.valid is not None:
            _write(file, "ee_pose_valid", fields.pose.valid)
    _write(file, "language_instruction", episode.tasks[0], text)
    _write(file, TASKS, list(episode.tasks), text)


def _write(file: Any, name: str, values: Any, dtype: Any = None) -> Any:
    return file.create_dataset(name, data=values, dtype=dtype, track_times=False)


def _write_column(file: Any, key: str, episode: CaseEpisode) -> None:
    values = column_values(episode.table, key)
    kind = episode.table.schema.field(key).type
    column = _write(file, f"{COLUMNS}/{key}", values if is_list(kind) else values[:, 0])
    names = episode.features[key].get("names")
    if names:
        column.attrs["names"] = list(names)


def _write_video(file: Any, key: str, video: Path, episode: CaseEpisode) -> None:
    shape = (video.stat().st_size,)
    field = file.create_dataset(video_field(key), shape=shape, dtype=np.uint8, track_times=False)
    with video.open("rb") as source:
        at = 0
        while block := source.read(_BLOCK):
            field[at : at + len(block)] = np.frombuffer(block, np.uint8)
            at += len(block)
    height, width, _ = episode.features[key]["shape"]
    field.attrs["fps"] = episode.fps
    field.attrs["frame_count"] = len(episode.table)
    field.attrs["height"], field.attrs["width"] = height, width


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """The file for reading.

    Raises:
        DatasetError: h5py is missing, it is no HDF5 file, or what is asked of it is not there.
    """
    h5py = h5py_module()
    try:
        with h5py.File(path, "r") as file:
            yield file
    except (OSError, KeyError, ValueError, TypeError, RuntimeError, AttributeError) as err:
        raise DatasetError(f"not a readable file of an episode: {err}", where=path) from err


def read_columns(file: Any, keys: Sequence[str]) -> tuple[pa.Table, tuple[str, ...]]:
    """The rows without the columns that follow from an episode's place, and the strings they point at."""
    columns: dict[str, pa.Array] = {}
    for key in keys:
        values: NDArray[Any] = file[COLUMNS][key][()]
        columns[key] = pa.array(values) if values.ndim == 1 else list_cells(values)
    return pa.table(columns), tuple(file[TASKS].asstr()[()].tolist())


def read_video(path: Path, key: str) -> bytes:
    """The mp4 of a video feature.

    Raises:
        DatasetError: The file cannot be read, or has no such video.
    """
    with opened(path) as file:
        video: bytes = file[video_field(key)][()].tobytes()
    return video

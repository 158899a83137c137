"""A dataset of another format as HDF5 cases (see ``Target``)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from piper_collect.dataset.convert import Convertible, Part, flat_features, flat_notes, with_flat_cells
from piper_collect.dataset.hdf5.fields import (
    POSE,
    POSE_SOURCE_STATE,
    case_fields,
    check_features,
    is_on_grid,
)
from piper_collect.dataset.hdf5.files import CaseEpisode, h5py_module, write_episode
from piper_collect.dataset.hdf5.index import cases_info, stage_config, stage_lines
from piper_collect.dataset.hdf5.layout import (
    LEFT_OUT,
    Case,
    Line,
    case_for,
    episode_line,
    robot_folder,
)
from piper_collect.dataset.layout import INFO
from piper_collect.dataset.meta_files import write_meta
from piper_collect.dataset.parquet import BOOKKEEPING, TIMESTAMP, column_values
from piper_collect.dataset.remux import clip_facts, clip_times, join_clips
from piper_collect.dataset.renumber import renumbered, task_columns
from piper_collect.dataset.transaction import Transaction
from piper_collect.errors import DatasetError

_NUMBERS = ("float32", "float64", "int64", "int32", "uint8", "bool")
_CODEC = "h264"
_NO_STATISTICS = (
    "statistics: HDF5 cases have none; those of rows follow from the rows, those of pictures, which were of"
    " the recorded ones, can only be counted from the encoded frames"
)
_EXPORT = "export the bags with --profile train --dialect hdf5-cases"


class ToHDF5Cases:
    """Stages HDF5 cases.

    Raises:
        DatasetError: h5py is missing, or the source has no joint states.
    """

    def __init__(self, change: Transaction, source: Convertible, _: Path) -> None:
        h5py_module()
        self._change, self._source = change, source
        features: Mapping[str, Mapping[str, Any]] = source.info["features"]
        flat, self._arrays = flat_features(features)
        self._features = {k: f for k, f in flat.items() if _is_held(f)}
        self._robot = robot_folder(str(source.info.get("robot_type") or "robot"))
        self._tasks = tuple(source.tasks[i] for i in sorted(source.tasks))
        self._lines: list[Line] = []
        self._cases: dict[Case, list[int]] = {}
        self._sources: list[Line] = []
        self._numbers = list(source.episodes)
        check_features(self._features)
        missing = [key for key in BOOKKEEPING if key not in self._features]
        if missing:
            raise DatasetError("the dataset lacks columns", where=source.root, expected=", ".join(missing))
        left = [k for k in features if k not in self._features]
        self.lost = list(flat_notes(features, self._arrays))
        self.lost += [f"{key}: HDF5 cases hold rows of numbers and H.264 videos" for key in left]
        self.lost.append(_NO_STATISTICS)
        if POSE in self._features and POSE_SOURCE_STATE not in features:
            self.lost.append("ee_pose_valid: the rows do not tell whether their poses were fresh")
        self.lost += [f"{field}: {why}" for field, why in LEFT_OUT.items()]

    def add(self, part: Part) -> None:
        """Take an episode more."""
        old, fps = self._numbers[part.index], self._source.fps
        if not is_on_grid(column_values(part.table, TIMESTAMP)[:, 0], fps):
            raise DatasetError(
                f"the rows of episode {part.index} do not lie at k/fps, and an HDF5 case has no other times",
                where=self._source.root,
                hint=_EXPORT,
            )
        source = self._source.sources.get(old, {})
        table, tasks = self._with_own_tasks(part)
        firsts = [self._lines[indexes[0]] for indexes in self._cases.values()]
        case = case_for(firsts, self._robot, tasks[0], str(source.get("session") or ""))
        number = len(self._cases.setdefault(case, []))
        content = CaseEpisode(
            table=table,
            tasks=tasks,
            features=self._features,
            fields=case_fields(table, self._features),
            videos={key: self._video(part, key) for key in part.clips if key in self._features},
            fps=fps,
        )
        write_episode(self._change.path(case.episode(number)), content)
        line = episode_line(part.index, case, number, length=len(table), fps=fps, tasks=tasks, source=source)
        self._cases[case].append(len(self._lines))
        self._lines.append(line)
        self._sources.append(source)

    def _with_own_tasks(self, part: Part) -> tuple[pa.Table, tuple[str, ...]]:
        """The rows with tasks counted from 0 in the episode, and those tasks, its own first."""
        rows = with_flat_cells(part.table, self._arrays)
        table = rows.select([k for k, f in self._features.items() if f["dtype"] != "video"])
        if np.unique(column_values(table, "task_index")).size != 1:
            raise DatasetError(
                f"episode {part.index} has several tasks, and an HDF5 case has one",
                where=self._source.root,
            )
        used = [i for key in task_columns(table) for i in column_values(table, key)[:, 0].tolist()]
        tasks = tuple(self._tasks[i] for i in dict.fromkeys(used))
        return renumbered(table, part.index, 0, dict(enumerate(self._tasks)), tasks), tasks

    def _video(self, part: Part, key: str) -> Path:
        """The video by itself: it must show a frame a row, since nothing else tells which is which."""
        clip, fps, where = part.clips[key], self._source.fps, f"episode {part.index}, {key}"
        codec, times = str(clip_facts(clip).coded[0]), clip_times(clip)
        if codec != _CODEC:
            raise DatasetError(
                "the video cannot lie in an HDF5 case", where=where, expected="H.264", got=codec
            )
        rows = len(part.table)
        if len(times) != rows or not is_on_grid(times, fps):
            raise DatasetError(
                "the video has not one frame a row, each at k/fps",
                where=where,
                expected=f"{rows} frames, {fps:g} a second",
                got=f"{len(times)} frames from {times[0]:g} to {times[-1]:g} s",
                hint=_EXPORT,
            )
        path = self._change.scratch(f"{list(part.clips).index(key)}.mp4")
        join_clips([clip], path)
        return path

    def finish(self, tasks: Sequence[str]) -> None:
        """Stage what tells of all episodes."""
        source, lines = self._source, self._lines
        stage_lines(self._change, (), lines, self._sources)
        records = {s.get("session"): s for s in source.sessions}
        for first, *_ in self._cases.values():
            line = lines[first]
            stage_config(self._change, line, self._sources[first], records.get(line["session"]))
        info = cases_info(source.info.get("robot_type"), source.fps, self._features, lines)
        write_meta(self._change, INFO, info)


def case_folders(source: Convertible) -> tuple[str, ...]:
    """Folders below the root that a conversion of ``source`` writes into, beside those of every format."""
    return (robot_folder(str(source.info.get("robot_type") or "robot")),)


def _is_held(feature: Mapping[str, Any]) -> bool:
    if feature["dtype"] == "video":
        return True
    return feature["dtype"] in _NUMBERS and len(feature["shape"]) == 1

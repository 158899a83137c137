"""HDF5 cases, written from the aligned episode itself (see ``Store``)."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from piper_collect.dataset import metadata
from piper_collect.dataset.append import stage_cameras, stage_session
from piper_collect.dataset.columns import task_strings
from piper_collect.dataset.dialect import DatasetKind, FreshEpisode, Staged
from piper_collect.dataset.hdf5.fields import BASE_FRAME, POSE, case_fields, check_features
from piper_collect.dataset.hdf5.files import CaseEpisode, h5py_module, write_episode
from piper_collect.dataset.hdf5.index import (
    cases_info,
    known_cameras,
    stage_all_cameras,
    stage_config,
    stage_lines,
    stage_new_line,
)
from piper_collect.dataset.hdf5.layout import (
    Case,
    Line,
    case_for,
    case_of,
    episode_line,
    next_number,
    robot_folder,
    tasks_of,
)
from piper_collect.dataset.hdf5.state import load_cases_state
from piper_collect.dataset.json_files import json_bytes, jsonl_bytes
from piper_collect.dataset.layout import EXTRAS, INFO, META, SOURCES, video_key
from piper_collect.dataset.meta_files import drop_finalized, stage_description, write_meta
from piper_collect.dataset.stage import StagedEpisode, extra_files
from piper_collect.dataset.state import DatasetState
from piper_collect.dataset.transaction import Transaction
from piper_collect.errors import DatasetError


class HDF5Cases:
    """A dataset of HDF5 cases.

    Args:
        root: The dataset.
        kind: What its episodes have in common.

    Raises:
        DatasetError: The columns or picture sizes cannot be those of a dataset.
    """

    def __init__(self, root: Path, kind: DatasetKind) -> None:
        self.stager = kind.stager()
        self._root = root
        self._robot_type = kind.robot_type
        self._robot = robot_folder(kind.robot_type)
        self._features = metadata.features_json(self.stager.features, kind.profile, kind.fps)
        self._pose = next((f for f in self.stager.features if f.key == POSE), None)
        self.folders: tuple[str, ...] = (META, EXTRAS, self._robot)
        check_features(self._features)

    def empty(self) -> DatasetState:
        """What a dataset without episodes holds."""
        h5py_module()
        return DatasetState()

    def load(self) -> DatasetState:
        """What the dataset holds, checked before it is continued."""
        state = load_cases_state(self._root, self._info(()))
        h5py_module()
        return state

    def append(self, change: Transaction, state: DatasetState, fresh: FreshEpisode) -> Staged:
        """Stage one episode more; only lists grow, and info.json is written anew."""
        index = len(state.episodes)
        case = self._case(state.episodes, fresh)
        number = next_number(state.episodes, case)
        for file in (case.episode(number), *extra_files(index)):
            if (self._root / file).exists():
                raise DatasetError(
                    "a file that no episode names is in the way",
                    where=self._root / file,
                    hint="move it out of the dataset",
                )
        staged = self._stage(change, fresh, index, case, number)
        new = self._with(state, fresh, (*state.episodes, staged.line), (*state.sources, staged.source))
        record = _record(new, fresh)
        stage_new_line(change, state.episodes, staged.line, staged.source, record)
        change.append(f"{META}/{SOURCES}", json_bytes(staged.source, SOURCES, indent=None))
        stage_cameras(change, self._root, index, fresh.extras.cameras)
        self._stage_rest(change, new, fresh)
        return Staged(state=new, episode=staged, notes=drop_finalized(self._root, change))

    def replace(self, change: Transaction, state: DatasetState, index: int, fresh: FreshEpisode) -> Staged:
        """Stage ``fresh`` in the place of episode ``index``; the files of the others stay as they are."""
        before = state.episodes[index]
        others = [line for i, line in enumerate(state.episodes) if i != index]
        # seen with the old line, so that an episode of the same case stays in its folder, alone as it may be
        case = self._case(state.episodes, fresh)
        is_same = case == case_of(before)
        number = int(before["h5_episode_index"]) if is_same else next_number(others, case)
        change.remove(before["hdf5_path"])
        for file in extra_files(index):
            change.remove(file)
        staged = self._stage(change, fresh, index, case, number)
        lines = tuple(staged.line if i == index else line for i, line in enumerate(state.episodes))
        sources = tuple(staged.source if i == index else s for i, s in enumerate(state.sources))
        new = self._with(state, fresh, lines, sources)
        stage_lines(change, state.episodes, lines, sources)
        if case not in map(case_of, others):
            stage_config(change, staged.line, staged.source, _record(new, fresh))
        change.write(f"{META}/{SOURCES}", jsonl_bytes(sources, SOURCES))
        infos = known_cameras(self._root, len(lines))
        infos[index] = dict(fresh.extras.cameras)
        stage_all_cameras(change, infos)
        self._stage_rest(change, new, fresh)
        return Staged(state=new, episode=staged, notes=drop_finalized(self._root, change))

    def _info(self, lines: Sequence[Line]) -> dict[str, Any]:
        return cases_info(self._robot_type, self.stager.fps, self._features, lines)

    def _case(self, lines: Sequence[Line], fresh: FreshEpisode) -> Case:
        return case_for(lines, self._robot, fresh.episode.task, fresh.identity.session)

    def _stage(
        self, change: Transaction, fresh: FreshEpisode, index: int, case: Case, number: int
    ) -> StagedEpisode:
        """Stage the episode's own files; its table counts its own tasks, from 0."""
        episode, stager = fresh.episode, self.stager
        tasks = task_strings(episode, stager.profile)
        table = stager.table(episode, index=index, first_index=0, tasks=tasks)
        pose = self._pose
        fields = case_fields(
            table,
            self._features,
            pose_valid=~episode.samples[pose.source].stale if pose and pose.source else None,
            pose_frame=(pose.frame if pose else "") or BASE_FRAME,
        )
        paths = {camera: change.scratch(f"{n}.mp4") for n, camera in enumerate(stager.cameras)}
        videos = stager.videos(episode, paths, fresh.extras, fresh.progress)
        stager.stage_extras(change, episode, fresh.extras, index)
        content = CaseEpisode(
            table=table,
            tasks=tasks,
            features=self._features,
            fields=fields,
            videos={video_key(camera): path for camera, path in paths.items()},
            fps=stager.fps,
        )
        write_episode(change.path(case.episode(number)), content)
        source = stager.source_line(index, episode, fresh.identity, videos)
        line = episode_line(
            index, case, number, length=episode.length, fps=stager.fps, tasks=tasks, source=source
        )
        return StagedEpisode(table=table, line=line, source=source, videos=videos)

    def _with(
        self,
        state: DatasetState,
        fresh: FreshEpisode,
        lines: tuple[Line, ...],
        sources: tuple[Line, ...],
    ) -> DatasetState:
        sessions = state.sessions if fresh.record is None else (*state.sessions, fresh.record)
        return replace(state, episodes=lines, tasks=tasks_of(lines), sources=sources, sessions=sessions)

    def _stage_rest(self, change: Transaction, state: DatasetState, fresh: FreshEpisode) -> None:
        if fresh.record is not None:
            stage_session(change, fresh.record)
        stager = self.stager
        stage_description(change, self._root, stager.profile, list(stager.cameras), self._robot_type)
        write_meta(change, INFO, self._info(state.episodes))


def _record(state: DatasetState, fresh: FreshEpisode) -> Line | None:
    """The record of the session of an episode."""
    name = fresh.identity.session
    return next((record for record in state.sessions if record.get("session") == name), None)

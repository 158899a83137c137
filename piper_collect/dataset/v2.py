"""LeRobot v2.0 and v2.1: a parquet file and a video a camera for each episode, metadata as JSON lines."""

from collections.abc import Sequence
from pathlib import Path

from piper_collect.dataset.append import Append, dataset_info, stage_session
from piper_collect.dataset.columns import task_strings
from piper_collect.dataset.dialect import DatasetKind, FreshEpisode, Staged
from piper_collect.dataset.meta_files import drop_finalized
from piper_collect.dataset.reader import open_dataset
from piper_collect.dataset.rewrite import Fresh, Kept, Rewrite
from piper_collect.dataset.stage import StagedEpisode
from piper_collect.dataset.state import DatasetState, load_state
from piper_collect.dataset.transaction import LEROBOT_FOLDERS, Transaction


class LeRobotV2:
    """A v2.0 or v2.1 dataset (see ``Store``).

    Args:
        root: The dataset.
        kind: What its episodes have in common.

    Raises:
        DatasetError: The columns or picture sizes cannot be those of a dataset.
    """

    folders: tuple[str, ...] = LEROBOT_FOLDERS

    def __init__(self, root: Path, kind: DatasetKind) -> None:
        self.stager = kind.stager()
        self._root = root
        self._robot_type = kind.robot_type
        self._empty_info = dataset_info(self.stager, kind.robot_type, DatasetState())

    def empty(self) -> DatasetState:
        """What a dataset without episodes holds."""
        return DatasetState()

    def load(self) -> DatasetState:
        """What the dataset holds, checked before it is continued."""
        return load_state(self._root, self._empty_info)

    def append(self, change: Transaction, state: DatasetState, fresh: FreshEpisode) -> Staged:
        """Stage one episode more."""
        append = Append(root=self._root, stager=self.stager, robot_type=self._robot_type, state=state)
        new, staged = append.stage(
            change, fresh.episode, fresh.identity, fresh.record, fresh.extras, fresh.progress
        )
        return Staged(state=new, episode=staged, notes=drop_finalized(self._root, change))

    def replace(self, change: Transaction, state: DatasetState, index: int, fresh: FreshEpisode) -> Staged:
        """Stage ``fresh`` in the place of episode ``index``."""

        def stage(at: int, first_index: int, tasks: Sequence[str]) -> StagedEpisode:
            return self.stager.stage(
                change,
                fresh.episode,
                fresh.identity,
                index=at,
                first_index=first_index,
                tasks=tasks,
                extras=fresh.extras,
                progress=fresh.progress,
            )

        order: list[Kept | Fresh] = [Kept(index=i) for i in range(len(state.episodes))]
        order[index] = Fresh(
            tasks=task_strings(fresh.episode, self.stager.profile), stage=stage, cameras=fresh.extras.cameras
        )
        new = Rewrite(change, open_dataset(self._root), order).stage()
        if fresh.record is not None:
            stage_session(change, fresh.record)
        after = DatasetState(
            episodes=new.episodes,
            tasks=new.tasks,
            sources=new.sources,
            sessions=state.sessions if fresh.record is None else (*state.sessions, fresh.record),
            stats=new.stats,
        )
        return Staged(state=after, episode=new.fresh[0], notes=new.notes)

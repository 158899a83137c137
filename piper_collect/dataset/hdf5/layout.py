"""Where the files of a dataset of HDF5 cases lie under its root.

A family is a task, a case is a recording session of it: that is what has one configuration here.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from piper_collect.core.naming import task_slug
from piper_collect.dataset.layout import EXTRAS, META

VERSION = "hdf5-cases"
CASES = "cases.jsonl"
CASE_INDEX = "dataset/meta/episode.jsonl"
"""A case's own list of episodes, below the folder of the case."""
H5_PATH = "{robot}/{family}/{case}/dataset/episode_{h5_episode_index:04d}.h5"

LEFT_OUT: Mapping[str, str] = {
    "step_index": "no stages of a workflow are recorded",
    "subtask_instructions": "no instructions of parts of an episode are recorded",
    "object_positions, object_orientations, object_names": "objects are not tracked",
    "bboxes_2d, bbox_visibility, bbox_camera_names": "objects are not tracked",
    "subgoals": "no subgoals are chosen",
    "randomization_episodes.jsonl": "nothing is randomised",
}
"""Fields of the format that nothing recorded could fill, and why."""

Line = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Case:
    """The folder of one recording session of one task.

    Attributes:
        robot: Name of its first folder.
        family: Name of the folder in that, of the task.
        case: Name of the folder in that, of the session.
    """

    robot: str
    family: str
    case: str

    @property
    def folder(self) -> str:
        """Path below the root."""
        return f"{self.robot}/{self.family}/{self.case}"

    @property
    def index(self) -> str:
        """Path of its own list of episodes."""
        return f"{self.folder}/{CASE_INDEX}"

    @property
    def config(self) -> str:
        """Path of what is known of its configuration."""
        return f"{self.folder}/resolved_config.yaml"

    @property
    def results(self) -> str:
        """Path of the outcomes of its episodes."""
        return f"{self.folder}/results/episodes.jsonl"

    def episode(self, number: int) -> str:
        """Path of the file of an episode by its number in the case."""
        return H5_PATH.format(robot=self.robot, family=self.family, case=self.case, h5_episode_index=number)


def robot_folder(robot_type: str) -> str:
    """Name of the folder of a robot; never one of the dataset's own."""
    slug = task_slug(robot_type)
    return f"robot_{slug}" if slug in (META, EXTRAS) else slug


def case_of(line: Line) -> Case:
    """The case of a line of episodes.jsonl."""
    return Case(robot=str(line["robot"]), family=str(line["family"]), case=str(line["case"]))


def case_for(lines: Iterable[Line], robot: str, task: str, session: str) -> Case:
    """The case of an episode that is to be saved: that of its task and session, or one with a new name.

    Args:
        lines: Of the episodes that are there.
        robot: See ``robot_folder``.
        task: Its task.
        session: Its recording session; may be empty.
    """
    known = list(lines)
    for line in known:
        if (line["instruction"], line["session"]) == (task, session):
            return case_of(line)
    families = {line["family"]: line["instruction"] for line in known}
    family = next(f for f in _numbered(task_slug(task)) if families.get(f, task) == task)
    taken = {line["case"] for line in known if line["family"] == family}
    case = next(c for c in _numbered(task_slug(session)) if c not in taken)
    return Case(robot=robot, family=family, case=case)


def next_number(lines: Iterable[Line], case: Case) -> int:
    """Number of the next episode of a case: one more than the largest."""
    return max((int(line["h5_episode_index"]) + 1 for line in lines if case_of(line) == case), default=0)


def episode_line(
    index: int, case: Case, number: int, *, length: int, fps: float, tasks: Sequence[str], source: Line
) -> dict[str, Any]:
    """The line of an episode in episodes.jsonl, and in the list of its case.

    Args:
        index: Its number in the dataset.
        case: Its case.
        number: Its number there.
        length: Rows.
        fps: Rows a second.
        tasks: The strings that its rows point at, its task first.
        source: Its line of episode_sources.jsonl; empty where there is none.
    """
    files = {"case_episodes": case.index, "resolved_config": case.config}
    if outcome_of(source) is not None:
        files["results"] = case.results
    return {
        "episode_index": index,
        "episode_id": f"{case.folder}/episode_{number:04d}",
        "hdf5_path": case.episode(number),
        "robot": case.robot,
        "family": case.family,
        "case": case.case,
        "h5_episode_index": number,
        "length": length,
        "fps": fps,
        "instruction": tasks[0],
        "tasks": list(tasks),
        "session": str(source.get("session") or ""),
        "files": files,
    }


def outcome_of(source: Line) -> str | None:
    """What the operator said of an episode, by its line of episode_sources.jsonl."""
    recording = source.get("recording")
    outcome = recording.get("outcome") if isinstance(recording, Mapping) else None
    return outcome if isinstance(outcome, str) and outcome else None


def tasks_of(lines: Iterable[Line]) -> tuple[str, ...]:
    """The task strings of a dataset by number: in the order in which the episodes use them."""
    return tuple(dict.fromkeys(task for line in lines for task in line["tasks"]))


def _numbered(name: str) -> Iterator[str]:
    yield name
    number = 2
    while True:
        yield f"{name}_{number}"
        number += 1

"""The lists of a dataset of HDF5 cases: episodes, cases, what is known of their configuration, outcomes."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from piper_collect.core.camera_history import cameras_content, infos_by_episode
from piper_collect.dataset.hdf5.layout import (
    CASES,
    H5_PATH,
    LEFT_OUT,
    VERSION,
    Case,
    Line,
    case_of,
    outcome_of,
    tasks_of,
)
from piper_collect.dataset.json_files import json_bytes, jsonl_bytes, read_json
from piper_collect.dataset.layout import CAMERAS, EPISODES, META
from piper_collect.dataset.metadata import whole
from piper_collect.dataset.transaction import Transaction


def cases_info(
    robot_type: Any, fps: float, features: Mapping[str, Any], lines: Sequence[Line]
) -> dict[str, Any]:
    """info.json of a dataset with these lines of episodes.jsonl."""
    frames = sum(int(line["length"]) for line in lines)
    return {
        "codebase_version": VERSION,
        "robot_type": robot_type,
        "fps": whole(fps),
        "hdf5_path": H5_PATH,
        "total_episodes": len(lines),
        "total_frames": frames,
        "total_tasks": len(tasks_of(lines)),
        "total_cases": len({case_of(line) for line in lines}),
        "total_duration_s": frames / fps,
        "left_out": dict(LEFT_OUT),
        "features": dict(features),
    }


def stage_new_line(
    change: Transaction, known: Sequence[Line], line: Line, source: Line, record: Line | None
) -> None:
    """Stage what the lists tell of an episode after the last one.

    Args:
        change: Where to.
        known: Lines of the episodes that are there.
        line: Its line of episodes.jsonl.
        source: Its line of episode_sources.jsonl; empty where there is none.
        record: Record of its session; None where there is none.
    """
    case = case_of(line)
    change.append(f"{META}/{EPISODES}", json_bytes(line, EPISODES, indent=None))
    change.append(case.index, json_bytes(line, case.index, indent=None))
    if outcome_of(source) is not None:
        change.append(case.results, json_bytes(_result(line, source), case.results, indent=None))
    if case not in map(case_of, known):
        change.append(f"{META}/{CASES}", json_bytes(_case_line(line), CASES, indent=None))
        stage_config(change, line, source, record)


def stage_config(change: Transaction, line: Line, source: Line, record: Line | None) -> None:
    """Stage what is known of the configuration of the case of ``line``, its first episode."""
    content = {
        "robot": line["robot"],
        "task": line["instruction"],
        "fps": line["fps"],
        "profile": source.get("profile"),
        "session": None if record is None else dict(record),
    }
    text = yaml.safe_dump(content, allow_unicode=True, sort_keys=False)
    change.write(case_of(line).config, text.encode("utf-8"))


def stage_lines(
    change: Transaction, before: Sequence[Line], lines: Sequence[Line], sources: Sequence[Line]
) -> None:
    """Stage all lists anew, and take out the folders of cases that have no episode left."""
    change.write(f"{META}/{EPISODES}", jsonl_bytes(lines, EPISODES))
    by_case: dict[Case, list[int]] = {}
    for index, line in enumerate(lines):
        by_case.setdefault(case_of(line), []).append(index)
    firsts = [_case_line(lines[indexes[0]]) for indexes in by_case.values()]
    change.write(f"{META}/{CASES}", jsonl_bytes(firsts, CASES))
    for case in {case_of(line): None for line in before}:
        change.remove(case.results)
        if case not in by_case:
            change.remove(case.index)
            change.remove(case.config)
    for case, indexes in by_case.items():
        change.write(case.index, jsonl_bytes([lines[i] for i in indexes], case.index))
        told = [i for i in indexes if outcome_of(sources[i]) is not None]
        if told:
            results = [_result(lines[i], sources[i]) for i in told]
            change.write(case.results, jsonl_bytes(results, case.results))


def stage_all_cameras(change: Transaction, infos: Sequence[Mapping[str, Mapping[str, object]]]) -> None:
    """Stage the calibration by camera of each episode, or take the file out where nothing is known."""
    content = cameras_content(infos)
    if content:
        change.write(CAMERAS, json_bytes(content, CAMERAS))
    else:
        change.remove(CAMERAS)


def known_cameras(root: Path, episodes: int) -> list[dict[str, Mapping[str, object]]]:
    """The calibration by camera of each episode, as far as it is known."""
    path = root / CAMERAS
    return infos_by_episode(read_json(path) if path.exists() else None, episodes)


def _case_line(line: Line) -> dict[str, Any]:
    case = case_of(line)
    return {
        "case_id": case.folder,
        "robot": case.robot,
        "family": case.family,
        "case": case.case,
        "instruction": line["instruction"],
        "session": line["session"],
        "resolved_config": case.config,
        "episodes": case.index,
    }


def _result(line: Line, source: Line) -> dict[str, Any]:
    return {
        "h5_episode_index": line["h5_episode_index"],
        "episode_id": line["episode_id"],
        "outcome": outcome_of(source),
    }

"""A recording session on disk: its folder, its episodes, and the one being recorded.

An episode is recorded in ``.recording/episode_N`` and renamed into place when it is whole, so that
every ``episode_N`` that can be seen is complete, whatever happened to the recorder.
"""

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from piper_collect.core.naming import episode_name
from piper_collect.errors import SessionError
from piper_collect.files import nearest_folder, sync, write_atomic, write_refusal

RECORDING = ".recording"
SESSION_YAML = "session.yaml"
SESSION_JSON = "session.json"
EPISODE_JSON = "episode.json"


class SessionFolder:
    """The folder ``<root>/<name>``; made when the first episode starts.

    Args:
        root: Recording root.
        name: Name of the session.
    """

    def __init__(self, root: Path, name: str) -> None:
        self.name = name
        self.path = root / name
        self._made = False

    def prepare(self, session_yaml: str, record: Mapping[str, object]) -> None:
        """Make the folder with the resolved configuration and the provenance record in it.

        Raises:
            SessionError: when it cannot be written, or was there before the first call.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=self._made)
            self._made = True
            (self.path / RECORDING).mkdir(exist_ok=True)
            write_atomic(self.path / SESSION_YAML, session_yaml)
            write_atomic(self.path / SESSION_JSON, json_text(record))
        except FileExistsError as err:
            raise SessionError(
                "there is a session of that name already",
                where=self.path,
                hint="start this recorder again, or give it a task or a root of its own",
            ) from err
        except OSError as err:
            raise SessionError(
                f"the session folder cannot be written: {err.strerror}",
                where=self.path,
                hint="choose a root that you may write to, with session.root or --root",
            ) from err

    def episodes(self) -> list[int]:
        """Numbers of the saved episodes, in order."""
        return _episode_numbers(self.path)

    def next_index(self) -> int:
        """The number that the next episode gets: never one that a folder has, finished or not."""
        return max([-1, *self.episodes(), *_episode_numbers(self.path / RECORDING)]) + 1

    def recording_path(self, index: int) -> Path:
        """Where episode ``index`` is recorded."""
        return self.path / RECORDING / episode_name(index)

    def commit(self, index: int, episode: Mapping[str, object]) -> Path:
        """Put ``episode.json`` beside the closed bag and move it into place.

        Raises:
            SessionError: when an episode of that number is there, or nothing can be written.
        """
        source, target = self.recording_path(index), self.path / episode_name(index)
        if target.exists():
            raise SessionError("an episode of that number is there already", where=target)
        try:
            write_atomic(source / EPISODE_JSON, json_text(episode))
            sync(source)
            source.rename(target)
            sync(self.path)
        except OSError as err:
            what = f"the episode cannot be moved into place: {err.strerror}"
            raise SessionError(what, where=source) from err
        return target

    def discard(self, index: int) -> None:
        """Remove what is left of the recording of episode ``index``."""
        shutil.rmtree(self.recording_path(index), ignore_errors=True)

    def delete_last(self) -> int:
        """Remove the newest saved episode and return its number.

        Raises:
            SessionError: when there is none, or it cannot be removed.
        """
        saved = self.episodes()
        if not saved:
            raise SessionError("this session has no saved episode to delete", where=self.path)
        going = self.path / RECORDING / f"deleted_{saved[-1]:06d}"
        try:
            if going.exists():  # what a killed deletion left
                shutil.rmtree(going)
            (self.path / episode_name(saved[-1])).rename(going)
            sync(self.path)
            shutil.rmtree(going)
        except OSError as err:
            raise SessionError(f"the episode cannot be removed: {err.strerror}", where=err.filename) from err
        return saved[-1]

    def close(self) -> None:
        """Remove what an empty session would leave behind; a session with episodes stays."""
        if not self._made:
            return
        recording = self.path / RECORDING
        if recording.is_dir() and not any(recording.iterdir()):
            recording.rmdir()
        if self.path.is_dir() and {p.name for p in self.path.iterdir()} <= {SESSION_YAML, SESSION_JSON}:
            shutil.rmtree(self.path)


def _episode_numbers(folder: Path) -> list[int]:
    found = []
    for path in folder.glob("episode_*"):
        number = path.name.removeprefix("episode_")
        if number.isdigit() and path.is_dir():
            found.append(int(number))
    return sorted(found)


def recorded_seconds(record: Mapping[str, Any]) -> float:
    """How long an episode is by its ``episode.json``; one that was recovered ends with its last message.

    What the clock was set by meanwhile is no part of it.
    """
    end_ns = record["episode_end_ns"]
    if end_ns is None:
        end_ns = record["recovered"]["end_ns"]
    set_ns = sum(step["step_ns"] for step in record.get("clock_steps", ()))
    return float((end_ns - set_ns - record["episode_start_ns"]) / 1e9)


def lost_messages(record: Mapping[str, Any]) -> int:
    """Messages that an ``episode.json`` knows to be lost, of all topics."""
    return sum(counts["lost"] or 0 for counts in record["topics"].values())


def find_unfinished(root: Path) -> list[Path]:
    """Recordings under ``root`` that were never finished: a recorder was killed there."""
    return sorted(p for p in root.glob(f"*/{RECORDING}/episode_*") if p.is_dir())


def check_root(root: Path) -> None:
    """Refuse a recording root that could not be written; nothing is made.

    Raises:
        SessionError: Names what is in the way.
    """
    refusal = write_refusal(root)
    if refusal:
        raise SessionError(
            f"the recording root cannot be written: {refusal}",
            where=root,
            hint="choose a folder that you may write to, with session.root or --root",
        )


def free_bytes(path: Path) -> int:
    """Free disk at ``path``, or at its nearest folder that exists."""
    stats = os.statvfs(nearest_folder(path))
    return stats.f_bavail * stats.f_frsize


def room_refusal(root: Path, min_free_gb: float) -> str:
    """Why no episode may start at ``root`` for lack of room; empty when one may."""
    free_gb = free_bytes(root) / 1e9
    return "" if free_gb >= min_free_gb else f"only {free_gb:.2f} GB free at {root}, {min_free_gb} are needed"


def json_text(value: Mapping[str, object]) -> str:
    """Strict, readable JSON."""
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"

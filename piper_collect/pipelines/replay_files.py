"""The files between a replay and its node: what is replayed, and what was done."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from piper_collect.config.motion import motion_config
from piper_collect.config.schema import SessionConfig
from piper_collect.core.kinematics import Joints
from piper_collect.core.replay import ReplayPlan, ReplayState, plan_replay
from piper_collect.core.replay_log import COMMAND_COLUMNS, MEASURED_COLUMNS, ReplayLog, replay_log
from piper_collect.core.tracks import motion_track
from piper_collect.errors import ConfigError
from piper_collect.files import write_atomic

_COMMANDS, _MEASURED, _END = "commands.csv", "measured.csv", "end.json"


def write_plan(path: Path, plan: ReplayPlan) -> None:
    """Write what is replayed; limits are not in it, they are the configuration's."""
    targets = plan.targets
    content = {
        "speed": plan.speed,
        "first_q": plan.motion.home_q,
        "time_s": targets.time_s.tolist(),
        "pose7": targets.pose7.tolist(),
        "width_m": None if targets.width_m is None else targets.width_m.tolist(),
    }
    write_atomic(path, json.dumps(content))


def read_plan(path: str, config: SessionConfig) -> ReplayPlan:
    """Read it back, under the limits of ``config``.

    Raises:
        ConfigError: There is no such file.
    """
    hint = "piper-collect replay starts this node, with a plan"
    if not path:
        raise ConfigError("no plan is given", where="parameters.plan", hint=hint)
    try:
        content: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as err:
        raise ConfigError(f"the plan cannot be read: {err}", where=path, hint=hint) from err
    width = content["width_m"]
    targets = motion_track(
        np.array(content["time_s"]), np.array(content["pose7"]), None if width is None else np.array(width)
    )
    q1, q2, q3, q4, q5, q6 = content["first_q"]
    first_q: Joints = (q1, q2, q3, q4, q5, q6)
    return plan_replay(motion_config(config), targets, content["speed"], config.replay, first_q)


class LogWriter:
    """Writes what is done, row by row, so that a crash loses nothing that was flushed.

    Args:
        folder: Where to write; it is there.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._commands, command_file = _table(folder / _COMMANDS, COMMAND_COLUMNS)
        self._measured, measured_file = _table(folder / _MEASURED, MEASURED_COLUMNS)
        self._files = (command_file, measured_file)

    def command(self, row: Sequence[object]) -> None:
        """Append a row of ``COMMAND_COLUMNS``."""
        self._commands.writerow(row)

    def measured(self, row: Sequence[object]) -> None:
        """Append a row of ``MEASURED_COLUMNS``."""
        self._measured.writerow(row)

    def close(self, phase: str, reason: str, waited_s: float) -> None:
        """Say how it ended."""
        for file in self._files:
            file.close()
        write_atomic(
            self._folder / _END, json.dumps({"phase": phase, "reason": reason, "waited_s": waited_s})
        )


def close_log(writer: LogWriter, state: ReplayState | None, reason: str) -> None:
    """Say how a replay ended that got as far as ``state``; None is one that never began."""
    phase = "waiting" if state is None else state.phase
    writer.close(phase, reason, 0.0 if state is None else state.waited_s)


def read_log(folder: Path) -> ReplayLog | None:
    """What was done; None where the node ended before it could say."""
    end = folder / _END
    if not end.is_file():
        return None
    said = json.loads(end.read_text(encoding="utf-8"))
    return replay_log(
        _rows(folder / _COMMANDS),
        _rows(folder / _MEASURED),
        phase=said["phase"],
        reason=said["reason"],
        waited_s=said["waited_s"],
    )


def _table(path: Path, columns: Sequence[str]) -> tuple[Any, TextIO]:
    file = path.open("w", newline="", encoding="utf-8")
    writer = csv.writer(file)
    writer.writerow(columns)
    return writer, file


def _rows(path: Path) -> list[list[str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))[1:]

"""The time of the rows: increasing, at the rate that is told, from the start of the episode on."""

import numpy as np

from piper_collect.core.findings import Findings, Level
from piper_collect.core.types import FloatArray
from piper_collect.dataset.parquet import TIMESTAMP
from piper_collect.pipelines.validation.rows import EpisodeRows

_RATE_TOLERANCE = 0.05
_OTHER_RATE = 0.25
_LONG_STEPS = 1.5
_HOLE_STEPS = 5.0


def check_times(rows: EpisodeRows, fps: float, findings: Findings) -> None:
    """Whether ``timestamp`` increases, agrees with ``fps``, has holes, and starts with the episode."""
    if TIMESTAMP not in rows.cells or not rows.length:
        if rows.length:
            findings.add("error", "timestamps", rows.where, f"there is no column {TIMESTAMP}")
        return
    row_s = rows.row_s
    if row_s is None:
        if rows.cells[TIMESTAMP].shape[1] != 1:
            findings.add("error", "timestamps", rows.where, f"{TIMESTAMP} is not one number a row")
        return
    steps = np.diff(row_s)
    back = np.flatnonzero(steps <= 0)
    if back.size:
        text = f"timestamp does not increase at {back.size} rows, first at row {back[0] + 1}"
        findings.add("error", "timestamps", rows.where, text)
        return
    _check_rate(rows.where, steps, fps, findings)
    if abs(row_s[0]) > 0.5 / fps:
        text = (
            f"timestamp starts at {row_s[0]:.3f} s, not at 0: where the videos start at 0, "
            f"each row shows a frame {row_s[0] * fps:.1f} periods on"
        )
        findings.add("warning", "start", rows.where, text)


def _check_rate(where: str, steps: FloatArray, fps: float, findings: Findings) -> None:
    if not len(steps):
        return
    rate = 1.0 / float(np.median(steps))
    off = abs(rate / fps - 1)
    if off > _RATE_TOLERANCE:
        text = f"rows come at {rate:.3f} Hz (median), info.json says {fps:g}"
        # a computer without time to spare makes rows of true capture times rarer, but not by this much
        findings.add("error" if off > _OTHER_RATE else "warning", "fps", where, text)
        return
    long = np.flatnonzero(steps > _LONG_STEPS / fps)
    if long.size:
        worst = int(np.argmax(steps))
        level: Level = "warning" if steps[worst] > _HOLE_STEPS / fps else "info"
        text = (
            f"{long.size} steps from row to row are longer than {_LONG_STEPS:g} periods, "
            f"the longest {steps[worst] * 1e3:.1f} ms before row {worst + 1}"
        )
        findings.add(level, "row-gaps", where, text)

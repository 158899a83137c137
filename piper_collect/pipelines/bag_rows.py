"""What the sources of a bag hold, and the rows that an export would make of them."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from piper_collect.config.profile import Profile
from piper_collect.core.findings import Finding
from piper_collect.core.sampling import ROTATION_WIDTHS
from piper_collect.core.types import BoolArray, Episode, RawEpisode, Stream
from piper_collect.pipelines.bag_episodes import LONGEST_S
from piper_collect.pipelines.bag_findings import finding

_NS_PER_S = 1e9
_NORM_TOLERANCE = 1e-2
_LATE_T0_NS = 1_000_000_000


def value_findings(raw: RawEpisode, profile: Profile, where: str) -> Iterator[Finding]:
    """Values that alignment refuses: not finite, or no rotation."""
    rotations = {c.source for c in profile.columns if c.source and c.rotation == "quat_wxyz"}
    for key in dict.fromkeys(c.source for c in profile.columns if c.source):
        stream = raw.streams.get(key)
        if stream is None:
            continue
        inside = (stream.stamp_ns >= raw.start_ns) & (stream.stamp_ns <= raw.end_ns)
        values = stream.values[inside]
        bad: BoolArray = np.logical_not(np.isfinite(values).all(axis=1))
        if bad.any():
            text = f"{_counted(bad)} messages hold values that are not finite"
            yield finding("error", "not-finite", _at(where, stream), text)
        elif key in rotations and values.shape[1] in ROTATION_WIDTHS and len(values):
            norm = np.sqrt(np.sum(values[:, -4:] ** 2, axis=1))
            off: BoolArray = np.abs(norm - 1.0) > _NORM_TOLERANCE
            if off.any():
                worst = norm[np.argmax(np.abs(norm - 1.0))]
                text = f"{_counted(off)} quaternions are not unit, the worst has norm {worst:.6g}"
                yield finding("error", "quaternion-norm", _at(where, stream), text)


def alignment_findings(raw: RawEpisode, episode: Episode, where: str) -> Iterator[Finding]:
    """Rows that are missing, held or late, and episodes that a trainer finds too long."""
    counts: Mapping[str, Any] = episode.counts
    if counts["gaps"]:
        text = f"{counts['gaps']} of {counts['slots']} slots hold no commanded target: no row there"
        yield finding("warning", "row-gaps", where, text)
    if counts["dropped"]:
        by = ", ".join(f"{k} {n}" for k, n in counts["dropped_by_source"].items())
        text = f"{counts['dropped']} of {counts['slots']} rows lack a fresh value and are dropped ({by})"
        yield finding("warning", "rows-dropped", where, text)
    held = counts.get("held_by_source")
    if held:
        by = ", ".join(f"{k} {n}" for k, n in held.items())
        text = f"of {counts['slots']} rows some show a value older than its max_age and are marked ({by})"
        yield finding("warning", "rows-held", where, text)
    seconds = float(episode.tick_ns[-1] - episode.tick_ns[0]) / _NS_PER_S
    if seconds > LONGEST_S:
        text = f"{seconds:.0f} s long: stock LeRobot's check of float32 timestamps refuses an episode over "
        yield finding("warning", "long-episode", where, f"{text}{LONGEST_S:.0f} s; export can --split it")
    late_ns = episode.t0_ns - raw.start_ns
    if late_ns > _LATE_T0_NS:
        text = f"rows begin {late_ns / _NS_PER_S:.3f} s after the start: not everything was fresh before"
        yield finding("warning", "late-start", where, text)
    for name, frames in counts["frames"].items():
        if not frames["kept"]:
            text = "no frame lies between the first row and the last: the export refuses the episode"
            yield finding("error", "no-frames", f"{where} camera {name}", text)


def _at(where: str, stream: Stream) -> str:
    return f"{where} {stream.topic} ({stream.key})"


def _counted(flags: BoolArray) -> str:
    return f"{np.count_nonzero(flags)} of {len(flags)}"


def alignment_facts(raw: RawEpisode, episode: Episode) -> dict[str, Any]:
    """Rows, T0 and counts of an aligned episode (JSON values)."""
    ticks = episode.tick_ns
    return {
        "rows": episode.length,
        "seconds": round(float(ticks[-1] - ticks[0]) / _NS_PER_S, 3),
        "t0_ns": episode.t0_ns,
        "t0_after_start_s": round((episode.t0_ns - raw.start_ns) / _NS_PER_S, 6),
        **{k: v for k, v in episode.counts.items() if k != "rows"},
    }

"""What real consumers do with the timing of a dataset, predicted from the times alone.

The rules are those of ``core.pairing``; the messages name the kind of error that the consumer raises.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from piper_collect.core.pairing import (
    Choice,
    VideoTiming,
    choose_by_number,
    choose_by_rate,
    choose_nearest,
    choose_nearest_from_start,
    choose_shown,
    distance_s,
    newest_frames,
    sync_error_s,
)
from piper_collect.core.survey import ConsumerOutlook
from piper_collect.core.types import FloatArray

LEROBOT_PYAV = "LeRobot 0.3.2/0.3.3, pyav"
LEROBOT_TORCHCODEC = "LeRobot 0.3.2/0.3.3, torchcodec"
LEROBOT_V3 = "LeRobot 0.4.4, converted to v3.0"
GROOT_N15 = "GR00T n1.5, torchcodec"
GROOT_N15_DECORD = "GR00T n1.5, decord"
GROOT_N16 = "GR00T n1.6"
GROOT_N17 = "GR00T n1.7"
CONSUMERS = (LEROBOT_PYAV, LEROBOT_TORCHCODEC, LEROBOT_V3, GROOT_N15, GROOT_N15_DECORD, GROOT_N16, GROOT_N17)

TOLERANCE_S = 1e-4
"""LeRobot's default ``tolerance_s``."""

_ROUNDING_S = 1e-3  # PTS may be rounded to ms, in either direction

_RULES: dict[str, Callable[[FloatArray, VideoTiming], Choice]] = {
    LEROBOT_PYAV: choose_nearest,
    LEROBOT_TORCHCODEC: choose_by_rate,
    LEROBOT_V3: choose_by_rate,
    GROOT_N15: choose_shown,
    GROOT_N15_DECORD: choose_nearest_from_start,
    GROOT_N16: choose_by_number,
    GROOT_N17: choose_by_number,
}
_LEROBOT = (LEROBOT_PYAV, LEROBOT_TORCHCODEC, LEROBOT_V3)
_SYNCED = (LEROBOT_PYAV, LEROBOT_TORCHCODEC)
_ERRORS = {
    LEROBOT_PYAV: "AssertionError",
    LEROBOT_TORCHCODEC: "AssertionError",
    LEROBOT_V3: "FrameTimestampError",
}


@dataclass(slots=True, kw_only=True)
class _Tally:
    """What one consumer met so far."""

    refusals: int = 0
    first_refusal: str = ""
    far_rows: int = 0
    far_s: float = 0.0
    first_far: str = ""
    worst_s: float = 0.0
    wrong_rows: int = 0


@dataclass(slots=True, kw_only=True)
class TimingTally:
    """Gathers, video by video, what each consumer would do; nothing grows with the number of episodes.

    Attributes:
        fps: The rate in info.json.
        steps: Steps from row to row so far.
        late_steps: Those that differ from 1/fps by more than LeRobot's default tolerance.
        sync_s: Largest difference.
    """

    fps: float
    steps: int = 0
    late_steps: int = 0
    sync_s: float = 0.0
    _first_late: str = field(default="", init=False)
    _length_error_s: float = field(default=0.0, init=False)
    _tallies: dict[str, _Tally] = field(
        default_factory=lambda: {name: _Tally() for name in CONSUMERS}, init=False
    )

    def add_rows(self, episode: int, row_s: FloatArray) -> None:
        """Take the rows of an episode: float64 [T] of the float32 values stored."""
        error = sync_error_s(row_s, self.fps)
        self.steps += len(error)
        late = np.flatnonzero(~(error <= TOLERANCE_S))
        if late.size and not self._first_late:
            self._first_late = f"episode {episode}, row {int(late[0]) + 1}"
        self.late_steps += int(late.size)
        self.sync_s = max(self.sync_s, float(np.max(error, initial=0.0)))

    def add_video(
        self,
        episode: int,
        key: str,
        row_s: FloatArray,
        video: VideoTiming,
        consumers: Iterable[str] = CONSUMERS,
    ) -> None:
        """Take one video of an episode, the rows beside it, and the consumers that open it."""
        where = f"episode {episode}, {key}"
        right = newest_frames(row_s, video.pts_s)
        self._length_error_s += abs(video.end_s - len(video.pts_s) / self.fps)
        for name in consumers:
            tally, choice = self._tallies[name], _RULES[name](row_s, video)
            if choice.refusal:
                tally.refusals += 1
                tally.first_refusal = tally.first_refusal or f"{where}: {choice.refusal}"
                continue
            away = distance_s(row_s, video.pts_s, choice.frame)
            tally.worst_s = max(tally.worst_s, float(np.max(away, initial=0.0)))
            tally.wrong_rows += int(np.count_nonzero((choice.frame != right) & (away > _ROUNDING_S)))
            if name in _LEROBOT:
                far = np.flatnonzero(~(away < TOLERANCE_S))
                tally.far_rows += int(far.size)
                tally.far_s = max(tally.far_s, float(np.max(away, initial=0.0)))
                if far.size and not tally.first_far:
                    tally.first_far = f"{where}, row {int(far[0])}"

    def needed_tolerance_s(self, name: str) -> float | None:
        """The smallest ``tolerance_s`` at which LeRobot 0.3.x would load; None where none helps.

        Rows must differ by at most the tolerance, frames by less than it.
        """
        tally = self._tallies[name]
        return None if tally.refusals else max(self.sync_s, tally.far_s)

    def reasons(self, name: str) -> tuple[str, ...]:
        """Why ``name`` would refuse the timing, in the order it meets them; empty when it would not."""
        tally, reasons = self._tallies[name], []
        if name in _SYNCED and self.late_steps:
            reasons.append(
                f"ValueError when it opens: {self.late_steps} of {self.steps} steps from row to row differ "
                f"from 1/{self.fps:g} s by more than {TOLERANCE_S:g} s, at worst {self.sync_s * 1e3:.3f} ms "
                f"(first {self._first_late})"
            )
        if tally.refusals:
            kind = "IndexError or RuntimeError" if name in _LEROBOT else "RuntimeError"
            reasons.append(f"{kind}: {tally.first_refusal} ({tally.refusals} videos)")
        if tally.far_rows:
            reasons.append(
                f"{_ERRORS[name]}: {tally.far_rows} rows lie {TOLERANCE_S:g} s or more from their frame, at "
                f"worst {tally.far_s * 1e3:.3f} ms (first {tally.first_far})"
            )
        if name == LEROBOT_V3 and self._length_error_s >= TOLERANCE_S and not reasons:
            reasons.append(
                f"{_ERRORS[name]}: it joins the videos, and their lengths differ from frames/fps by "
                f"{self._length_error_s * 1e3:.3f} ms in all"
            )
        return tuple(reasons)

    def outlook(self, name: str, demands: Mapping[str, tuple[str, ...]], note: str = "") -> ConsumerOutlook:
        """The prediction for one consumer.

        Args:
            name: One of ``CONSUMERS``.
            demands: By consumer, what it would refuse in the metadata.
            note: What else is to be said of it.
        """
        reasons = (*demands.get(name, ()), *self.reasons(name))
        if reasons:
            return ConsumerOutlook(consumer=name, loads=False, reason="; ".join(reasons), note=note)
        tally = self._tallies[name]
        return ConsumerOutlook(
            consumer=name, loads=True, worst_ms=tally.worst_s * 1e3, wrong_rows=tally.wrong_rows, note=note
        )

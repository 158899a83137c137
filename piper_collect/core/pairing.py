"""Which frame of a video goes with which row, and how real loaders choose it.

The rule of this project is hold: a row shows the newest frame that is not after it. The loaders have
rules of their own, repeated here as they are written (LeRobot 0.3.3 ``datasets/video_utils.py``,
torchcodec 0.5, decord, Isaac-GR00T n1.5 to n1.7).

Rows are float64 [T] seconds holding the float32 values that a loader sees; frames are float64 [F]
presentation times in seconds, increasing.
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from piper_collect.core.types import FloatArray

IndexArray: TypeAlias = NDArray[np.int64]

_SLACK_S = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VideoTiming:
    """What a loader knows of a video's time.

    Attributes:
        pts_s: float64 [F] presentation times, increasing.
        end_s: End of the last frame; its PTS where packets have no duration.
        rate_hz: Frames a second as FFmpeg guesses them from the header (``r_frame_rate``), which
            torchcodec calls the average; 0 where it does not say.
        header_frames: Number of frames as the header has it; 0 where it does not say.
        time_base_s: One tick of the PTS.
    """

    pts_s: FloatArray
    end_s: float
    rate_hz: float
    header_frames: int
    time_base_s: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Choice:
    """The frames that a loader takes for the rows, or why it stops.

    Attributes:
        frame: int64 [T] frame numbers; empty when it stops.
        refusal: What it stops at; empty when it does not.
    """

    frame: IndexArray
    refusal: str = ""


def newest_frames(row_s: FloatArray, pts_s: FloatArray) -> IndexArray:
    """The newest frame not after each row, -1 where there is none yet: int64 [T].

    Rows are rounded to float32, so a frame counts as not after its row up to one step of float32 (and a
    microsecond, for videos that count in those) behind it.
    """
    slack_s = np.spacing(row_s.astype(np.float32)).astype(np.float64) + _SLACK_S
    return _last_not_after(row_s + slack_s, pts_s)


def _last_not_after(time_s: FloatArray, pts_s: FloatArray) -> IndexArray:
    return np.searchsorted(pts_s, time_s, side="right").astype(np.int64) - 1


def gaps_ms(row_s: FloatArray, pts_s: FloatArray, newest: IndexArray) -> FloatArray:
    """Age of the frame ``newest`` at each row in ms, NaN where there is none: float64 [T]."""
    age = np.full(len(row_s), np.nan)
    seen = newest >= 0
    age[seen] = (row_s[seen] - pts_s[newest[seen]]) * 1e3
    return age


def sync_error_s(row_s: FloatArray, fps: float) -> FloatArray:
    """|step - 1/fps| from row to row, in float32 as LeRobot's ``check_timestamps_sync`` has it: [T - 1]."""
    steps = np.diff(row_s.astype(np.float32))
    error: FloatArray = np.abs(steps - np.float32(1.0 / fps)).astype(np.float64)
    return error


def distance_s(row_s: FloatArray, pts_s: FloatArray, frame: IndexArray) -> FloatArray:
    """|row - frame|, in float32 as LeRobot's decoders compare it with the tolerance: float64 [T]."""
    rows, frames = row_s.astype(np.float32), pts_s.astype(np.float32)
    away: FloatArray = np.abs(rows - frames[frame]).astype(np.float64)
    return away


def choose_nearest(row_s: FloatArray, video: VideoTiming) -> Choice:
    """LeRobot with pyav: the nearest frame."""
    return _nearest(row_s, video.pts_s)


def choose_nearest_from_start(row_s: FloatArray, video: VideoTiming) -> Choice:
    """GR00T n1.5 with decord: the nearest frame, but decord counts time from the first one."""
    return _nearest(row_s, video.pts_s - (video.pts_s[0] if len(video.pts_s) else 0.0))


def _nearest(row_s: FloatArray, pts: FloatArray) -> Choice:
    if not len(pts):
        return Choice(frame=_NONE, refusal="the video has no frames")
    after = np.clip(np.searchsorted(pts, row_s), 0, len(pts) - 1)
    before = np.maximum(after - 1, 0)
    return Choice(frame=np.where(row_s - pts[before] <= pts[after] - row_s, before, after).astype(np.int64))


def choose_by_rate(row_s: FloatArray, video: VideoTiming) -> Choice:
    """LeRobot with torchcodec: frame ``round(t * rate)``, found by seeking to its nominal time."""
    if not len(video.pts_s) or not video.rate_hz > 0:
        return Choice(frame=_NONE, refusal="the video does not tell its frame rate")
    wanted = np.rint(row_s * video.rate_hz)
    frames = video.header_frames or len(video.pts_s)
    over = np.flatnonzero(wanted >= frames)
    if over.size:
        row = int(over[0])
        text = f"frame {int(wanted[row])} asked for row {row}, the video has {frames}"
        return Choice(frame=_NONE, refusal=text)
    ticks = np.rint(video.pts_s / video.time_base_s)
    cursor = np.rint(wanted / video.rate_hz / video.time_base_s)
    found = np.searchsorted(ticks, cursor).astype(np.int64)
    lost = np.flatnonzero(found >= len(ticks))
    if lost.size:
        return Choice(frame=_NONE, refusal=f"no frame after the nominal time of row {int(lost[0])}")
    return Choice(frame=found)


def choose_shown(row_s: FloatArray, video: VideoTiming) -> Choice:
    """GR00T n1.5 with torchcodec: the frame being shown, PTS <= t < end of the video."""
    if not len(video.pts_s):
        return Choice(frame=_NONE, refusal="the video has no frames")
    first = float(video.pts_s[0])
    early, late = np.flatnonzero(row_s < first), np.flatnonzero(row_s >= video.end_s)
    if early.size:
        row = int(early[0])
        text = f"row {row} at {row_s[row]:.6f} s lies before the first frame at {first:.6f} s"
        return Choice(frame=_NONE, refusal=text)
    if late.size:
        row = int(late[0])
        text = f"row {row} at {row_s[row]:.6f} s lies at or after the end of the video at {video.end_s:.6f} s"
        return Choice(frame=_NONE, refusal=text)
    return Choice(frame=_last_not_after(row_s, video.pts_s))


def choose_by_number(row_s: FloatArray, video: VideoTiming) -> Choice:
    """GR00T n1.6 and n1.7: frame k for row k, whatever its time."""
    if len(video.pts_s) < len(row_s):
        text = f"frame {len(video.pts_s)} asked for, the video has {len(video.pts_s)} for {len(row_s)} rows"
        return Choice(frame=_NONE, refusal=text)
    return Choice(frame=np.arange(len(row_s), dtype=np.int64))


_NONE: IndexArray = np.empty(0, dtype=np.int64)

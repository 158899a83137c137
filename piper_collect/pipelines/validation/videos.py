"""The videos of one episode: as long and as large as told, in time with the rows, and showing something."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from piper_collect.core import luma
from piper_collect.core.findings import Findings
from piper_collect.core.pairing import gaps_ms, newest_frames
from piper_collect.core.survey import CameraSurvey, PictureSurvey
from piper_collect.core.types import FloatArray
from piper_collect.dataset.layout import EPISODES
from piper_collect.dataset.pictures import survey_pictures
from piper_collect.dataset.probe import VideoProbe, probe_video
from piper_collect.errors import DatasetError
from piper_collect.pipelines.validation.json_values import as_int, as_number, as_object, as_text
from piper_collect.pipelines.validation.metadata import FeatureInfo, Metadata
from piper_collect.pipelines.validation.rows import EpisodeRows

_MOST_GAP_S = 0.2
_MOST_GAP_STEPS = 5.0
_FEW_FRAMES = 0.8
_FROZEN_S = 0.5
_FROZEN_FRAMES = 5
_MANY_REPEATS = 0.05
_FEW_REPEATS = 3
_STIRS = 0.01  # of whatever unit: less is noise
_MOVES = 0.2  # of its range in the episode
_RATE_TOLERANCE = 0.05


def survey_video(
    meta: Metadata, rows: EpisodeRows, key: str, *, decode: bool, findings: Findings
) -> tuple[CameraSurvey, VideoProbe] | None:
    """Look at one video of an episode; None where it cannot be read."""
    where = f"{rows.where}, {key}"
    path = meta.video_path(rows.index, key)
    try:
        probe = probe_video(path)
    except DatasetError as err:
        findings.add("error", "video-unreadable", where, str(err))
        return None
    pts_s, row_s = probe.pts_s, rows.row_s
    times = row_s if row_s is not None else np.empty(0)
    newest = newest_frames(times, pts_s)
    gap_ms = gaps_ms(times, pts_s, newest)
    _check_header(meta.features[key], probe, where, findings)
    _check_count(rows, key, probe, where, findings)
    if row_s is not None and len(pts_s) and len(row_s):
        _check_gaps(where, row_s, pts_s, gap_ms, meta.fps, findings)
    pictures = None
    if decode:
        try:
            pictures = survey_pictures(path, len(pts_s))
        except DatasetError as err:
            findings.add("error", "frames-undecodable", where, f"of {len(pts_s)}: {err}")
        else:
            held = held_frames(rows, key, newest, len(pts_s))
            _check_pictures(rows, where, pts_s, pictures, held, findings)
            if len(pictures.mean) != len(pts_s):
                text = f"{len(pictures.mean)} frames can be decoded of {len(pts_s)} in the file"
                findings.add("error", "frames-undecodable", where, text)
    survey = CameraSurvey(key=key, pts_s=pts_s, newest=newest, gap_ms=gap_ms, pictures=pictures)
    return survey, probe


def _check_header(feature: FeatureInfo, probe: VideoProbe, where: str, findings: Findings) -> None:
    declared = feature.frame_size
    if declared is not None and declared != probe.size:
        text = (
            f"pictures are {probe.size[0]}x{probe.size[1]} (height x width), "
            f"info.json says {declared[0]}x{declared[1]}"
        )
        findings.add("error", "video-size", where, text)
    told: Mapping[str, Any] = feature.video
    codec = as_text(told.get("video.codec"))
    if codec and codec not in (probe.codec, _CODEC_NAMES.get(probe.codec)):
        findings.add("warning", "video-info", where, f"is {probe.codec}, info.json says {codec}")
    pix_fmt = as_text(told.get("video.pix_fmt"))
    if pix_fmt and pix_fmt != probe.pix_fmt:
        findings.add("warning", "video-info", where, f"is {probe.pix_fmt}, info.json says {pix_fmt}")
    fps = as_number(told.get("video.fps"))
    if fps and probe.average_fps and abs(probe.average_fps / fps - 1) > _RATE_TOLERANCE:
        text = f"has {probe.average_fps:.3f} frames a second, info.json says {fps:g}"
        findings.add("warning", "video-info", where, text)


_CODEC_NAMES = {"libdav1d": "av1", "libaom-av1": "av1", "av1": "libsvtav1", "hevc": "h265", "h264": "avc1"}


def _check_count(rows: EpisodeRows, key: str, probe: VideoProbe, where: str, findings: Findings) -> None:
    if not len(probe.pts):
        findings.add("error", "frame-count", where, "the video has no frames")
        return
    if probe.repeated_pts or probe.missing_pts:
        text = (
            f"presentation times do not increase: {probe.repeated_pts} frames have the time of another one, "
            f"{probe.missing_pts} have none"
        )
        findings.add("error", "pts", where, text)
    lengths = as_object(rows.line.get("video_frame_lengths"))
    if key in lengths and as_int(lengths[key]) != len(probe.pts):
        text = f"{len(probe.pts)} frames in the file, {EPISODES} says {lengths[key]}"
        findings.add("error", "frame-count", where, text)
    if len(probe.pts) < _FEW_FRAMES * rows.length:
        text = f"{len(probe.pts)} frames for {rows.length} rows"
        findings.add("warning", "few-frames", where, text)


def check_least_count(rows: EpisodeRows, required: bool, findings: Findings) -> None:
    """``video_frame_length`` is the least of ``video_frame_lengths``, which are there where ``required``."""
    if required and not as_object(rows.line.get("video_frame_lengths")):
        findings.add("warning", "frame-count", rows.where, f"{EPISODES} tells no video_frame_lengths")
    lengths = [
        n for n in map(as_int, as_object(rows.line.get("video_frame_lengths")).values()) if n is not None
    ]
    if lengths and as_int(rows.line.get("video_frame_length")) != min(lengths):
        text = f"video_frame_length is {rows.line.get('video_frame_length')}, the least is {min(lengths)}"
        findings.add("error", "frame-count", rows.where, text)


def _check_gaps(
    where: str, row_s: FloatArray, pts_s: FloatArray, gap_ms: FloatArray, fps: float, findings: Findings
) -> None:
    """No row goes without a frame for long."""
    slack_s = max(_MOST_GAP_STEPS / fps, _MOST_GAP_S)
    late_s = float(pts_s[0] - row_s[0])
    if late_s > slack_s:
        early = int(np.count_nonzero(np.isnan(gap_ms)))
        text = f"the first frame comes {late_s:.3f} s after the first row; {early} rows have none before it"
        findings.add("error", "time-span", where, text)
    if np.isnan(gap_ms).all():
        return
    worst = int(np.nanargmax(gap_ms))
    if gap_ms[worst] > slack_s * 1e3:
        text = (
            f"row {worst} at {row_s[worst]:.3f} s shows a frame that is {gap_ms[worst]:.0f} ms old "
            f"(frames span {pts_s[0]:.3f} to {pts_s[-1]:.3f} s, rows {row_s[0]:.3f} to {row_s[-1]:.3f} s)"
        )
        findings.add("error", "time-span", where, text)
    elif gap_ms[worst] > 2e3 / fps:
        old = int(np.count_nonzero(np.nan_to_num(gap_ms) > 2e3 / fps))
        text = f"{old} rows show a frame that is more than two periods old, at worst {gap_ms[worst]:.1f} ms"
        findings.add("warning", "frame-gap", where, f"{text} (row {worst})")
    over_s = float(pts_s[-1] - row_s[-1])
    if over_s > slack_s:
        findings.add("error", "time-span", where, f"frames go on for {over_s:.3f} s after the last row")


def held_frames(rows: EpisodeRows, key: str, newest: NDArray[np.int64], frames: int) -> NDArray[np.bool_]:
    """Frames that the dataset itself marks as showing the sample before again (``source_state``)."""
    held = np.zeros(frames, dtype=np.bool_)
    states = rows.cells.get(f"source_state.{key.rpartition('.')[2]}")
    if states is not None and states.shape == (len(newest), 1):
        marked = newest[(states[:, 0] != 0) & (newest >= 0)]
        held[marked] = True
    return held


def _check_pictures(
    rows: EpisodeRows,
    where: str,
    pts_s: FloatArray,
    pictures: PictureSurvey,
    held: NDArray[np.bool_],
    findings: Findings,
) -> None:
    count = min(len(pictures.mean), len(pts_s))
    if not count:
        return
    change = pictures.change[:count]
    empty = luma.flat(pictures.contrast[:count])
    same = luma.repeated(change, pictures.key[:count]) & ~held[:count] & ~empty
    for first, end in luma.runs(same):
        lasts_s = float(pts_s[end - 1] - pts_s[first - 1])
        if end - first >= _FROZEN_FRAMES and lasts_s >= _FROZEN_S:
            moving = _moving(rows, float(pts_s[first - 1]), float(pts_s[end - 1]))
            if moving:
                text = (
                    f"the picture stands still for {lasts_s:.2f} s from {pts_s[first - 1]:.3f} s on "
                    f"({end - first + 1} equal frames), while {moving} moves"
                )
                findings.add("warning", "frozen-frames", where, text)
    repeats = luma.stutters(change, same)
    if repeats >= _FEW_REPEATS and repeats > _MANY_REPEATS * count:
        text = f"{repeats} of {count} frames are the picture of the frame before, amid motion"
        findings.add("warning", "repeated-frames", where, text)
    if empty.any():
        first = int(np.flatnonzero(empty)[0])
        black = "black" if pictures.mean[first] < luma.BLACK_LUMA else "of one colour"
        text = f"{np.count_nonzero(empty)} of {count} frames are {black}, first at {pts_s[first]:.3f} s"
        findings.add("warning", "flat-frames", where, text)


def _moving(rows: EpisodeRows, first_s: float, last_s: float) -> str:
    """The first observation that moves in a span of time; "something" where there is none to ask."""
    observed = {k: c for k, c in rows.cells.items() if k.startswith("observation.") and c.dtype.kind == "f"}
    if not observed or rows.row_s is None:
        return "something"
    inside = (rows.row_s >= first_s) & (rows.row_s <= last_s)
    for key, cells in observed.items():
        if np.count_nonzero(inside) < 2 or not np.isfinite(cells).all():
            continue
        whole, part = np.ptp(cells, axis=0), np.ptp(cells[inside], axis=0)
        if np.any((whole > _STIRS) & (part > _MOVES * whole)):
            return key
    return ""

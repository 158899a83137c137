"""``modality.json``: slices inside their columns, columns that exist, and none left out."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from piper_collect.core.findings import Findings
from piper_collect.dataset.layout import META, MODALITY
from piper_collect.pipelines.validation.json_values import as_int, as_object, as_text, original_key, shown
from piper_collect.pipelines.validation.metadata import FeatureInfo, Metadata

WHERE = f"{META}/{MODALITY}"
DEFAULT_COLUMNS = {"state": "observation.state", "action": "action"}
"""Column that an entry without ``original_key`` slices."""

GROOT_ROTATIONS = (
    "axis_angle",
    "quaternion",
    "rotation_6d",
    "matrix",
    "euler_angles_rpy",
    "euler_angles_ryp",
    "euler_angles_pry",
    "euler_angles_pyr",
    "euler_angles_yrp",
    "euler_angles_ypr",
)
"""``rotation_type`` words that GR00T n1.5 knows."""

ROTATIONS = (*GROOT_ROTATIONS, "quat_wxyz")


def check_modality(meta: Metadata, findings: Findings) -> None:
    """Check every entry against the features of info.json."""
    modality = meta.modality
    if modality is None:
        if not meta.has(MODALITY):
            findings.add("info", "no-modality", WHERE, "the file is missing; GR00T needs it")
        return
    for group in ("state", "action", "video"):
        if not isinstance(modality.get(group), dict):
            text = f"{group} is {shown(modality.get(group))}, not an object"
            findings.add("error", "modality", WHERE, text)
    for group, default in DEFAULT_COLUMNS.items():
        covered: dict[str, NDArray[np.bool_]] = {}
        for name, entry in as_object(modality.get(group)).items():
            _check_slice(meta, f"{WHERE}, {group}.{name}", entry, default, covered, findings)
        _check_covered(meta, group, default, covered, findings)
    _check_videos(meta, as_object(modality.get("video")), findings)
    _check_annotations(meta, as_object(modality.get("annotation")), findings)


def _check_slice(
    meta: Metadata,
    where: str,
    entry: object,
    default: str,
    covered: dict[str, NDArray[np.bool_]],
    findings: Findings,
) -> None:
    if not isinstance(entry, dict):
        findings.add("error", "modality", where, f"is {shown(entry)}, not an object")
        return
    key = original_key(entry, default)
    feature = meta.features.get(key)
    if feature is None or feature.dtype in ("video", "image"):
        findings.add("error", "modality", where, f"slices {shown(key)}, which info.json does not have")
        return
    width = feature.shape[0] if len(feature.shape) == 1 else 0
    start, end = as_int(entry.get("start")), as_int(entry.get("end"))
    if start is None or end is None or not 0 <= start < end <= width:
        span = f"{shown(entry.get('start'))}:{shown(entry.get('end'))}"
        findings.add("error", "modality", where, f"slices {span} of {key}, which has {width} elements")
        return
    covered.setdefault(feature.key, np.zeros(width, dtype=np.bool_))[start:end] = True
    rotation = entry.get("rotation_type")
    if rotation is not None and rotation not in ROTATIONS:
        text = f"rotation_type is {shown(rotation)}; known are {', '.join(ROTATIONS)}"
        findings.add("warning", "modality", where, text)
    if as_text(rotation).startswith("quat") and end - start != 4:
        findings.add("error", "modality", where, f"a quaternion of {end - start} elements")


def _check_covered(
    meta: Metadata, group: str, default: str, covered: Mapping[str, NDArray[np.bool_]], findings: Findings
) -> None:
    """No element of a column is left out; where the concatenated column is told whole, it stands for all."""
    if default in covered and covered[default].all():
        return
    for key, feature in meta.features.items():
        if not _belongs(group, feature) or (key == default and key not in covered and len(covered)):
            continue
        told = covered.get(key)
        if told is None:
            findings.add("warning", "modality", WHERE, f"no entry of {group} slices {key}")
        elif not told.all():
            missing = np.flatnonzero(~told).tolist()
            text = f"no entry of {group} covers elements {shown(missing)} of {key}"
            findings.add("warning", "modality", WHERE, text)


def _belongs(group: str, feature: FeatureInfo) -> bool:
    if feature.dtype not in ("float32", "float64") or len(feature.shape) != 1:
        return False
    if group == "state":
        return feature.key.startswith("observation.")
    return feature.key == "action" or feature.key.startswith("action.")


def _check_videos(meta: Metadata, videos: Mapping[str, object], findings: Findings) -> None:
    named = set()
    for name, entry in videos.items():
        key = original_key(entry, f"observation.images.{name}")
        if key not in meta.video_keys:
            text = f"shows {shown(key)}, which is no video in info.json"
            findings.add("error", "modality", f"{WHERE}, video.{name}", text)
        named.add(key)
    for key in meta.video_keys:
        if key not in named:
            findings.add("warning", "modality", WHERE, f"no entry of video shows {key}")


def _check_annotations(meta: Metadata, annotations: Mapping[str, object], findings: Findings) -> None:
    for name, entry in annotations.items():
        key = original_key(entry, "")
        if key and key not in meta.features:
            text = f"reads {shown(key)}, which info.json does not have"
            findings.add("error", "modality", f"{WHERE}, annotation.{name}", text)

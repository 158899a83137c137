"""The columns and features that the format asks for by name (profile ``piper`` and what builds on it)."""

from piper_collect.config.profile import load_profile
from piper_collect.config.share import share_dir
from piper_collect.core.findings import Findings
from piper_collect.dataset.embodiment import EMBODIMENT, known_embodiment
from piper_collect.dataset.layout import INFO, META, VIDEO_KEY_PREFIX
from piper_collect.dataset.parquet import BOOKKEEPING
from piper_collect.errors import DatasetError
from piper_collect.pipelines.validation.json_values import as_object, as_text, shown
from piper_collect.pipelines.validation.metadata import Metadata

COLUMNS = {
    "observation.arm_joint": 6,
    "observation.arm_eef": 7,
    "observation.gripper": 1,
    "action.arm_eef": 7,
    "action.gripper": 1,
}
"""Elements of each column of the format."""

_WHERE = f"{META}/{INFO}"


def is_ours(meta: Metadata) -> bool:
    """Whether the dataset means to be of this format: it has one of its columns, or the robot's name."""
    return bool(set(COLUMNS) & set(meta.features)) or "piper" in as_text(meta.info.get("robot_type")).lower()


def _asked_for(meta: Metadata) -> tuple[tuple[str, ...], str]:
    """The columns that a reader counts on, and what makes him do so.

    A profile that leaves columns of the format out does so by design: of a dataset whose provenance names
    one, only those are asked for that its ``embodiment.json`` names.
    """
    name = _profile(meta)
    if name and _is_of_the_format(name):
        return tuple(COLUMNS), f"the format (profile {name})"
    try:
        ready = known_embodiment(meta.root).ready
    except DatasetError:
        ready = None  # what is wrong with that file is said where it is looked at
    if ready is not None:
        return ready.columns, f"its layout ({META}/{EMBODIMENT})"
    is_known = name or not meta.episodes.offsets
    return (tuple(COLUMNS) if is_ours(meta) and not is_known else ()), "the format"


def _is_of_the_format(name: str) -> bool:
    """Whether a profile of this name comes with the package and has all columns of the format."""
    shipped = {path.stem for path in (share_dir() / "config" / "profiles").glob("*.yaml")}
    return name in shipped and set(COLUMNS) <= {column.key for column in load_profile(name).stored}


def _profile(meta: Metadata) -> str:
    """Name of the profile that made the first episode; empty where nothing tells."""
    if meta.sources is None:
        return ""
    marks = (as_object(meta.sources.get(index).get("profile")) for index in meta.sources.offsets)
    return next((as_text(mark.get("name")) for mark in marks), "")


def check_format(meta: Metadata, findings: Findings) -> None:
    """Columns of the format with their sizes, index columns, camera keys, and the robot."""
    if not as_text(meta.info.get("robot_type")):
        text = f"robot_type is {shown(meta.info.get('robot_type'))}"
        findings.add("warning", "info", _WHERE, text)
    for key in meta.video_keys:
        if not key.startswith(VIDEO_KEY_PREFIX):
            text = f"the video {key} is not named {VIDEO_KEY_PREFIX}<camera>"
            findings.add("warning", "features", _WHERE, text)
    for key, dtype in BOOKKEEPING.items():
        feature = meta.features.get(key)
        if feature is None:
            findings.add("warning", "features", _WHERE, f"does not declare {key}")
        elif feature.dtype != dtype or feature.shape != (1,):
            text = f"{key} is {feature.dtype}{list(feature.shape)}, the format has {dtype}[1]"
            findings.add("warning", "features", _WHERE, text)
    asked_for, by = _asked_for(meta)
    for key in asked_for:
        if key not in meta.features:
            findings.add("warning", "features", _WHERE, f"has no {key}, which {by} asks for")
    for key, width in COLUMNS.items() if is_ours(meta) else ():
        feature = meta.features.get(key)
        if feature is not None and (feature.dtype != "float32" or feature.shape != (width,)):
            text = f"{key} is {feature.dtype}{list(feature.shape)}, the format has float32[{width}]"
            findings.add("error", "features", _WHERE, text)

"""The columns and features that the format asks for by name (profile ``piper`` and what builds on it)."""

from piper_collect.core.findings import Findings
from piper_collect.dataset.layout import INFO, META, VIDEO_KEY_PREFIX
from piper_collect.dataset.parquet import BOOKKEEPING
from piper_collect.pipelines.validation.json_values import as_text, shown
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
    if not is_ours(meta):
        return
    for key, width in COLUMNS.items():
        feature = meta.features.get(key)
        if feature is None:
            findings.add("warning", "features", _WHERE, f"has no {key}, which the format asks for")
        elif feature.dtype != "float32" or feature.shape != (width,):
            text = f"{key} is {feature.dtype}{list(feature.shape)}, the format has float32[{width}]"
            findings.add("error", "features", _WHERE, text)

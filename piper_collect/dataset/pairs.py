"""Which action columns have an observation column beside them, and which of them are poses."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from piper_collect.dataset.dialect import EpisodeReader
from piper_collect.dataset.json_files import read_json
from piper_collect.dataset.layout import INFO, META, MODALITY
from piper_collect.dataset.numeric import numeric_width
from piper_collect.errors import DatasetError

ACTION = "action."
OBSERVATION = "observation."
POSE_NAMES = ("x", "y", "z", "qw", "qx", "qy", "qz")

_QUATERNIONS = ("quat_wxyz", "quaternion")
"""Rotation types of modality.json that mean a quaternion wxyz (GR00T's ``quaternion`` has w first)."""


_Rotations: TypeAlias = dict[tuple[int, int], str]
"""Rotation type by (start, end) within a column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnPair:
    """An action column and the observation column of the same name.

    Attributes:
        action: Key of the commanded column.
        observation: Key of the measured column.
        width: Elements of a cell of either.
        is_pose: Whether a cell is a pose7, xyz and quaternion wxyz.
    """

    action: str
    observation: str
    width: int
    is_pose: bool


def column_pairs(
    dataset: EpisodeReader, *, needed: bool = True
) -> tuple[tuple[ColumnPair, ...], dict[str, str]]:
    """The pairs ``action.X`` and ``observation.X`` of one width, and the actions left over.

    A pair is a pose when a column of it has the feature names ``x y z qw qx qy qz``, or when
    modality.json gives its elements 3 to 7 a quaternion as rotation type.

    Args:
        dataset: The dataset.
        needed: Whether there must be a pair.

    Returns:
        The pairs in the order of info.json, and by key of each numeric action column without one, why.

    Raises:
        DatasetError: when there is no pair, and one is needed.
    """
    features: Mapping[str, Any] = dataset.info["features"]
    rotations = _rotations(dataset)
    pairs, left_out = [], {}
    for action in [k for k, f in features.items() if k.startswith(ACTION) and numeric_width(f) is not None]:
        found = _pair(features, rotations, action)
        if isinstance(found, ColumnPair):
            pairs.append(found)
        else:
            left_out[action] = found
    if not pairs and needed:
        others = [k for k in features if k.startswith("action") and k not in left_out]
        got = [f"{key}: {why}" for key, why in left_out.items()] + others
        raise DatasetError(
            "no action column has an observation column of the same name and width",
            where=dataset.root / META / INFO,
            expected=f"{ACTION}NAME and {OBSERVATION}NAME",
            got="; ".join(got) or "no action column",
        )
    return tuple(pairs), left_out


def _pair(features: Mapping[str, Any], rotations: Mapping[str, _Rotations], action: str) -> ColumnPair | str:
    """The pair of an action column, or why it has none."""
    observation = OBSERVATION + action.removeprefix(ACTION)
    width, other = (numeric_width(features.get(key, {})) for key in (action, observation))
    if width is None or other is None:
        return f"there is no numeric column {observation}"
    if width != other:
        return f"it has {width} elements, {observation} has {other}"
    is_pose = False
    for key in (action, observation):
        names, quaternions = _names(features[key].get("names")), rotations.get(key, {})
        fault = _fault(names, quaternions, width)
        if fault:
            return f"{key} {fault}"
        is_pose |= names == POSE_NAMES or bool(quaternions)
    return ColumnPair(action=action, observation=observation, width=width, is_pose=is_pose)


def _fault(names: tuple[str, ...], rotations: _Rotations, width: int) -> str | None:
    """What keeps a column with a quaternion from being a pose7."""
    if {*POSE_NAMES[3:]} <= {*names} and names != POSE_NAMES:
        return f"has the elements {' '.join(names)}; a pose must have {' '.join(POSE_NAMES)}"
    for (start, end), kind in rotations.items():
        if kind not in _QUATERNIONS or (start, end, width) != (3, 7, 7):
            return (
                f"has by {META}/{MODALITY} a {kind} in elements {start} to {end} of {width}; "
                f"a pose must have {_QUATERNIONS[0]} in 3 to 7 of 7"
            )
    return None


def _names(names: object) -> tuple[str, ...]:
    """Element names: a list, or as LeRobot has them too, a map from axis to list."""
    if isinstance(names, Mapping) and len(names) == 1:
        (names,) = names.values()
    if not isinstance(names, Sequence) or isinstance(names, str):
        return ()
    return tuple(str(name) for name in names)


def _rotations(dataset: EpisodeReader) -> dict[str, _Rotations]:
    """The quaternions that modality.json names, by column."""
    path = dataset.root / META / MODALITY
    found: dict[str, _Rotations] = {}
    modality = read_json(path) if path.exists() else {}
    for group in ("state", "action"):
        for part in (modality.get(group) or {}).values():
            kind, key = str(part.get("rotation_type", "")), part.get("original_key")
            if kind.startswith("quat") and isinstance(key, str):
                found.setdefault(key, {})[part.get("start"), part.get("end")] = kind
    return found

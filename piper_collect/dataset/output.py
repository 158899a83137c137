"""Whether a folder can take episodes at all, told before any is made."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from piper_collect.config.profile import Profile
from piper_collect.dataset.guard import check_empty, check_outside, check_writable
from piper_collect.dataset.hdf5.layout import VERSION as CASES_VERSION
from piper_collect.dataset.json_files import read_json, read_jsonl
from piper_collect.dataset.layout import INFO, META, SOURCES, STAGING
from piper_collect.dataset.stage import profile_mark
from piper_collect.dataset.v3.layout import VERSION as V3_VERSION
from piper_collect.errors import DatasetError, DatasetLockError
from piper_collect.files import write_refusal

_VERSIONS: Mapping[str, str] = {
    "lerobot-v2.0": "v2.0",
    "lerobot-v2.1": "v2.1",
    "lerobot-v3.0": V3_VERSION,
    "hdf5-cases": CASES_VERSION,
}
"""``codebase_version`` of info.json by the name of the dialect."""

_NEW_FOLDER = "export into a new folder"


def check_output(root: Path, profile: Profile) -> None:
    """Refuse a folder that no episode of ``profile`` can be put into, whatever the episode.

    Nothing is made, but for a nameless file that is gone at once, and no lock is taken. What depends on
    the episodes (rate, cameras, optional columns) the writer checks.

    Raises:
        DatasetLockError: It cannot be made or written.
        DatasetError: It is a file, lies in another dataset, or holds something else or a dataset of another
            kind.
    """
    if root.exists() and not root.is_dir():
        raise DatasetError(
            "is a file", where=root, expected="a folder, or nothing there", hint="name another folder"
        )
    check_outside(root)
    if not root.exists():
        refusal = write_refusal(root)
        if refusal:
            raise DatasetLockError(
                f"the dataset folder cannot be made: {refusal}",
                where=root,
                hint="name a folder that you may write to",
            )
        return
    check_writable(root)
    info = root / META / INFO
    if not info.exists():
        if not (root / STAGING).exists():  # else a first save that was interrupted
            check_empty(root)
        return
    known = read_json(info)
    _check_format(info, known, profile)
    sources = root / META / SOURCES
    lines = read_jsonl(sources) if sources.exists() else []
    check_clocks(root, profile, lines[-1] if lines else {})


def check_clocks(root: Path, profile: Profile, last: Mapping[str, Any]) -> None:
    """Rows of two clocks do not belong into one dataset, alike as their columns may be.

    Args:
        root: The dataset.
        profile: What is to be added is made of it.
        last: The line of provenance of its last episode; empty where there is none.

    Raises:
        DatasetError: Naming what differs.
    """
    before = last.get("profile")
    if not isinstance(before, Mapping):
        return
    mark = profile_mark(profile)
    for key in ("row_clock", "timestamp", "video_timing"):
        if before.get(key) != mark[key]:
            raise DatasetError(
                f"the dataset was made by a profile with another {key}",
                where=root,
                expected=f"{before.get(key)} (profile {before.get('name')})",
                got=f"{mark[key]} (profile {profile.name})",
                hint=_NEW_FOLDER,
            )


def _check_format(path: Path, info: Mapping[str, Any], profile: Profile) -> None:
    version = _VERSIONS[profile.dialect]
    if info.get("codebase_version") != version:
        raise DatasetError(
            "the dataset has another codebase_version",
            where=path,
            expected=f"{version!r} (profile {profile.name}, {profile.dialect})",
            got=repr(info.get("codebase_version")),
            hint=f"{_NEW_FOLDER}, or convert the dataset",
        )
    features = info.get("features")
    for column in profile.stored:
        if isinstance(features, Mapping) and not column.optional and column.key not in features:
            raise DatasetError(
                f"the dataset has no column {column.key}, which the profile {profile.name} makes",
                where=path,
                hint=_NEW_FOLDER,
            )

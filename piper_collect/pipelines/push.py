"""A dataset to the Hugging Face Hub, with a card; the metadata that make it one come last."""

import importlib
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import simplejpeg

from piper_collect.core.overview import spread
from piper_collect.dataset.clip_files import clip_file
from piper_collect.dataset.dialect import EpisodeReader
from piper_collect.dataset.guard import check_outside, locked
from piper_collect.dataset.hdf5.reader import HDF5CasesReader
from piper_collect.dataset.layout import META, STAGING, STATS_STATE, VIDEO_KEY_PREFIX
from piper_collect.dataset.pictures import survey_pictures
from piper_collect.dataset.reader import VERSIONS as V2_VERSIONS
from piper_collect.dataset.readers import open_any
from piper_collect.dataset.v3.layout import QUANTILES_STATE
from piper_collect.dataset.v3.layout import VERSION as V3_VERSION
from piper_collect.errors import ConfigError, DatasetError, PiperCollectError, UsageError
from piper_collect.files import write_atomic
from piper_collect.pipelines.overview.dataset import dataset_overview
from piper_collect.pipelines.validators import validator_of
from piper_collect.report.dataset_card import MADE_BY, CardContent, dataset_card

Progress: TypeAlias = Callable[[str, int, int], None]
"""Told what is being done, how much of it is done, and of how much."""

CARD = "README.md"
_CARRIED = (STATS_STATE, QUANTILES_STATE)
_THUMBNAILS = "thumbnails"
_TAGGED = (*V2_VERSIONS, V3_VERSION)
_FOLDERS = ("data", "videos", META, "extras", _THUMBNAILS)
_FILES_PER_COMMIT = 2000
_EPISODES_SHOWN = 3
_JPEG_QUALITY = 85
_NAME = re.compile(r"(?!.*(--|\.\.))(?!.*\.git$)[A-Za-z0-9_]([A-Za-z0-9_.-]{0,94}[A-Za-z0-9_])?", re.ASCII)
"""What the hub takes as the name of an owner or a repository."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """The card and what it shows.

    Attributes:
        files: Content by path in the repository, ``README.md`` among them.
        errors: Errors that ``validate`` found, one sentence each.
    """

    files: dict[str, bytes]
    errors: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushed:
    """What is on the hub.

    Attributes:
        url: Where.
        files: Files of the dataset and its card.
        size_bytes: Of all of them.
        deleted: Files that were there and are not in the dataset.
    """

    url: str
    files: int
    size_bytes: int
    deleted: tuple[str, ...]


def check_repo_id(repo_id: str) -> None:
    """Refuse what the hub would not take as the name of a repository, without asking it.

    Raises:
        UsageError: Saying what a name is.
    """
    parts = repo_id.split("/")
    if len(parts) != 2 or not all(map(_NAME.fullmatch, parts)):
        raise UsageError(
            "no name of a repository",
            where="REPO_ID",
            expected="owner/name, each 1 to 96 letters, digits, - _ . (no -- or .., no - or . at an end)",
            got=repr(repo_id),
            hint="name it as on the hub, as in me/pick",
        )


def check_card_folder(folder: Path) -> None:
    """Refuse a folder for a card that holds anything but an earlier card, or lies in a dataset.

    Raises:
        ConfigError: It holds something else, which is named, or is a file.
        DatasetError: It lies in a dataset.
    """
    check_outside(folder)
    expected = "an empty or missing folder, or one with an earlier dry run's card only"
    hint = "name another folder with -o"
    if folder.exists() and not folder.is_dir():
        raise ConfigError("is a file", where=folder, expected=expected, hint=hint)
    try:
        other = _others(folder) if folder.exists() else []
    except OSError as err:
        raise ConfigError(f"the folder cannot be read: {err.strerror}", where=folder, hint=hint) from err
    if other:
        raise ConfigError(
            "the card would be written among other files",
            where=folder,
            expected=expected,
            got=", ".join(other[:5]) + (", …" if len(other) > 5 else ""),
            hint=hint,
        )


def _others(folder: Path) -> list[str]:
    """What in a folder is not of a card that ``write_card`` made, as far as names and its last line tell."""
    pictures = folder / _THUMBNAILS
    found = list(folder.iterdir())
    if pictures in found and pictures.is_dir() and not pictures.is_symlink():
        found = [*(path for path in found if path != pictures), *pictures.iterdir()]
    return sorted(path.relative_to(folder).as_posix() for path in found if not _is_of_a_card(path, folder))


def _is_of_a_card(path: Path, folder: Path) -> bool:
    if path.is_symlink() or not path.is_file():
        return False
    name = path.relative_to(folder).as_posix()
    if name == CARD:
        return path.read_bytes().rstrip().rpartition(b"\n")[2].startswith(MADE_BY.encode())
    return re.fullmatch(rf"{_THUMBNAILS}/episode_\d{{6,}}_[^/]+\.jpg", name) is not None


def make_card(root: Path, title: str, *, license_id: str = "", on_progress: Progress | None = None) -> Card:
    """Write the card of a dataset: columns, provenance, pictures, and what ``validate --quick`` says.

    Raises:
        DatasetError: It is no dataset, or cannot be read.
    """
    tell = on_progress or (lambda what, done, total: None)
    dataset = open_any(root)
    overview = dataset_overview(root)
    report = validator_of(root)(
        root, decode=False, on_progress=lambda done, total: tell("looking at episodes", done, total)
    ).report
    thumbnails = dict(_thumbnails(dataset))
    content = CardContent(
        title=title,
        facts=overview.facts,
        features=dataset.info["features"],
        report=report,
        license=license_id,
        thumbnails={label: path for label, (path, _) in thumbnails.items()},
    )
    errors = tuple(str(finding) for finding in report.findings if finding.level == "error")
    files = {CARD: dataset_card(content).encode("utf-8"), **dict(thumbnails.values())}
    return Card(files=files, errors=errors)


def write_card(card: Card, folder: Path) -> None:
    """Put the card and its pictures into a folder; an earlier card there is replaced.

    Raises:
        ConfigError: It cannot be written, or holds anything but an earlier card.
        DatasetError: It lies in a dataset.
    """
    check_card_folder(folder)
    try:
        for name, content in card.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, content)
    except OSError as err:
        raise ConfigError(f"the card cannot be written: {err.strerror}", where=folder) from err


def push(
    root: Path,
    repo_id: str,
    *,
    public: bool = False,
    keep_card: bool = False,
    allow_errors: bool = False,
    license_id: str = "",
    on_progress: Progress | None = None,
) -> Pushed:
    """Upload a dataset and its card to a dataset repository, which is made when it is not there.

    The dataset is locked meanwhile. Data and videos go first, 2,000 files a commit, and ``meta/`` with the
    card in the last one, which also deletes files of the dataset that are no more. At the end the tag of the
    format's version is moved there: who loads by that tag, as LeRobot does, has the dataset of before until
    then. Run again after a failure it goes on: what is there already is not sent again.

    Args:
        root: The dataset.
        repo_id: ``user/name``.
        public: Make a new repository public; else it is private. One that is there stays as it is.
        keep_card: Leave the card that is there.
        allow_errors: Push although ``validate`` finds errors.
        license_id: For the card.
        on_progress: Told how far it is.

    Raises:
        ConfigError: huggingface_hub is not installed, or the name is none.
        DatasetError: The dataset has errors, is being written, or the hub refuses.
    """
    check_repo_id(repo_id)
    hub = _hub()
    tell = on_progress or (lambda what, done, total: None)
    with locked(root), _refusals(hub, repo_id):
        if (root / STAGING).exists():
            raise DatasetError(
                "holds an interrupted save", where=root, hint="run the export again, which repairs it"
            )
        card = make_card(root, repo_id.rpartition("/")[2], license_id=license_id, on_progress=tell)
        if card.errors and not allow_errors:
            raise DatasetError(
                f"validate finds {len(card.errors)} errors: {card.errors[0]}",
                where=root,
                hint=f"piper-collect validate {root} tells all; --allow-errors pushes it as it is",
            )
        api = hub.HfApi(library_name="piper_collect")
        url = str(api.create_repo(repo_id, repo_type="dataset", private=not public, exist_ok=True))
        return _upload(hub, api, root, repo_id, url, {} if keep_card else card.files, tell)


def _hub() -> Any:
    try:
        importlib.import_module("huggingface_hub.errors")  # a part of it that it does not import by itself
        importlib.import_module("huggingface_hub.utils").disable_progress_bars()
        return importlib.import_module("huggingface_hub")
    except ImportError as err:
        raise ConfigError(
            f"huggingface_hub is not installed: {err}", hint="pip install 'piper_collect[push]'"
        ) from err


@contextmanager
def _refusals(hub: Any, repo_id: str) -> Iterator[None]:
    """What the hub, or the way there, refuses, as one line."""
    try:
        yield
    except PiperCollectError:
        raise
    except hub.errors.HFValidationError as err:
        raise ConfigError(f"no name of a repository: {err}", where="REPO_ID", got=repo_id) from err
    except (hub.errors.HfHubHTTPError, OSError, RuntimeError, ValueError) as err:
        raise DatasetError(
            f"it could not be pushed: {_reason(err)}",
            where=repo_id,
            hint="run it again; it goes on where it stopped",
        ) from err
    except Exception as err:  # errors of the connection come from a library that huggingface_hub chooses
        if type(err).__module__.partition(".")[0] not in (
            "httpx",
            "httpx2",
            "httpcore",
            "httpcore2",
            "requests",
        ):
            raise
        raise DatasetError(f"the hub cannot be reached: {err}", where=repo_id) from err


def _reason(err: BaseException) -> str:
    """An error with what caused it."""
    cause = err.__cause__
    return f"{err} ({cause})" if cause is not None and str(cause) not in str(err) else str(err)


def _upload(
    hub: Any, api: Any, root: Path, repo_id: str, url: str, card: dict[str, bytes], tell: Progress
) -> Pushed:
    known = {"repo_id": repo_id, "repo_type": "dataset"}
    folders = _folders(root)
    files = {path.relative_to(root).as_posix(): path for path in _files(root, folders)}
    last = [name for name in files if name.startswith(f"{META}/")]
    first = [name for name in files if name not in last]
    done = 0
    for start in range(0, len(first), _FILES_PER_COMMIT):
        names = first[start : start + _FILES_PER_COMMIT]
        tell("uploading", done, len(files))
        added = [
            hub.CommitOperationAdd(path_in_repo=name, path_or_fileobj=str(files[name])) for name in names
        ]
        api.create_commit(
            operations=added, commit_message=f"Data, part {start // _FILES_PER_COMMIT + 1}", **known
        )
        done += len(names)
    tell("uploading", done, len(files))
    mine = {*files, *card}
    stale = [
        name
        for name in api.list_repo_files(**known)
        if name.partition("/")[0] in folders
        and name not in mine
        and not (name.startswith(f"{_THUMBNAILS}/") and not card)
    ]
    operations = [hub.CommitOperationAdd(path_in_repo=n, path_or_fileobj=str(files[n])) for n in last]
    operations += [
        hub.CommitOperationAdd(path_in_repo=n, path_or_fileobj=content) for n, content in card.items()
    ]
    operations += [hub.CommitOperationDelete(path_in_repo=name) for name in stale]
    version = str(open_any(root).info["codebase_version"])
    api.create_commit(operations=operations, commit_message=f"Dataset, {version}", **known)
    if version in _TAGGED:
        _move_tag(api, version, known)
    size = sum(path.stat().st_size for path in files.values()) + sum(map(len, card.values()))
    return Pushed(url=url, files=len(mine), size_bytes=size, deleted=tuple(stale))


def _move_tag(api: Any, tag: str, known: dict[str, str]) -> None:
    if any(known_tag.name == tag for known_tag in api.list_repo_refs(**known).tags):
        api.delete_tag(tag=tag, **known)
    api.create_tag(tag=tag, tag_message="The version that LeRobot asks for", **known)


def _folders(root: Path) -> tuple[str, ...]:
    """Folders of a dataset below its root; files of any other are not its own."""
    dataset = open_any(root)
    robots = dataset.robots if isinstance(dataset, HDF5CasesReader) else ()
    return (*_FOLDERS, *robots)


def _files(root: Path, folders: Sequence[str]) -> Iterator[Path]:
    """The files of a dataset: no hidden ones, and not what only the next export goes on from."""
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            inside = path.relative_to(root)
            hidden = any(part.startswith(".") for part in inside.parts)
            if path.is_file() and not hidden and inside.as_posix() not in _CARRIED:
                yield path


def _thumbnails(dataset: EpisodeReader) -> Iterator[tuple[str, tuple[str, bytes]]]:
    """Strips of small pictures of some episodes, as (what, (path, JPEG)); none of videos that are broken."""
    for index in spread(dataset.lines, _EPISODES_SHOWN):
        for key in dataset.video_keys:
            name = key.removeprefix(VIDEO_KEY_PREFIX)
            try:
                times = dataset.frame_times(index, key)
                with clip_file(dataset.clip(index, key)) as path:
                    seen = survey_pictures(path, len(times))
            except DatasetError:
                continue
            pixels = _strip([thumbnail.pixels for thumbnail in seen.thumbnails])
            if pixels is not None:
                jpeg = simplejpeg.encode_jpeg(pixels, quality=_JPEG_QUALITY, colorspace="RGB")
                yield f"episode {index}, {name}", (f"{_THUMBNAILS}/episode_{index:06d}_{name}.jpg", jpeg)


def _strip(pictures: Sequence["np.ndarray[Any, np.dtype[np.uint8]]"]) -> Any:
    return np.ascontiguousarray(np.hstack(list(pictures))) if pictures else None

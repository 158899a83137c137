"""What a machine of a cluster does for a bag; its result comes back whole, since only bags need be shared."""

import pickle
import socket
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from piper_collect import __version__
from piper_collect.bag.find import storage_bytes
from piper_collect.bag.reader import open_bag
from piper_collect.bag.sidecar import read_record
from piper_collect.dataset.stage import EpisodeExtras, VideoAhead
from piper_collect.dataset.state import HeldBag
from piper_collect.errors import PiperCollectError
from piper_collect.files import sync
from piper_collect.pipelines.ahead import ahead_folder
from piper_collect.pipelines.prepare import BagJob, PreparedBag, one_line, prepare

_NOT_HELD = HeldBag(by_part={}, parts=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class AwayJob:
    """A bag that is to be prepared on another machine, and by what that one knows it.

    Attributes:
        job: The bag, by its absolute path.
        size: Bytes of its storage files.
        version: Of this package.
    """

    job: BagJob
    size: int
    version: str

    @classmethod
    def of(cls, job: BagJob) -> "AwayJob":
        """``job`` as seen from this machine."""
        away = replace(job, path=job.path.absolute(), ahead=None)
        return cls(job=away, size=storage_bytes(job.path), version=__version__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A prepared bag on its way back.

    Attributes:
        prepared: The ``PreparedBag``, pickled; its videos lie where it was made.
        videos: Content of the videos by camera, for each of its extras; empty where none was encoded.
    """

    prepared: bytes
    videos: tuple[Mapping[str, NDArray[np.uint8]], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfit:
    """In place of a prepared bag: that machine cannot do the work as this one would.

    Attributes:
        host: Its name.
        what: What is wrong there.
        hint: What to do about it.
    """

    host: str
    what: str
    hint: str


def prepare_away(away: AwayJob, held: Mapping[str, HeldBag]) -> Sent | Unfit:
    """``prepare`` on the machine that runs this; nothing stays there.

    What a killed process left in the folder of temporary files goes with the next job on that machine.

    Args:
        away: Which bag, and how.
        held: What the dataset holds, by content hash.
    """
    unfit = _unfit(away)
    if unfit is not None:
        return unfit
    temporary = tempfile.gettempdir()
    try:
        with ahead_folder(Path(temporary) / "piper_collect-ray") as folder:
            return _sent(replace(away.job, ahead=folder), held)
    except (PiperCollectError, OSError) as err:
        what = f"a recording cannot be prepared there: {err}"
        return Unfit(host=socket.gethostname(), what=what, hint=f"make room in its {temporary}")


def _sent(job: BagJob, held: Mapping[str, HeldBag]) -> Sent:
    prepared = prepare(job, lambda fraction: None, lambda content_hash: held.get(content_hash, _NOT_HELD))
    return Sent(prepared=pickle.dumps(prepared), videos=tuple(map(_contents, prepared.extras)))


def received(sent: Sent, path: Path, ahead: Path) -> PreparedBag:
    """What was sent, with its videos in the folder ``ahead`` of this machine.

    Args:
        sent: As ``prepare_away`` made it.
        path: The bag, as errors name it.
        ahead: Where to.
    """
    prepared: PreparedBag = pickle.loads(sent.prepared)
    try:
        extras = [_stored(e, v, ahead) for e, v in zip(prepared.extras, sent.videos, strict=True)]
    except OSError as err:
        return replace(prepared, extras=(), error=one_line(path, err))
    return replace(prepared, extras=tuple(extras))


def _unfit(away: AwayJob) -> Unfit | None:
    host, job = socket.gethostname(), away.job
    if away.version != __version__:
        return Unfit(
            host=host,
            what=f"it has piper_collect {__version__}, this one {away.version}",
            hint="install the same version on every machine of the cluster",
        )
    shared = "every machine of the cluster must reach the recordings under the same path as this one"
    if not job.path.exists():
        return Unfit(host=host, what=f"it does not see {job.path}", hint=shared)
    try:
        with open_bag(job.path) as bag:
            same = read_record(bag) == job.record and storage_bytes(job.path) == away.size
    except (PiperCollectError, OSError):
        return None  # reading it says what is wrong
    return None if same else Unfit(host=host, what=f"it has another recording at {job.path}", hint=shared)


def _contents(extras: EpisodeExtras) -> dict[str, NDArray[np.uint8]]:
    return {camera: np.fromfile(v.path, dtype=np.uint8) for camera, v in (extras.videos or {}).items()}


def _stored(extras: EpisodeExtras, videos: Mapping[str, NDArray[np.uint8]], ahead: Path) -> EpisodeExtras:
    if extras.videos is None:
        return extras
    folder = Path(tempfile.mkdtemp(dir=ahead))
    stored = {}
    for number, (camera, made) in enumerate(extras.videos.items()):
        path = folder / f"{number}{made.path.suffix}"
        videos[camera].tofile(path)
        sync(path)
        stored[camera] = VideoAhead(path=path, video=made.video)
    return replace(extras, videos=stored)

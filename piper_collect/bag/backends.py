"""Which library writes bags, and in which storage."""

import importlib.metadata
import importlib.util
import sqlite3
from dataclasses import dataclass
from typing import Any

from piper_collect.bag.mcap_writer import McapBagWriter
from piper_collect.bag.rosbag2 import load_rosbag2, rosbag2_version
from piper_collect.bag.rosbag2_writer import Rosbag2BagWriter
from piper_collect.bag.sqlite_writer import SqliteBagWriter
from piper_collect.bag.storage import BagWriter
from piper_collect.errors import ConfigError

STORAGE_IDS = ("mcap", "sqlite3")
BACKENDS = ("rosbag2_py", "pip")
"""``pip`` is this package's own writer, which needs no ROS."""
AUTO = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """How the bags of a session are written.

    Attributes:
        backend: One of ``BACKENDS``.
        storage_id: One of ``STORAGE_IDS``.
        library: What writes the storage: ``rosbag2_py``, ``mcap`` or ``sqlite``.
        version: The library's; None where it does not say.
        because: Why an automatic choice fell on ``pip`` though ``rosbag2_py`` is installed; else empty.
    """

    backend: str
    storage_id: str
    library: str
    version: str | None
    because: str = ""
    _rosbag2: Any = None

    def writer(self) -> BagWriter:
        """A new writer."""
        if self.backend == "rosbag2_py":
            return Rosbag2BagWriter(self.storage_id, self._rosbag2)
        return McapBagWriter() if self.storage_id == "mcap" else SqliteBagWriter()

    def __str__(self) -> str:
        return f"{self.storage_id}, by {self.backend} ({self.library} {self.version or 'of unknown version'})"

    def record(self) -> dict[str, object]:
        """For the provenance of what it writes."""
        return {
            "backend": self.backend,
            "storage": self.storage_id,
            "library": self.library,
            "version": self.version,
        }


def choose_storage(storage_id: str, backend: str = AUTO) -> Storage:
    """Find the library that writes a storage here.

    Args:
        storage_id: One of ``STORAGE_IDS``.
        backend: One of ``BACKENDS``, or ``auto``: ``rosbag2_py`` wherever it can write this storage.

    Raises:
        ConfigError: There is no such storage or backend, or it cannot be used here.
    """
    if storage_id not in STORAGE_IDS:
        raise ConfigError("no such bag storage", where="recorder.storage", got=storage_id, valid=STORAGE_IDS)
    if backend not in (AUTO, *BACKENDS):
        valid = (AUTO, *BACKENDS)
        raise ConfigError("no such backend", where="recorder.storage_backend", got=backend, valid=valid)
    because = ""
    if backend != "pip":
        try:
            module = load_rosbag2(storage_id)
        except ConfigError as err:
            if backend != AUTO:
                raise
            because = str(err) if importlib.util.find_spec("rosbag2_py") else ""
        else:
            return Storage(
                backend="rosbag2_py",
                storage_id=storage_id,
                library="rosbag2_py",
                version=rosbag2_version(),
                _rosbag2=module,
            )
    library, version = ("sqlite", sqlite3.sqlite_version)
    if storage_id == "mcap":
        library, version = "mcap", importlib.metadata.version("mcap")
    return Storage(backend="pip", storage_id=storage_id, library=library, version=version, because=because)

"""The storage backends by name."""

from piper_collect.bag.mcap_writer import McapBagWriter
from piper_collect.bag.storage import BagWriter
from piper_collect.errors import ConfigError

STORAGE_IDS = ("mcap",)
"""Storages that ``make_writer`` knows."""


def make_writer(storage_id: str) -> BagWriter:
    """A new writer for a storage.

    Args:
        storage_id: One of ``STORAGE_IDS``.

    Raises:
        ConfigError: There is no such storage.
    """
    if storage_id == "mcap":
        return McapBagWriter()
    raise ConfigError("no such bag storage", where="storage", got=storage_id, valid=STORAGE_IDS)

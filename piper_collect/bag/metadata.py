"""``metadata.yaml`` of a rosbag2 folder: version 9 written, versions 1 to 9 read leniently."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from piper_collect.bag.qos import parse_qos, qos_maps
from piper_collect.bag.storage import TopicInfo
from piper_collect.bag.yaml_text import read_texts
from piper_collect.errors import BagError
from piper_collect.files import write_atomic

METADATA_FILE = "metadata.yaml"
NO_START_NS = 2**63 - 1
"""Starting time that rosbag2 writes for a bag without messages."""
_OUTER_KEY = "rosbag2_bagfile_information"
METADATA_VERSION = 9
"""The newest that is known, and the one written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BagMetadata:
    """The bag information of rosbag2.

    Attributes:
        version: 1 to 9.
        storage_id: ``mcap``, ``sqlite3``, or empty when the file does not say.
        start_ns: Earliest receive time; None for a bag without messages.
        duration_ns: Latest less earliest receive time.
        message_count: Messages of all topics.
        topics: In the file's order, with their counts.
        files: Storage files as the file spells them.
        compression_format: ``zstd`` or empty.
        compression_mode: ``file``, ``message`` or empty.
        custom_data: Strings that travel in the bag.
        ros_distro: Where it was recorded; empty when unknown.
    """

    version: int = METADATA_VERSION
    storage_id: str
    start_ns: int | None = None
    duration_ns: int = 0
    message_count: int = 0
    topics: tuple[TopicInfo, ...] = ()
    files: tuple[str, ...] = ()
    compression_format: str = ""
    compression_mode: str = ""
    custom_data: Mapping[str, str] = field(default_factory=dict)
    ros_distro: str = ""


class _Quoted(str):
    """Text that must stay text in every YAML dialect."""


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: object) -> bool:
        return True


_Dumper.add_representer(
    _Quoted, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", str(text), style='"')
)


def metadata_text(metadata: BagMetadata, *, outer_key: bool = True) -> str:
    """Version 9 YAML.

    Args:
        metadata: What to write; its ``version`` is not looked at. All messages are taken to lie in
            the first of ``files``.
        outer_key: True for ``metadata.yaml``. False for the record inside an MCAP: rosbag2's
            ``seek`` and ``play`` fail on the outer key there.
    """
    start = {"nanoseconds_since_epoch": NO_START_NS if metadata.start_ns is None else metadata.start_ns}
    duration = {"nanoseconds": metadata.duration_ns}
    info = {
        "version": METADATA_VERSION,
        "storage_identifier": metadata.storage_id,
        "duration": duration,
        "starting_time": start,
        "message_count": metadata.message_count,
        "topics_with_message_count": [_topic_map(topic) for topic in metadata.topics],
        "compression_format": metadata.compression_format,
        "compression_mode": metadata.compression_mode,
        "relative_file_paths": list(metadata.files),
        "files": [
            {
                "path": path,
                "starting_time": start,
                "duration": duration,
                "message_count": metadata.message_count,
            }
            for path in metadata.files[:1]
        ],
        "custom_data": {_Quoted(k): _Quoted(v) for k, v in metadata.custom_data.items()} or None,
        "ros_distro": metadata.ros_distro,
    }
    tree: dict[str, object] = {_OUTER_KEY: info} if outer_key else info
    return str(yaml.dump(tree, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10**6))


def write_metadata(folder: Path, metadata: BagMetadata) -> None:
    """Write ``metadata.yaml``: whole under its name, or not at all.

    Raises:
        OSError: The folder cannot be written.
    """
    write_atomic(folder / METADATA_FILE, metadata_text(metadata))


def read_metadata(path: Path) -> BagMetadata:
    """Read a ``metadata.yaml``.

    Raises:
        BagError: It cannot be read, or is not rosbag2's.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as err:
        raise BagError("metadata cannot be read", where=path, got=err) from err
    return parse_metadata(text, where=path)


def parse_metadata(text: str, *, where: object) -> BagMetadata:
    """Read bag information with or without its outer key; what is missing gets the empty value.

    Args:
        text: YAML.
        where: What error messages name.

    Raises:
        BagError: The text is not the bag information of a rosbag2 version 1 to 9.
    """
    try:
        tree = read_texts(text)
    except yaml.YAMLError as err:
        raise BagError("metadata is not YAML", where=where, got=err) from err
    info = tree.get(_OUTER_KEY, tree) if isinstance(tree, dict) else None
    if not isinstance(info, dict) or "version" not in info:
        raise BagError("not the metadata of a rosbag2 folder", where=where, expected=f"a map {_OUTER_KEY}")
    try:
        return _metadata(info, where)
    except (TypeError, ValueError, AttributeError, KeyError) as err:
        raise BagError("metadata of a rosbag2 folder is malformed", where=where, got=repr(err)) from err


def _metadata(info: Mapping[str, object], where: object) -> BagMetadata:
    version = int(str(info["version"]))
    if not 1 <= version <= METADATA_VERSION:
        raise BagError("unknown rosbag2 metadata version", where=where, expected="1 to 9", got=version)
    custom = info.get("custom_data")
    mode = str(info.get("compression_mode") or "").lower()
    start_ns = _nested(info.get("starting_time"), "nanoseconds_since_epoch", NO_START_NS)
    return BagMetadata(
        version=version,
        storage_id=str(info.get("storage_identifier") or ""),
        start_ns=None if start_ns == NO_START_NS else start_ns,
        duration_ns=_nested(info.get("duration"), "nanoseconds", 0),
        message_count=int(str(info.get("message_count") or 0)),
        topics=tuple(_topic(entry) for entry in _sequence(info.get("topics_with_message_count"))),
        files=tuple(str(path) for path in _sequence(info.get("relative_file_paths"))),
        compression_format=str(info.get("compression_format") or "").lower(),
        compression_mode="" if mode == "none" else mode,
        custom_data={str(k): str(v) for k, v in custom.items()} if isinstance(custom, Mapping) else {},
        ros_distro=str(info.get("ros_distro") or ""),
    )


def _topic(entry: object) -> TopicInfo:
    if not isinstance(entry, Mapping):
        raise TypeError(f"a topic must be a map, not {entry!r}")
    topic = entry["topic_metadata"]
    return TopicInfo(
        name=str(topic["name"]),
        type=str(topic["type"]),
        serialization_format=str(topic.get("serialization_format") or "cdr"),
        qos=parse_qos(topic.get("offered_qos_profiles")),
        type_hash=str(topic.get("type_description_hash") or ""),
        message_count=int(str(entry.get("message_count") or 0)),
    )


def _topic_map(topic: TopicInfo) -> dict[str, object]:
    return {
        "topic_metadata": {
            "name": topic.name,
            "type": topic.type,
            "serialization_format": topic.serialization_format,
            "offered_qos_profiles": qos_maps(topic.qos),
            "type_description_hash": topic.type_hash,
        },
        "message_count": topic.message_count,
    }


def _nested(entry: object, key: str, default: int) -> int:
    return int(str(entry.get(key, default))) if isinstance(entry, Mapping) else default


def _sequence(entry: object) -> Iterable[object]:
    return entry if isinstance(entry, list) else ()

"""Message definitions and type hashes, and decoding by them; no ROS needed."""

import struct
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import cast

from rosbags.interfaces import Nodetype
from rosbags.serde import SerdeError
from rosbags.typesys import Stores, TypesysError, get_types_from_idl, get_types_from_msg, get_typestore
from rosbags.typesys.store import Typestore

from piper_collect.errors import BagError

_CDR_BIG_ENDIAN, _CDR_LITTLE_ENDIAN = b"\x00\x00", b"\x00\x01"
_FOXGLOVE = "foxglove_msgs/"
_HEADER, _TIME = "std_msgs/msg/Header", "builtin_interfaces/msg/Time"
_Kind = tuple[int, object]
"""How rosbags describes a field: the kind of node, and what is in it."""
_HEADER_BYTES = 12
"""Encapsulation (4) and the stamp of a leading header (8)."""


class Codec:
    """Decodes the messages of one type.

    Args:
        store: The store that defines it.
        type_name: Its name there.
    """

    def __init__(self, store: Typestore, type_name: str) -> None:
        self._store = store
        self._type = type_name
        self.starts_with_header = _starts_with_header(store, type_name)

    def decode(self, payload: bytes | memoryview) -> object:
        """The message object; bytes after its end are ignored (rclpy's serializer leaves some).

        Raises:
            BagError: The payload is not plain CDR or ends early.
        """
        little = _is_little_endian(payload)
        try:
            definition = self._store.get_msgdef(self._type)
            read = definition.deserialize_cdr_le if little else definition.deserialize_cdr_be
            message, end = read(memoryview(payload)[4:], 0, definition.cls, self._store)
        except (struct.error, SerdeError, ValueError, IndexError, KeyError) as err:
            raise BagError("message cannot be decoded", where=self._type, got=err) from err
        if end + 4 > len(payload):
            raise BagError(
                "message is cut short", where=self._type, expected=f"{end + 4} bytes", got=len(payload)
            )
        return message

    def header_stamp_ns(self, payload: bytes | memoryview) -> int | None:
        """The stamp of a leading std_msgs/Header, as written (0 means unset); None without one.

        Messages of Foxglove begin with the stamp itself, which is the same bytes.

        Raises:
            BagError: The payload is not plain CDR or ends before the stamp.
        """
        if not self.starts_with_header:
            return None
        order = "<iI" if _is_little_endian(payload) else ">iI"
        if len(payload) < _HEADER_BYTES:
            raise BagError(
                "message is cut short",
                where=self._type,
                expected=f"{_HEADER_BYTES} bytes or more",
                got=len(payload),
            )
        sec, nanosec = struct.unpack_from(order, payload, 4)
        return int(sec) * 1_000_000_000 + int(nanosec)


class Definitions:
    """The types known by name: those of ROS 2 Jazzy, and ours once registered."""

    def __init__(self) -> None:
        self._store = get_typestore(Stores.ROS2_JAZZY)
        self._codecs: dict[str, Codec] = {}

    def register_msgs(self, folder: Path, package: str = "piper_collect") -> tuple[str, ...]:
        """Learn all ``.msg`` files of a folder.

        Args:
            folder: The package's ``msg`` folder.
            package: Name of the package.

        Returns:
            The type names, sorted.

        Raises:
            BagError: There are no files, or one cannot be read or contradicts a known type.
        """
        paths = sorted(folder.glob("*.msg"))
        if not paths:
            raise BagError("no message definitions", where=folder, expected="*.msg files")
        types = {}
        for path in paths:
            try:
                types.update(get_types_from_msg(path.read_text("utf-8"), f"{package}/msg/{path.stem}"))
            except (OSError, UnicodeDecodeError, TypesysError) as err:
                raise BagError("message definition cannot be read", where=path, got=err) from err
        try:
            self._store.register(types)
        except TypesysError as err:
            raise BagError("message definitions clash", where=folder, got=err) from err
        return tuple(sorted(types))

    def register_fields(self, types: Mapping[str, str]) -> None:
        """Learn types by the text of their definitions, those within them too; known ones stay.

        Raises:
            BagError: A text cannot be read.
        """
        found = {}
        for name, text in types.items():
            if self.knows(name):
                continue
            try:
                found.update(get_types_from_msg(text, name))
            except TypesysError as err:
                raise BagError("message definition cannot be read", where=name, got=err) from err
        self._store.register(found)

    def knows(self, type_name: str) -> bool:
        """Whether the type can be decoded by name."""
        return full_type_name(type_name) in self._store.fielddefs

    def definition(self, type_name: str) -> str:
        """The ros2msg text with all dependencies, as rosbag2 stores it in an MCAP schema.

        Raises:
            BagError: The type, or one it contains, is unknown.
        """
        try:
            return self._store.generate_msgdef(self._known(type_name), ros_version=2)[0]
        except TypesysError as err:
            raise BagError("message definition is not whole", where=type_name, got=err) from err

    def type_hash(self, type_name: str) -> str:
        """The ``RIHS01_…`` hash (REP 2011).

        Raises:
            BagError: The type, or one it contains, is unknown.
        """
        try:
            return self._store.hash_rihs01(self._known(type_name))
        except KeyError as err:
            raise BagError("message definition is not whole", where=type_name, got=err) from err

    def fields(self, type_name: str) -> dict[str, str]:
        """The fields of a type with theirs: ``pkg/msg/Name``, ``float64``, ``float64[]`` for arrays.

        What is no message type, ``float64`` say, has no fields.
        """
        name = full_type_name(type_name)
        defs = cast("Mapping[str, tuple[object, list[tuple[str, _Kind]]]]", self._store.fielddefs)
        return {field: _type_words(kind) for field, kind in defs[name][1]} if name in defs else {}

    def codec(self, type_name: str) -> Codec:
        """The decoder of a type by its name, with or without ``/msg/``.

        Raises:
            BagError: The type is unknown.
        """
        name = self._known(type_name)
        if name not in self._codecs:
            self._codecs[name] = Codec(self._store, name)
        return self._codecs[name]

    def _known(self, type_name: str) -> str:
        name = full_type_name(type_name)
        if name not in self._store.fielddefs:
            raise BagError(
                "no definition of this message type",
                where=type_name,
                hint="record to MCAP, which carries definitions, or name the folder of its .msg files",
            )
        return name


def full_type_name(type_name: str) -> str:
    """``pkg/msg/Name``, also for the ``pkg/Name`` of ROS 2 Crystal."""
    package, _, name = type_name.partition("/")
    return f"{package}/msg/{name}" if name and "/" not in name else type_name


@lru_cache(maxsize=256)
def embedded_codec(type_name: str, definition: str, encoding: str) -> Codec:
    """The decoder of a type by the definition that a bag carries.

    A store of its own, so that a cut-down or older definition never meets another of the same name.
    Types that the text uses but does not hold come from Jazzy.

    Args:
        type_name: As the bag spells it.
        definition: Text of the definition.
        encoding: ``ros2msg`` or ``ros2idl``.

    Raises:
        BagError: The text cannot be parsed or leaves a type open.
    """
    name = full_type_name(type_name)
    standard = get_typestore(Stores.ROS2_JAZZY).fielddefs
    try:
        types = dict(
            get_types_from_msg(definition, name) if encoding == "ros2msg" else get_types_from_idl(definition)
        )
        waiting = [name]
        seen = set()
        while waiting:
            current = waiting.pop()
            if current in seen:
                continue
            seen.add(current)
            types.setdefault(current, standard.get(current) or types[current])
            waiting.extend(_parts(types[current][1]))
        store = get_typestore(Stores.EMPTY)
        store.register(types)
    except (TypesysError, KeyError, SyntaxError) as err:
        raise BagError("the definition in the bag cannot be used", where=type_name, got=repr(err)) from err
    return Codec(store, name)


def _type_words(kind: _Kind) -> str:
    node, detail = kind
    if node in (Nodetype.ARRAY, Nodetype.SEQUENCE):
        return f"{_type_words(cast('_Kind', cast('tuple[object, object]', detail)[0]))}[]"
    return str(detail) if node == Nodetype.NAME else str(cast("tuple[str, int]", detail)[0])


def _parts(fields: object) -> Iterator[str]:
    for _, (kind, detail) in cast("list[tuple[str, tuple[int, tuple[object, object]]]]", fields):
        if kind in (Nodetype.ARRAY, Nodetype.SEQUENCE):
            kind, detail = cast("tuple[int, tuple[object, object]]", detail[0])
        if kind == Nodetype.NAME:
            yield str(detail)


def _starts_with_header(store: Typestore, type_name: str) -> bool:
    defs = cast("Mapping[str, tuple[object, list[tuple[str, object]]]]", store.fielddefs)

    def first(name: str) -> object:
        fields = defs[name][1] if name in defs else []
        return fields[0][1] if fields else None

    if type_name.startswith(_FOXGLOVE):
        return first(type_name) == (Nodetype.NAME, _TIME)
    return first(type_name) == (Nodetype.NAME, _HEADER) and first(_HEADER) == (Nodetype.NAME, _TIME)


def _is_little_endian(payload: bytes | memoryview) -> bool:
    kind = bytes(payload[:2])
    if len(payload) < 4 or kind not in (_CDR_BIG_ENDIAN, _CDR_LITTLE_ENDIAN):
        raise BagError(
            "not a plain CDR message", expected="it to begin with 00 00 or 00 01", got=kind.hex(" ")
        )
    return kind == _CDR_LITTLE_ENDIAN

"""The part of ``rosbag2_py`` that is used, by the signatures of Jazzy's stubs (0.26).

It proves that calls have the names, numbers and types of arguments that pybind11 lets through, and what is
done when the library fails. How rosbag2 stores is not imitated: this package's own writer and reader do it.
"""

from dataclasses import dataclass, field, fields
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace

import yaml
from sample_bags import make_writer

from piper_collect.bag.definitions import Definitions
from piper_collect.bag.metadata import BagMetadata, metadata_text, read_metadata
from piper_collect.bag.qos import parse_qos
from piper_collect.bag.reader import open_bag
from piper_collect.bag.storage import TopicInfo


def refuse(*pairs: tuple[object, type]) -> None:
    for value, kind in pairs:
        if not isinstance(value, (str, bytes) if kind is str else kind):
            raise TypeError(f"incompatible function arguments: {value!r}")


class Arguments:
    """Refuses arguments of another type than its fields say."""

    def __post_init__(self) -> None:
        refuse(*((getattr(self, f.name), f.type) for f in fields(self)))


@dataclass
class ConverterOptions(Arguments):
    input_serialization_format: str = ""
    output_serialization_format: str = ""


@dataclass
class StorageOptions(Arguments):
    uri: str
    storage_id: str = ""
    max_bagfile_size: int = 0
    max_bagfile_duration: int = 0
    max_cache_size: int = 0
    storage_preset_profile: str = ""
    storage_config_uri: str = ""
    snapshot_mode: bool = False
    start_time_ns: int = -1
    end_time_ns: int = -1
    custom_data: dict = field(default_factory=dict)


@dataclass
class StorageFilter(Arguments):
    topics: list = field(default_factory=list)
    services_events: list = field(default_factory=list)
    regex: str = ""
    exclude_topics: list = field(default_factory=list)
    exclude_service_events: list = field(default_factory=list)
    regex_to_exclude: str = ""


@dataclass
class QoS:
    profile: object


@dataclass
class TopicMetadata(Arguments):
    id: int
    name: str
    type: str
    serialization_format: str
    offered_qos_profiles: list = field(default_factory=list)
    type_description_hash: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse(*((qos, QoS) for qos in self.offered_qos_profiles))


def to_rclcpp_qos_vector(arg0: str, arg1: int, /) -> list[QoS]:
    refuse((arg0, str), (arg1, int))
    return [QoS(profile) for profile in parse_qos(arg0)]


class MetadataIo:
    def read_metadata(self, arg0: str, /) -> SimpleNamespace:
        refuse((arg0, str))
        known = read_metadata(Path(arg0) / "metadata.yaml")
        return SimpleNamespace(**{f.name: getattr(known, f.name) for f in fields(known)})

    def write_metadata(self, arg0: str, arg1: SimpleNamespace, /) -> None:
        refuse((arg0, str), (arg1, SimpleNamespace))
        (Path(arg0) / "metadata.yaml").write_text(metadata_text(BagMetadata(**vars(arg1))), "utf-8")


class SequentialReader:
    def open(self, arg0: StorageOptions, arg1: ConverterOptions, /) -> None:
        refuse((arg0, StorageOptions), (arg1, ConverterOptions))
        self._bag = open_bag(Path(arg0.uri))
        self._filter = StorageFilter()
        self._next = None

    def get_metadata(self) -> SimpleNamespace:
        bag = self._bag
        return SimpleNamespace(
            custom_data=dict(bag.custom_data),
            message_count=sum(t.message_count for t in bag.topics.values()),
            starting_time=SimpleNamespace(nanoseconds=bag.start_ns or 0),
            duration=SimpleNamespace(nanoseconds=(bag.end_ns or 0) - (bag.start_ns or 0)),
            topics_with_message_count=[
                SimpleNamespace(
                    topic_metadata=TopicMetadata(n, t.name, t.type, "cdr", [], t.type_hash),
                    message_count=t.message_count,
                )
                for n, t in enumerate(bag.topics.values())
            ],
        )

    def get_all_message_definitions(self) -> list[SimpleNamespace]:
        return [
            SimpleNamespace(
                topic_type=t.type, encoding="ros2msg", encoded_message_definition=t.message_definition
            )
            for t in self._bag.topics.values()
        ]

    def set_filter(self, arg0: StorageFilter, /) -> None:
        refuse((arg0, StorageFilter))
        self._filter = arg0

    def has_next(self) -> bool:
        if self._next is None:
            events = [name for name in self._bag.topics if name.endswith("/_service_event")]
            self._messages = self._bag.messages([*self._filter.topics, *events] or None)
            self._next = next(self._messages, ())
        return self._next != ()

    def read_next(self) -> tuple[str, bytes, int]:
        found, self._next = self._next, next(self._messages, ())
        return (found.topic, bytes(found.payload), found.receive_ns)


class Rosbag2(ModuleType):
    """The module; it remembers what it was asked.

    Args:
        closes: Whether the writer has ``close()``; without it deletion closes.
        publish_times: Whether ``write`` takes them.
        loses: Every so many messages one is lost in silence; 0 for never.
        plugins: The storages that are there.
        refuses: What ``open`` raises.
    """

    def __init__(
        self, *, closes=True, publish_times=True, loses=0, plugins=("mcap", "sqlite3"), refuses=""
    ) -> None:
        super().__init__("rosbag2_py")
        self.__spec__ = ModuleSpec("rosbag2_py", None)
        self.plugins, self.publish_times, self.loses, self.refuses = plugins, publish_times, loses, refuses
        self.options: list[StorageOptions] = []
        self.settings: list[object] = []
        self.ids: dict[str, int] = {}
        self.times: list[tuple[int, ...]] = []
        self.ConverterOptions, self.StorageOptions = ConverterOptions, StorageOptions
        self.StorageFilter, self.TopicMetadata = StorageFilter, TopicMetadata
        self.MetadataIo, self.SequentialReader = MetadataIo, SequentialReader
        self.to_rclcpp_qos_vector = to_rclcpp_qos_vector
        self.SequentialWriter = lambda: (_ClosingWriter if closes else _Writer)(self)

    def get_registered_writers(self) -> set[str]:
        return set(self.plugins)


class _Writer:
    def __init__(self, module: Rosbag2) -> None:
        self._module, self._under = module, None

    def open(self, arg0: StorageOptions, arg1: ConverterOptions, /) -> None:
        refuse((arg0, StorageOptions), (arg1, ConverterOptions))
        if self._module.refuses:
            Path(arg0.uri).mkdir()
            raise RuntimeError(self._module.refuses)
        self._module.options.append(arg0)
        config = arg0.storage_config_uri
        self._module.settings.append(yaml.safe_load(Path(config).read_text()) if config else None)
        self._under = make_writer(arg0.storage_id)
        self._under.open(Path(arg0.uri), dict(arg0.custom_data))

    def create_topic(self, arg0: TopicMetadata, /) -> None:
        refuse((arg0, TopicMetadata))
        self._module.ids[arg0.name] = arg0.id
        self._under.create_topic(
            TopicInfo(
                name=arg0.name,
                type=arg0.type,
                qos=tuple(qos.profile for qos in arg0.offered_qos_profiles),
                type_hash=arg0.type_description_hash,
                message_definition=Definitions().definition(arg0.type),
            )
        )

    def write(self, arg0: str, arg1: str, *times: int) -> None:
        if len(times) not in ((1, 2) if self._module.publish_times else (1,)):
            raise TypeError("incompatible function arguments")
        refuse((arg0, str), (arg1, str), *((t, int) for t in times))
        self._module.times.append(times)
        if not self._module.loses or len(self._module.times) % self._module.loses:
            self._under.write(arg0, arg1, *times)

    def _close(self) -> None:
        under, self._under = self._under, None
        if under is not None:
            under.close()

    __del__ = _close


class _ClosingWriter(_Writer):
    def close(self) -> None:
        self._close()

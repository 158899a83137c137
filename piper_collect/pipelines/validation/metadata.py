"""The metadata of a dataset that someone else may have written, read as far as it makes sense."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from piper_collect.core.findings import Findings
from piper_collect.dataset.json_files import read_json
from piper_collect.dataset.layout import (
    DATA_PATH,
    EPISODES,
    EPISODES_STATS,
    INFO,
    META,
    MODALITY,
    SESSIONS,
    SOURCES,
    STATS,
    TASKS,
    VIDEO_PATH,
    check_below_root,
    check_template,
    data_path,
    video_path,
)
from piper_collect.dataset.reader import VERSIONS
from piper_collect.errors import DatasetError
from piper_collect.pipelines.validation.json_values import (
    JsonLines,
    as_int,
    as_list,
    as_number,
    as_object,
    as_text,
    parse_object,
    read_object,
    shown,
)

_MOST_FPS = 100_000.0
_MOST_ELEMENTS = 1_000_000
_CHUNKS_SIZE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureInfo:
    """A feature as info.json declares it.

    Attributes:
        key: Column or video name.
        dtype: ``float32``, ``video``, ``image`` and so on; empty where it is not told.
        shape: Cell shape; empty where it is not told.
        names: Names of the elements, nested lists flattened; empty where none are given.
        video: What is said of a video (``info`` or ``video_info``).
        declared: The entry itself.
    """

    key: str
    dtype: str
    shape: tuple[int, ...]
    names: tuple[str, ...]
    video: Mapping[str, Any]
    declared: Mapping[str, Any]

    @property
    def frame_size(self) -> tuple[int, int] | None:
        """(height, width) of a picture, by the names of the axes or else by where the channels are."""
        if len(self.shape) != 3:
            return None
        if {"height", "width"} <= set(self.names) and len(self.names) == 3:
            return self.shape[self.names.index("height")], self.shape[self.names.index("width")]
        first = self.shape[0] in (1, 3) and self.shape[2] not in (1, 3)
        return (self.shape[1], self.shape[2]) if first else (self.shape[0], self.shape[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """What ``meta/`` says.

    Attributes:
        root: The dataset.
        info: info.json as it is.
        version: ``codebase_version``.
        fps: Nominal row rate.
        chunks_size: Episodes a chunk.
        features: In their order.
        data_template: Of the parquet files.
        video_template: Of the videos.
        tasks: Task strings by task_index.
        episodes: Lines of episodes.jsonl.
        sources: Lines of episode_sources.jsonl; None where another tool wrote the dataset.
        episodes_stats: Lines of episodes_stats.jsonl, or None.
        sessions: Records of collection_sessions.jsonl, or None.
        stats: stats.json, or None.
        modality: modality.json, or None.
    """

    root: Path
    info: Mapping[str, Any]
    version: str
    fps: float
    chunks_size: int
    features: Mapping[str, FeatureInfo]
    data_template: str
    video_template: str
    tasks: Mapping[int, str]
    episodes: JsonLines
    sources: JsonLines | None = None
    episodes_stats: JsonLines | None = None
    sessions: tuple[Mapping[str, Any], ...] | None = None
    stats: Mapping[str, Any] | None = None
    modality: Mapping[str, Any] | None = None
    video_keys: tuple[str, ...] = field(default=())

    def data_path(self, episode_index: int) -> Path:
        """An episode's parquet file; it need not exist."""
        return self.root / data_path(episode_index, self.chunks_size, self.data_template)

    def video_path(self, episode_index: int, key: str) -> Path:
        """An episode's video; it need not exist."""
        return self.root / video_path(episode_index, self.chunks_size, key, self.video_template)

    def has(self, name: str) -> bool:
        """Whether a file is there under ``meta/``."""
        return (self.root / META / name).is_file()


def read_metadata(root: Path, findings: Findings) -> Metadata:
    """Read ``meta/`` of the dataset at ``root``; what is wrong there is a finding.

    Raises:
        DatasetError: It is no dataset, of another version, or so damaged that no episode can be found.
    """
    if not (root / META / INFO).is_file():
        raise DatasetError("is no dataset", where=root, expected=f"a file {META}/{INFO}")
    info = read_json(root / META / INFO)
    version = info.get("codebase_version")
    if version not in VERSIONS:
        raise DatasetError(
            "a dataset of this version cannot be validated",
            where=root,
            expected=" or ".join(VERSIONS),
            got=shown(version),
        )
    fps = as_number(info.get("fps"))
    if fps is None or not 0 < fps <= _MOST_FPS:
        raise DatasetError("fps is no frame rate", where=root / META / INFO, got=shown(info.get("fps")))
    if not isinstance(info.get("features"), dict):
        raise DatasetError("has no features", where=root / META / INFO, got=shown(info.get("features")))
    if not (root / META / EPISODES).is_file():
        raise DatasetError("the list of episodes is missing", where=root / META / EPISODES)
    features = _features(info["features"], findings)
    videos = tuple(key for key, feature in features.items() if feature.dtype == "video")
    data_template = _template(info, "data_path", DATA_PATH, ("episode_chunk", "episode_index"), findings)
    fields = ("episode_chunk", "episode_index", "video_key")
    video_template = _template(info, "video_path", VIDEO_PATH, fields, findings) if videos else VIDEO_PATH

    def lines(name: str, key: str = "episode_index") -> JsonLines | None:
        path = root / META / name
        return JsonLines.scan(path, f"{META}/{name}", key, findings) if path.is_file() else None

    episodes = lines(EPISODES)
    if episodes is None or (episodes.lines and not episodes.offsets):
        raise DatasetError("no line of it tells an episode", where=root / META / EPISODES)
    return Metadata(
        root=root,
        info=info,
        version=version,
        fps=fps,
        chunks_size=_chunks_size(info, findings),
        features=features,
        data_template=data_template,
        video_template=video_template,
        tasks=_tasks(lines(TASKS, "task_index"), findings),
        episodes=episodes,
        sources=lines(SOURCES),
        episodes_stats=lines(EPISODES_STATS),
        sessions=_sessions(root / META / SESSIONS, findings),
        stats=_optional(root, STATS, findings),
        modality=_optional(root, MODALITY, findings),
        video_keys=videos,
    )


def _optional(root: Path, name: str, findings: Findings) -> Mapping[str, Any] | None:
    path = root / META / name
    return read_object(path, f"{META}/{name}", findings) if path.is_file() else None


def _template(
    info: Mapping[str, Any], key: str, default: str, fields: tuple[str, ...], findings: Findings
) -> str:
    if key not in info:
        findings.add("error", "info", f"{META}/{INFO}", f"has no {key}; looked for files at {default}")
        return default
    try:
        return check_template(info[key], fields)
    except DatasetError as err:
        raise DatasetError(str(err), where=f"{META}/{INFO}, {key}") from err


def _chunks_size(info: Mapping[str, Any], findings: Findings) -> int:
    size = as_int(info.get("chunks_size"))
    if size is None or size < 1:
        text = f"chunks_size is {shown(info.get('chunks_size'))}; looked for files with {_CHUNKS_SIZE}"
        findings.add("error", "info", f"{META}/{INFO}", text)
        return _CHUNKS_SIZE
    return size


def _features(declared: Mapping[str, Any], findings: Findings) -> dict[str, FeatureInfo]:
    features = {}
    for key, entry in declared.items():
        where = f"{META}/{INFO}, feature {key}"
        if not isinstance(entry, dict):
            findings.add("error", "features", where, f"is {shown(entry)}, not an object")
            continue
        dtype = as_text(entry.get("dtype"))
        if not dtype:
            findings.add("error", "features", where, f"dtype is {shown(entry.get('dtype'))}")
        shape = [as_int(n) for n in as_list(entry.get("shape"))]
        whole = tuple(n for n in shape if n is not None and 0 < n <= _MOST_ELEMENTS)
        if not shape or len(whole) != len(shape):
            findings.add("error", "features", where, f"shape is {shown(entry.get('shape'))}")
            whole = ()
        try:
            check_below_root(key)
        except DatasetError as err:
            findings.add("error", "features", where, str(err))
            continue
        names = _flat(entry.get("names"))
        features[key] = FeatureInfo(
            key=key,
            dtype=dtype,
            shape=whole,
            names=names,
            video=as_object(entry.get("info")) or as_object(entry.get("video_info")),
            declared=entry,
        )
        if len(whole) == 1 and names and len(names) != whole[0] and dtype != "string":
            text = f"{len(names)} names for {whole[0]} elements"
            findings.add("error", "features", where, text)
    return features


def _flat(names: object) -> tuple[str, ...]:
    """The names of a feature; LeRobot also nests them one deep, in an object or in lists."""
    parts = list(names.values()) if isinstance(names, dict) else as_list(names)
    flat = [name for part in parts for name in (part if isinstance(part, list) else [part])]
    return tuple(name for name in flat if isinstance(name, str))


def _tasks(lines: JsonLines | None, findings: Findings) -> dict[int, str]:
    where = f"{META}/{TASKS}"
    if lines is None:
        findings.add("error", "tasks", where, "the file is missing")
        return {}
    tasks: dict[int, str] = {}
    known: set[str] = set()
    for index, line in lines.items():
        task = as_text(line.get("task"))
        if not task.strip():
            findings.add("error", "tasks", where, f"task {index} is {shown(line.get('task'))}")
        elif task in known:
            findings.add("warning", "tasks", where, f"task {index} is the text of another one, {shown(task)}")
        known.add(task)
        tasks[index] = task
    if list(tasks) != list(range(len(tasks))):
        findings.add("error", "tasks", where, f"the task indexes are not 0 to {len(tasks) - 1} without a gap")
    return tasks


def _sessions(path: Path, findings: Findings) -> tuple[Mapping[str, Any], ...] | None:
    if not path.is_file():
        return None
    where = f"{META}/{SESSIONS}"
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as err:
        findings.add("error", "json", where, f"cannot be read: {err.strerror}")
        return ()

    return tuple(
        record
        for line in lines
        if line.strip() and (record := parse_object(line, where, findings)) is not None
    )

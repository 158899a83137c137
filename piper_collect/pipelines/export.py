"""Bags to a dataset: one episode a bag, each committed whole or not at all."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from piper_collect.bag.episode import first_frames, read_episode
from piper_collect.bag.find import content_hash, find_bags
from piper_collect.bag.reader import BagReader, open_bag
from piper_collect.bag.sidecar import EpisodeRecord, choose_config, read_record
from piper_collect.config.profile import ColumnSpec, Profile
from piper_collect.config.schema import SessionConfig
from piper_collect.core.align import align
from piper_collect.core.types import AlignPolicy, Episode, RawEpisode
from piper_collect.dataset.writer import DatasetWriter, EpisodeIdentity, SavedEpisode
from piper_collect.errors import BagError, ConfigError, DatasetError, PiperCollectError
from piper_collect.imaging.frames import frame_size
from piper_collect.pipelines.session_record import record_for

Status = Literal["exported", "held", "skipped", "failed"]
Progress = Callable[[int, int, str, float], None]
"""``progress(bag number from 0, bags, name, fraction of the bag's work)``."""

_MS = 1e6
_READ_PART = 0.3  # of the work on a bag, about; the rest is encoding
_RECORDING = ("outcome", "incomplete_reasons", "losses", "interval", "clocks", "unset_stamps", "tool_version")
_TRUE_TIMES = (
    "rows and frames keep their true capture times: stock LeRobot refuses such a dataset by its timestamp "
    "check at the default tolerance (1e-4 s)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BagOutcome:
    """What became of one bag.

    Attributes:
        bag: The bag's path.
        status: ``exported``; ``held`` by the dataset already; ``skipped`` as not whole; ``failed``.
        episode_index: Its episode in the dataset, when it has one.
        rows: Rows written.
        counts: The alignment's counts (see ``align``).
        video_frames: Encoded frames by camera.
        dropped_frames: Frames left out by the encoder, by camera.
        duration_s: From the first row to the last.
        config: Where the configuration that it was read with is from.
        notes: What a person should know of this bag.
        reason: Why it was skipped or failed; one line.
    """

    bag: Path
    status: Status
    episode_index: int | None = None
    rows: int = 0
    counts: Mapping[str, object] | None = None
    video_frames: Mapping[str, int] | None = None
    dropped_frames: Mapping[str, int] | None = None
    duration_s: float = 0.0
    config: str = ""
    notes: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportSummary:
    """What an export did.

    Attributes:
        root: The dataset.
        bags: Every bag found, in the order of its start.
        notes: What concerns the dataset as a whole.
    """

    root: Path
    bags: tuple[BagOutcome, ...]
    notes: tuple[str, ...]

    def count(self, status: Status) -> int:
        """How many bags ended so."""
        return sum(b.status == status for b in self.bags)

    @property
    def exit_code(self) -> int:
        """1 when a bag failed, else 0."""
        return 1 if self.count("failed") else 0


def export(
    paths: Iterable[Path],
    root: Path,
    *,
    profile: Profile,
    config: SessionConfig | None = None,
    config_name: str = "--config",
    allow_incomplete: bool = False,
    task: str | None = None,
    on_progress: Progress | None = None,
) -> ExportSummary:
    """Add the bags below ``paths`` to the dataset at ``root``, which is made when it is not there.

    Bags come in the order of their start. One that the dataset holds (by content) is left alone, so that
    an export that was stopped is simply run again.

    Args:
        paths: Bags or folders that hold some.
        root: The dataset.
        profile: What the dataset is made of.
        config: How to read the bags; each bag's own by default.
        config_name: What ``config`` is called in the summary.
        allow_incomplete: Export bags whose recording was cut short or interrupted, too.
        task: Task string for all of them, in place of the recorded one.
        on_progress: Told how far it is.

    Returns:
        What became of each bag; a bag that fails does not stop the others.

    Raises:
        BagError: There is no bag below a path.
    """
    job = _Export(root, profile, config, config_name, allow_incomplete, task)
    found, outcomes = _in_order(find_bags(paths))
    for number, path in enumerate(found):

        def tell(fraction: float, number: int = number, name: str = path.name) -> None:
            if on_progress is not None:
                on_progress(number, len(found), name, fraction)

        tell(0.0)
        try:
            outcomes.append(job.export_bag(path, tell))
        except (PiperCollectError, OSError) as err:
            outcomes.append(BagOutcome(bag=path, status="failed", reason=_one_line(path, err)))
        tell(1.0)
    return ExportSummary(root=root, bags=tuple(outcomes), notes=job.notes(outcomes))


class _Export:
    """One run; the dataset is opened with the first bag that needs it."""

    def __init__(
        self,
        root: Path,
        profile: Profile,
        config: SessionConfig | None,
        config_name: str,
        allow_incomplete: bool,
        task: str | None,
    ) -> None:
        self._root = root
        self._profile = profile
        self._config = config
        self._config_name = config_name
        self._allow_incomplete = allow_incomplete
        self._task = task
        self._writer: DatasetWriter | None = None
        self._fps = 0.0
        self._robot_type = ""

    def export_bag(self, path: Path, tell: Callable[[float], None]) -> BagOutcome:
        with open_bag(path) as bag:
            record = read_record(bag)
            if record.incomplete_reasons and not self._allow_incomplete:
                return BagOutcome(bag=path, status="skipped", reason="; ".join(record.incomplete_reasons))
            config, said = self._config_of(bag, record)
            digest = content_hash(path)
            writer = self._open(bag, config)
            held = writer.holds(digest)
            if held is not None:
                return BagOutcome(bag=path, status="held", episode_index=held, config=said)
            raw = self._with_task(read_episode(bag, config, record))
            episode = _with_recording(align_by_profile(raw, config, self._profile))
            tell(_READ_PART)
            frames = max(_frame_count(episode), 1)
            saved = writer.add_episode(
                episode,
                identity=EpisodeIdentity(session=record.session, bag=record.bag, content_hash=digest),
                session_record=record_for(bag, record, config),
                progress=lambda done: tell(_READ_PART + (1.0 - _READ_PART) * min(done / frames, 1.0)),
            )
        return _exported(path, said, raw, episode, saved)

    def notes(self, outcomes: Iterable[BagOutcome]) -> tuple[str, ...]:
        """What concerns the whole dataset."""
        notes = [] if self._writer is None else list(self._writer.notes)
        if self._profile.row_clock == "action" and any(b.status in ("exported", "held") for b in outcomes):
            notes.append(_TRUE_TIMES)
        return tuple(dict.fromkeys(notes))

    def _config_of(self, bag: BagReader, record: EpisodeRecord) -> tuple[SessionConfig, str]:
        if self._config is not None:
            return self._config, self._config_name
        return choose_config(bag, record)

    def _with_task(self, raw: RawEpisode) -> RawEpisode:
        task = self._task if self._task is not None else raw.task
        if not task.strip():
            raise DatasetError("the episode has no task", where=raw.name, hint='give --task "what is done"')
        return replace(raw, task=task)

    def _open(self, bag: BagReader, config: SessionConfig) -> DatasetWriter:
        """The dataset's writer, opened with the cameras and rate of the first bag that gets here."""
        fps, robot_type = config.session.fps, config.arm.model
        if self._writer is None:
            self._writer = DatasetWriter.open(
                self._root,
                self._profile,
                fps=fps,
                robot_type=robot_type,
                cameras=camera_sizes(bag, config),
            )
            self._fps, self._robot_type = fps, robot_type
        for what, has, wants in (("fps", self._fps, fps), ("robot", self._robot_type, robot_type)):
            if has != wants:
                raise DatasetError(
                    f"the bag was recorded for another {what} than the dataset has",
                    where=bag.path,
                    expected=has,
                    got=wants,
                    hint="export it into a folder of its own, or give one --config for all",
                )
        return self._writer


def camera_sizes(bag: BagReader, config: SessionConfig) -> dict[str, tuple[int, int]]:
    """(height, width) of each camera's first frame; an optional camera without frames is left out.

    Raises:
        BagError: A required topic has no messages.
        ImageError: A first frame is no image that becomes video.
    """
    return {name: frame_size(frame) for name, frame in first_frames(bag, config).items()}


def align_by_profile(raw: RawEpisode, config: SessionConfig, profile: Profile) -> Episode:
    """Align an episode to the columns of a profile, each source sampled as the configuration says.

    Raises:
        ConfigError: A column has no source, or its source has another number of elements.
        AlignmentError: As ``align``.
    """
    policies = {column.source: _policy(raw, config, column) for column in profile.columns}
    cameras = {name: config.cameras[name] for name in raw.cameras}
    return align(
        raw,
        row_clock=profile.row_clock,
        fps=config.session.fps,
        action_source=profile.action_source,
        policies=policies,
        camera_max_age_ns={name: round(c.max_age_ms * _MS) for name, c in cameras.items()},
        required_cameras=[name for name, c in cameras.items() if c.required],
        on_gap=profile.on_gap,
    )


def _policy(raw: RawEpisode, config: SessionConfig, column: ColumnSpec) -> AlignPolicy:
    settings, stream = config.sources.get(column.source), raw.streams.get(column.source)
    if settings is None:
        raise ConfigError(
            f"column {column.key} needs a source that is not configured",
            where="sources",
            got=column.source,
            valid=config.sources,
        )
    if stream is None:
        raise BagError(f"no messages on {settings.topic} (needed for column {column.key})", where=raw.name)
    if stream.values.shape[1] != len(column.names):
        raise ConfigError(
            f"source {column.source} does not fill column {column.key}",
            where=raw.name,
            expected=f"{len(column.names)} elements ({', '.join(column.names)})",
            got=stream.values.shape[1],
        )
    return AlignPolicy(
        sampling=settings.sampling,
        max_age_ns=round(settings.max_age_ms * _MS),
        required=settings.required,
        rotation=column.rotation,
    )


def _in_order(paths: list[Path]) -> tuple[list[Path], list[BagOutcome]]:
    """The bags by their start, and those that cannot even be opened."""
    starts: list[tuple[int, str, Path]] = []
    failed = []
    for path in paths:
        try:
            with open_bag(path) as bag:
                record = read_record(bag)
                start_ns = record.start_ns if record.start_ns is not None else bag.start_ns
        except (PiperCollectError, OSError) as err:
            failed.append(BagOutcome(bag=path, status="failed", reason=_one_line(path, err)))
        else:
            starts.append((start_ns or 0, str(path), path))
    return [path for _, _, path in sorted(starts)], failed


def _exported(path: Path, said: str, raw: RawEpisode, episode: Episode, saved: SavedEpisode) -> BagOutcome:
    notes = [f"{topic}: {why}" for topic, why in _mapping(raw.provenance.get("clocks")).items()]
    known = raw.provenance.get("notes")
    notes += [str(n) for n in known] if isinstance(known, list) else []
    reasons = raw.provenance.get("incomplete_reasons")
    notes += [f"not whole: {r}" for r in reasons] if isinstance(reasons, list) else []
    return BagOutcome(
        bag=path,
        status="exported",
        episode_index=saved.episode_index,
        rows=saved.rows,
        counts=episode.counts,
        video_frames=dict(saved.video_frames),
        dropped_frames=dict(saved.dropped_frames),
        duration_s=saved.duration_s,
        config=said,
        notes=tuple(notes),
    )


def _with_recording(episode: Episode) -> Episode:
    """``episode`` with what is known of its recording among its counts, where the dataset keeps it."""
    known = {key: episode.provenance.get(key) for key in _RECORDING}
    return replace(episode, counts={**episode.counts, "recording": known})


def _frame_count(episode: Episode) -> int:
    return sum(
        int(np.count_nonzero((c.stream.stamp_ns >= c.first_ns) & (c.stream.stamp_ns <= c.last_ns)))
        for c in episode.cameras.values()
    )


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _one_line(path: Path, err: Exception) -> str:
    text = " ".join(str(err).split())
    return text if str(path) in text else f"{path}: {text}"

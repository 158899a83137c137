"""One run of an export: bags looked at, and what came of them put into the dataset."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from piper_collect.bag.find import storage_bytes
from piper_collect.bag.reader import BagReader, open_bag
from piper_collect.bag.sidecar import EpisodeRecord, choose_config, read_record
from piper_collect.config.fitted import fitted_profile
from piper_collect.config.names import depth_topic
from piper_collect.config.profile import DEPTH_DIALECTS
from piper_collect.config.schema import SessionConfig
from piper_collect.core.content_hash import HashKind
from piper_collect.core.naming import session_name
from piper_collect.core.provenance import binding_changes, note_text, warning_text
from piper_collect.core.types import depth_name
from piper_collect.dataset.encode import COPIED
from piper_collect.dataset.metadata import format_notes
from piper_collect.dataset.stage import EpisodeIdentity
from piper_collect.dataset.state import HeldBag
from piper_collect.dataset.writer import DatasetWriter, SavedEpisode
from piper_collect.errors import DatasetError, DatasetLockError, PiperCollectError
from piper_collect.pipelines.ahead import default_workers
from piper_collect.pipelines.aligned import picture_sizes, picture_topics
from piper_collect.pipelines.bag_episodes import ExportOptions
from piper_collect.pipelines.export_outcome import BagOutcome, exported
from piper_collect.pipelines.prepare import BagJob, PreparedBag, Tell, one_line
from piper_collect.pipelines.save import BagSaver
from piper_collect.pipelines.workers import Lost

_TRUE_TIMES = (
    "rows and frames keep their true capture times: stock LeRobot refuses such a dataset by its timestamp "
    "check at the default tolerance (1e-4 s), and so does GR00T, for reasons that validate names; "
    "--profile train writes one that they load"
)


class ExportRun:
    """One run; the dataset is opened with the first bag that needs it.

    Args:
        root: The dataset; None for a new one.
        options: How bags become episodes.
        stack: The dataset is ours alone until it closes; None for only as long as an episode is saved.
    """

    def __init__(self, root: Path | None, options: ExportOptions, stack: ExitStack | None = None) -> None:
        self.root = root
        self._stack = stack
        self._options = options
        self._writer: DatasetWriter | None = None
        self._known: frozenset[tuple[str, str]] = frozenset()
        self._hash_kind: HashKind = "blake3"
        self._depth_left: dict[str, None] = {}
        self._has_depth = False
        self._fps = 0.0
        self._robot_type = ""

    @property
    def writer(self) -> DatasetWriter:
        """The dataset's; there once a bag has begun."""
        assert self._writer is not None
        return self._writer

    @property
    def is_current(self) -> bool:
        """Whether nobody else has changed the dataset since."""
        return self._writer is None or self._writer.is_current

    def held(self, content_hash: str) -> HeldBag:
        """What the dataset holds of the bag with this hash."""
        return self.writer.held(content_hash)

    def default_workers(self, found: Sequence[Path]) -> int:
        """By the cameras of the first bag that can be looked at, and the size of all."""
        for path in found:
            try:
                with open_bag(path) as bag:
                    config, _ = self._config_of(bag, read_record(bag))
            except (PiperCollectError, OSError):
                continue
            return default_workers(len(found), len(config.cameras), sum(map(storage_bytes, found)))
        return 1

    def begin(self, path: Path) -> BagJob | BagOutcome:
        """Look at a bag, and open the dataset for it.

        Raises:
            DatasetLockError: It cannot be written now, whatever the bag.
        """
        try:
            with open_bag(path) as bag:
                record = read_record(bag)
                if record.incomplete_reasons and not self._options.allow_incomplete:
                    return BagOutcome(bag=path, status="skipped", reason="; ".join(record.incomplete_reasons))
                config, said = self._config_of(bag, record)
                writer = self._open(bag, record, config)
                self._note_depth(bag, config)
        except DatasetLockError:
            raise  # so it is for every bag
        except (PiperCollectError, OSError) as err:
            return BagOutcome(bag=path, status="failed", reason=one_line(path, err))
        return BagJob(
            path=path,
            record=record,
            config=config,
            said=said,
            options=self._options,
            stager=writer.stager,
            is_known=(record.session, record.bag) in self._known,
            hash_kind=self._hash_kind,
        )

    def finish(self, job: BagJob, prepared: PreparedBag | Lost, tell: Tell) -> BagOutcome:
        """Put what was prepared into the dataset."""
        try:
            return self._finished(job, prepared, tell)
        except (PiperCollectError, OSError) as err:
            return BagOutcome(bag=job.path, status="failed", reason=one_line(job.path, err))

    def _finished(self, job: BagJob, prepared: PreparedBag | Lost, tell: Tell) -> BagOutcome:
        path = job.path
        if isinstance(prepared, Lost):
            raise DatasetError(
                f"the process that read the bag was ended (exit code {prepared.exit_code})",
                where=path,
                hint="run the export again; where memory is short, with fewer --workers",
            )
        held = self.writer.held(prepared.content_hash)
        if held.whole and not self._options.replace:
            return BagOutcome(bag=path, status="held", episodes=held.indexes, config=job.said)
        warning, notes = "", tuple[str, ...]()
        if prepared.session is not None:
            warning, notes = self._compare_sessions(self.writer, prepared.session)
        if prepared.session is None or (prepared.error and not prepared.extras):
            return BagOutcome(bag=path, status="failed", reason=prepared.error)
        identity = EpisodeIdentity(
            session=job.record.session, bag=job.record.bag, content_hash=prepared.content_hash
        )
        saver = BagSaver(writer=self.writer, identity=identity, session=prepared.session, tell=tell)
        saved = saver.save(prepared, replace=self._options.replace)
        if prepared.error:
            return BagOutcome(bag=path, status="failed", reason=prepared.error)
        notes = (*notes, *prepared.notes, *_video_notes(saved))
        return exported(path, job.said, prepared.parts, saved, warning, notes)

    def _note_depth(self, bag: BagReader, config: SessionConfig) -> None:
        """Take note of depth images that do not come into the dataset, and of whether any camera has some."""
        self._has_depth |= any(map(depth_topic, config.cameras.values()))
        profile = self._options.profile
        if profile.holds_depth:
            return
        why = f"the profile {profile.name} leaves them out (depth: png takes them in)"
        if profile.depth != "none":
            why = f"{profile.dialect} does not hold them; --dialect {DEPTH_DIALECTS[0]} does"
        topics = picture_topics(config)
        for camera in config.cameras:
            info = bag.topics.get(topics.get(depth_name(camera), ""))
            if info is not None and info.message_count:
                self._depth_left[f"{camera}: its depth images are not in the dataset: {why}"] = None

    def notes(self, outcomes: Iterable[BagOutcome]) -> tuple[str, ...]:
        """What concerns the whole dataset."""
        notes = [] if self._writer is None else list(self._writer.notes)
        in_it = any(b.episodes for b in outcomes)
        if self._options.profile.row_clock == "action" and in_it:
            notes.append(_TRUE_TIMES)
        if in_it:
            notes += format_notes(self._options.profile)
            notes += self._depth_left
        profile = self._options.profile
        if in_it and profile.depth != "none" and not self._has_depth:
            notes.append(
                f"the profile {profile.name} asks for depth images, and no camera of the session has any "
                "(depth_topic or aligned_depth)"
            )
        return tuple(dict.fromkeys(notes))

    def _compare_sessions(
        self, writer: DatasetWriter, record: Mapping[str, object]
    ) -> tuple[str, tuple[str, ...]]:
        """The warning and the notes about a session that comes after another one in the dataset.

        Raises:
            DatasetError: The control changed, and that is to be refused.
        """
        names = [s.get("session") for s in writer.sessions]
        if not names or record["session"] in names:
            return "", ()
        before, now = str(names[-1]), str(record["session"])
        comparison = binding_changes(writer.sessions[-1], record)
        if comparison.changed and self._options.strict_binding:
            changed = "; ".join(f"{b.key} {b.old} -> {b.new}" for b in comparison.changed)
            raise DatasetError(
                f"session {now} was recorded under other control than {before} before it: {changed}",
                where=writer.root,
                hint="export it into a folder of its own, or leave out --strict-binding",
            )
        note = note_text(comparison, before, now)
        return warning_text(comparison, before, now), (note,) if note else ()

    def _config_of(self, bag: BagReader, record: EpisodeRecord) -> tuple[SessionConfig, str]:
        if self._options.config is not None:
            return self._options.config, self._options.config_name
        return choose_config(bag, record)

    def _open(self, bag: BagReader, record: EpisodeRecord, config: SessionConfig) -> DatasetWriter:
        """The dataset's writer, opened with the cameras and rate of the first bag that gets here."""
        fps, robot_type = config.session.fps, config.arm.model
        if self._writer is None:
            made_of = fitted_profile(self._options.profile, config.sources)
            self._options = replace(self._options, profile=made_of)
            if self.root is None:
                task = self._options.task or record.task or config.session.task
                self.root = Path(config.session.root).expanduser() / session_name(task, datetime.now())
            profile = self._options.profile
            cameras, depths = picture_sizes(bag, config, depth=profile.holds_depth)
            writer = DatasetWriter.open(
                self.root, profile, fps=fps, robot_type=robot_type, cameras=cameras, depths=depths
            )
            if self._stack is not None:
                self._stack.enter_context(writer.alone())
            self._writer = writer
            self._known = self._writer.bag_names
            self._hash_kind = self._writer.hash_kind
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


def in_start_order(paths: list[Path]) -> tuple[list[Path], list[BagOutcome]]:
    """The bags by their start, and those that cannot even be opened."""
    starts: list[tuple[int, str, Path]] = []
    failed = []
    for path in paths:
        try:
            with open_bag(path) as bag:
                record = read_record(bag)
                start_ns = record.start_ns if record.start_ns is not None else bag.start_ns
        except (PiperCollectError, OSError) as err:
            failed.append(BagOutcome(bag=path, status="failed", reason=one_line(path, err)))
        else:
            starts.append((start_ns or 0, str(path), path))
    return [path for _, _, path in sorted(starts)], failed


def _video_notes(saved: Sequence[SavedEpisode]) -> Iterator[str]:
    """What became of the videos of cameras that sent some."""
    for part in saved:
        for camera, source in part.video_sources.items():
            how = "taken over as it is" if source == COPIED else f"encoded anew: {source}"
            yield f"{camera}: its H.264 is {how}" + (f" (episode {part.episode_index})" if saved[1:] else "")

"""What became of the bags of an export."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from piper_collect.core.types import Episode
from piper_collect.dataset.writer import SavedEpisode

Status = Literal["exported", "replaced", "held", "skipped", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BagOutcome:
    """What became of one bag.

    Attributes:
        bag: The bag's path.
        status: ``exported``; ``replaced`` in place; ``held`` by the dataset already; ``skipped`` as not
            whole; ``failed``.
        episodes: Its episodes in the dataset.
        rows: Rows written.
        counts: The alignment's counts (see ``align``).
        video_frames: Encoded frames by camera.
        dropped_frames: Frames left out by the encoder, by camera.
        duration_s: From the first row to the last.
        config: Where the configuration that it was read with is from.
        notes: What a person should know of this bag.
        warning: What a person must not miss; several lines.
        reason: Why it was skipped or failed; one line.
    """

    bag: Path
    status: Status
    episodes: tuple[int, ...] = ()
    rows: int = 0
    counts: Mapping[str, object] | None = None
    video_frames: Mapping[str, int] | None = None
    dropped_frames: Mapping[str, int] | None = None
    duration_s: float = 0.0
    config: str = ""
    notes: tuple[str, ...] = ()
    warning: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportSummary:
    """What an export did.

    Attributes:
        root: The dataset; None when none was named and no bag got so far.
        bags: Every bag found, in the order of its start.
        notes: What concerns the dataset as a whole.
    """

    root: Path | None
    bags: tuple[BagOutcome, ...]
    notes: tuple[str, ...]

    def count(self, status: Status) -> int:
        """How many bags ended so."""
        return sum(b.status == status for b in self.bags)

    @property
    def exit_code(self) -> int:
        """1 when a bag failed, or when the dataset has none of them; else 0."""
        in_it = self.count("exported") + self.count("replaced") + self.count("held")
        return 1 if self.count("failed") or not in_it else 0


def exported(
    path: Path,
    said: str,
    parts: Sequence[Episode],
    saved: Sequence[SavedEpisode],
    warning: str,
    notes: tuple[str, ...],
) -> BagOutcome:
    """What became of a bag whose ``parts`` were ``saved``."""
    return BagOutcome(
        bag=path,
        status="replaced" if any(s.replaced for s in saved) else "exported",
        episodes=tuple(s.episode_index for s in saved),
        rows=sum(s.rows for s in saved),
        counts=parts[0].counts,
        video_frames=_summed(s.video_frames for s in saved),
        dropped_frames=_summed(s.dropped_frames for s in saved),
        duration_s=sum(s.duration_s for s in saved),
        config=said,
        notes=notes,
        warning=warning,
    )


def _summed(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for by_name in counts:
        for name, count in by_name.items():
            total[name] = total.get(name, 0) + count
    return total

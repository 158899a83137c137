"""Which trainers load a dataset, told from its metadata, its file names and a few episodes."""

from dataclasses import dataclass, replace
from pathlib import Path

from piper_collect.core.consumers import TimingTally
from piper_collect.core.findings import Findings
from piper_collect.core.overview import spread
from piper_collect.core.survey import ConsumerOutlook
from piper_collect.dataset.layout import EPISODES_STATS, META
from piper_collect.dataset.probe import probe_video
from piper_collect.errors import DatasetError
from piper_collect.pipelines.validation.consumers import openers, predict
from piper_collect.pipelines.validation.demands import consumer_notes, metadata_demands
from piper_collect.pipelines.validation.metadata import Metadata, read_metadata
from piper_collect.pipelines.validation.row_demands import RowDemands
from piper_collect.pipelines.validation.rows import read_rows
from piper_collect.pipelines.validation.totals import Missing, check_totals

_MOST_EPISODES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainerLook:
    """What was foretold, and from how much.

    Attributes:
        outlooks: One a trainer.
        episodes: Numbers of the episodes whose rows and videos were looked at.
        problems: Errors in the metadata and missing files, one sentence each.
    """

    outlooks: tuple[ConsumerOutlook, ...]
    episodes: tuple[int, ...]
    problems: tuple[str, ...]


def look_for_trainers(root: Path) -> TrainerLook:
    """Look at ``meta/``, at which files are there, and at a few episodes spread over the dataset.

    ``validate`` looks at all of them.

    Raises:
        DatasetError: It cannot be opened at all.
    """
    findings = Findings()
    meta = read_metadata(root, findings)
    missing = check_totals(meta, findings)
    if meta.episodes_stats is not None and meta.episodes_stats.lines != meta.episodes.lines:
        text = f"has {meta.episodes_stats.lines} lines for {meta.episodes.lines} episodes"
        findings.add("error", "episode-stats", f"{META}/{EPISODES_STATS}", text)
    problems = tuple(f"{f.where}: {f.text}" for f in findings.listed if f.level == "error")
    tally, rows = TimingTally(fps=meta.fps), RowDemands()
    looked = spread(meta.episodes.offsets, _MOST_EPISODES)
    for index in looked:
        _look(meta, missing, index, tally, rows)
    if meta.episodes_stats is not None:
        meta = replace(meta, episodes_stats=meta.episodes_stats.only(looked))
    strays = sum(p.is_file() and p.suffix != ".parquet" for p in (meta.root / "data").rglob("*"))
    demands = metadata_demands(meta, missing, rows, strays)
    is_empty = not meta.episodes.offsets
    outlooks = () if is_empty else predict(meta, tally, demands, consumer_notes(meta), Findings())
    return TrainerLook(outlooks=outlooks, episodes=tuple(looked), problems=problems)


def _look(meta: Metadata, missing: Missing, index: int, tally: TimingTally, demands: RowDemands) -> None:
    rows = None
    if (index, "") not in missing:
        rows = read_rows(meta, index, meta.episodes.get(index), 0, Findings())
    demands.add(meta, rows)
    if rows is None or rows.row_s is None:
        return
    tally.add_rows(index, rows.row_s)
    for key in meta.video_keys:
        if (index, key) in missing:
            continue
        try:
            probe = probe_video(meta.video_path(index, key))
        except DatasetError:
            demands.unreadable += 1
            continue
        tally.add_video(index, key, rows.row_s, probe.timing, openers(meta, key))

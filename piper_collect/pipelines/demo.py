"""The whole way once, with simulated devices: record, export, validate, contact sheet."""

import random
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from piper_collect.bag.find import find_bags
from piper_collect.config.load import load_session, override_session
from piper_collect.config.profile import load_profile
from piper_collect.config.schema import SessionConfig
from piper_collect.dataset.reader import DatasetReader, open_dataset
from piper_collect.errors import SessionError
from piper_collect.pipelines.bag_episodes import ExportOptions
from piper_collect.pipelines.export import export
from piper_collect.pipelines.export_outcome import ExportSummary
from piper_collect.pipelines.record import run_session
from piper_collect.pipelines.strip_check import check_strips
from piper_collect.pipelines.validate import validate_dataset
from piper_collect.report.contact_sheet import SheetRow, write_contact_sheet

CONTACT_SHEET = "contact_sheet.png"


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoEpisode:
    """One episode of the dataset, as the demo tells of it."""

    index: int
    rows: int
    seconds: float
    frames: str
    task: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOutcome:
    """What the demo made, and what is wrong with it.

    Attributes:
        bags: Folder with the session's bags.
        dataset: Dataset root.
        contact_sheet: Picture of the first frames.
        episodes: What is in the dataset.
        checked: What was looked at, in words.
        faults: What is not as it should be; empty when all is well.
    """

    bags: Path
    dataset: Path
    contact_sheet: Path
    episodes: tuple[DemoEpisode, ...]
    checked: str
    faults: tuple[str, ...]


def run_demo(folder: Path, *, say: Callable[[str], None]) -> DemoOutcome:
    """Run the demo into ``folder``, whose ``bags`` and ``dataset`` may be there from an earlier run.

    Args:
        folder: Where to write.
        say: Told in a line what comes next.

    Raises:
        PiperCollectError: when a step cannot be done at all.
    """
    bags, dataset_root = folder / "bags", folder / "dataset"
    config = override_session(load_session("default"), root=str(bags.absolute()))
    config = replace(config, desk=replace(config.desk, serve=False))
    before = _bags_in(bags)
    say(f"recording {len(config.sim.outcomes)} episodes of a simulated session ...")
    _record(config)
    added = _bags_in(bags) - before
    say(f"exporting {len(added)} bags ...")
    summary = export([bags], dataset_root, ExportOptions(profile=load_profile("piper")))
    say("validating the dataset ...")
    faults = _export_faults(config, summary, added)
    report = validate_dataset(dataset_root).report
    faults += [str(finding) for finding in report.findings if finding.level == "error"]
    strips = check_strips(dataset_root)
    if not strips.ok:
        faults.append(f"capture times: {strips}")
    worst = "none" if strips.worst_ms is None else f"{strips.worst_ms:.2f} ms"
    dataset = open_dataset(dataset_root)
    sheet = folder / CONTACT_SHEET
    write_contact_sheet(sheet, [_sheet_row(dataset, index) for index in dataset.episodes])
    return DemoOutcome(
        bags=bags,
        dataset=dataset_root,
        contact_sheet=sheet,
        episodes=tuple(_episode(dataset, index) for index in dataset.episodes),
        checked=f"{strips.frames} frames read: PTS and the time in the picture differ by {worst} at most",
        faults=tuple(faults),
    )


def _bags_in(folder: Path) -> set[Path]:
    return set(find_bags([folder])) if folder.is_dir() and any(folder.iterdir()) else set()


def _record(config: SessionConfig) -> None:
    """Record on a DDS domain of its own, on this computer only: no real arm may hear the demo."""
    environment = {
        "ROS_DOMAIN_ID": str(_free_domain()),
        "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST",
    }
    end = run_session(config, extra_environment=environment)
    if end.interrupted:
        raise KeyboardInterrupt
    if not end.ok:
        raise SessionError(
            "the session did not end well",
            got=f"failed: {dict(end.failed)}, killed: {list(end.killed)}",
            hint="the lines above say why",
        )


def _free_domain() -> int:
    """A DDS domain on which nobody on this computer is: its first unicast port is free.

    DDS-RTPS 2.5, 9.6.1: port 7400 + 250 * domain + 10 is the first participant's.
    """
    for domain in random.sample(range(1, 102), 101):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.bind(("", 7410 + 250 * domain))
            except OSError:
                continue
            return domain
    raise SessionError("every DDS domain from 1 to 101 is in use on this computer")


def _export_faults(config: SessionConfig, summary: ExportSummary, added: set[Path]) -> list[str]:
    """What is wrong with the bags of this run; those of earlier runs were judged then."""
    wanted = sum(outcome == "save" for outcome in config.sim.outcomes)
    new = [bag for bag in summary.bags if bag.bag in added]
    faults = [
        f"{bag.bag.parent.name}/{bag.bag.name}: {bag.status}: {bag.reason}" for bag in new if bag.reason
    ]
    if any("messages lost" in bag.reason for bag in new):
        faults.append(
            "this computer was too busy to record everything, and an episode that is not whole is not "
            "exported: end what else runs on it, and start the demo again"
        )
    if len(added) != wanted:
        faults.append(f"the operator saved {wanted} episodes, {len(added)} bags were written")
    if summary.count("exported") != wanted:
        faults.append(f"{wanted} episodes should be new in the dataset, {summary.count('exported')} are")
    return faults


def _episode(dataset: DatasetReader, index: int) -> DemoEpisode:
    line = dataset.episodes[index]
    frames = [f"{k.rpartition('.')[2]} {n}" for k, n in dict(line.get("video_frame_lengths", {})).items()]
    stamps = dataset.rows(index)["timestamp"].to_pylist()
    return DemoEpisode(
        index=index,
        rows=int(line["length"]),
        seconds=float(stamps[-1]),
        frames=", ".join(frames),
        task=str(line["tasks"][0]),
    )


def _sheet_row(dataset: DatasetReader, index: int) -> SheetRow:
    pictures = [next(dataset.frames(index, key))[1] for key in dataset.video_keys]
    episode = _episode(dataset, index)
    return SheetRow(
        title=f"episode {index}: {episode.task} ({episode.rows} rows, {episode.seconds:.1f} s)",
        pictures=pictures,
        captions=[key.rpartition(".")[2] for key in dataset.video_keys],
    )

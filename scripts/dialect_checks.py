"""One recording in every dialect, read back and held against the aligned episode that it was made of."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray

from piper_collect.bag.reader import open_bag
from piper_collect.bag.sidecar import choose_config, read_record
from piper_collect.config.fitted import fitted_profile
from piper_collect.config.profile import load_profile, with_dialect
from piper_collect.config.schema import SessionConfig
from piper_collect.core.types import Episode
from piper_collect.dataset.columns import row_columns, row_timestamps
from piper_collect.dataset.dialect import DatasetKind, EpisodeReader
from piper_collect.dataset.layout import video_key
from piper_collect.dataset.parquet import TIMESTAMP, column_values
from piper_collect.dataset.readers import open_any
from piper_collect.imaging.frames import to_rgb, video_frame_to_rgb
from piper_collect.pipelines.aligned import picture_sizes
from piper_collect.pipelines.bag_episodes import ExportOptions, bag_episodes
from piper_collect.pipelines.export import export

MADE: Sequence[tuple[str, str]] = (
    ("piper", "lerobot-v2.0"),
    ("train", "lerobot-v2.0"),
    ("train", "lerobot-v2.1"),
    ("train", "lerobot-v3.0"),
    ("train", "hdf5-cases"),
    ("train_depth", "lerobot-v3.0"),
    ("tacrich", "lerobot-v3.0"),
    ("tacrich_umi", "lerobot-v3.0"),
    ("trex", "lerobot-v2.1"),
)
"""Profile and dialect of each dataset that the recording becomes."""

_PTS_TOLERANCE_S = 1e-6
_NS_PER_S = 1_000_000_000

Times = NDArray[np.float64]
Pictures = Sequence[NDArray[np.uint8]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A dataset that was made of the recording.

    Attributes:
        profile: Name of its profile.
        dialect: Its format.
        root: Where it is.
        episode: The aligned episode that it was made of.
        kind: Profile, rate, robot and cameras.
    """

    profile: str
    dialect: str
    root: Path
    episode: Episode
    kind: DatasetKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """What comparing a dataset with the episode that it was made of gave.

    Attributes:
        rows: Rows read back.
        columns: Columns of numbers.
        numbers: Numbers that were compared, all of them exactly.
        frames: Frames that were compared, pixel by pixel.
        shown: Pictures of the recording that are among them.
        recorded: Pictures that the recording has of these cameras.
        distance: Greatest mean distance of a frame from the picture that was recorded at its time, in levels
            of 255.
        faults: What is not equal.
    """

    rows: int
    columns: int
    numbers: int
    frames: int
    shown: int
    recorded: int
    distance: float
    faults: tuple[str, ...]


def make_all(bag: Path, folder: Path, made: Sequence[tuple[str, str]] = MADE) -> list[Made]:
    """Export the recording once for each of ``made``.

    Raises:
        SystemExit: An export failed.
    """
    found = []
    for name, dialect in made:
        options = ExportOptions(profile=with_dialect(load_profile(name), dialect))
        root = folder / f"{name}-{dialect}"
        (outcome,) = export([bag], root, options).bags
        if outcome.status != "exported":
            raise SystemExit(f"error: {name} as {dialect}: {outcome.reason or outcome.status}")
        with open_bag(bag) as reader:
            record = read_record(reader)
            config, _ = choose_config(reader, record)
            options = replace(options, profile=fitted_profile(options.profile, config.sources))
            (episode,) = bag_episodes(reader, config, record, options).parts
            sizes, depths = picture_sizes(reader, config, depth=options.profile.holds_depth)
            kind = _kind(options, config, sizes, depths)
        found.append(Made(profile=name, dialect=dialect, root=root, episode=episode, kind=kind))
    return found


def _kind(
    options: ExportOptions,
    config: SessionConfig,
    sizes: Mapping[str, tuple[int, int]],
    depths: Mapping[str, tuple[int, int]],
) -> DatasetKind:
    return DatasetKind(
        profile=options.profile,
        fps=config.session.fps,
        robot_type=config.arm.model,
        cameras=sizes,
        depths=depths,
    )


def against_episode(made: Made, scratch: Path) -> Agreement:
    """Read the dataset back and compare numbers and videos with its aligned episode; no images in rows.

    Args:
        made: The dataset.
        scratch: An empty folder, for videos that are encoded from the episode once more.
    """
    reader, faults = open_any(made.root), list[str]()
    columns, numbers = _compare_rows(made, reader, faults)
    videos = {camera: scratch / f"{camera}.mp4" for camera in made.kind.cameras}
    made.kind.stager().encode(made.episode, videos, None)
    frames, distance = 0, 0.0
    for camera, video in videos.items():
        times, pictures = _frames(reader, video_key(camera), faults)
        frames += len(pictures)
        expected_s = _expected_times(made, camera)
        faults += [
            f"{camera}: {fault}" for fault in _frame_faults(times, pictures, expected_s, _decoded(video))
        ]
        far, wrong = _against_recorded(made, camera, expected_s, pictures)
        distance = max(distance, far)
        faults += [f"{camera}: frame {k} is nearer to another recorded picture" for k in wrong]
    return Agreement(
        rows=made.episode.length,
        columns=columns,
        numbers=numbers,
        frames=frames,
        shown=sum(len(np.unique(_shown_stamps(made, camera))) for camera in videos),
        recorded=sum(len(made.episode.cameras[camera].stream.stamp_ns) for camera in videos),
        distance=distance,
        faults=tuple(faults),
    )


def _compare_rows(made: Made, reader: EpisodeReader, faults: list[str]) -> tuple[int, int]:
    """Columns and numbers that were compared."""
    episode, profile, table = made.episode, made.kind.profile, reader.rows(0)
    images = [key for key, f in reader.info["features"].items() if f["dtype"] == "image"]
    table = table.drop_columns(images)
    tasks = [reader.tasks[i] for i in sorted(reader.tasks)]
    order = np.arange(episode.length)[:, None]
    expected: dict[str, NDArray[Any]] = {
        **row_columns(episode, profile, made.kind.cameras, tasks),
        TIMESTAMP: row_timestamps(episode, profile, made.kind.fps)[:, None],
        "frame_index": order,
        "index": order,
        "episode_index": np.zeros_like(order),
        "task_index": np.full_like(order, tasks.index(episode.task)),
    }
    if sorted(expected) != sorted(table.column_names):
        faults.append(f"the columns are {', '.join(table.column_names)}")
    numbers = 0
    for key in [k for k in expected if k in table.column_names]:
        values = column_values(table, key)
        wanted = expected[key].astype(reader.info["features"][key]["dtype"])
        numbers += values.size
        if values.dtype != wanted.dtype or not np.array_equal(values, wanted):
            faults.append(f"{key}: not the numbers of the episode")
    return len(expected), numbers


def _expected_times(made: Made, camera: str) -> Times:
    """When each frame must be shown, in seconds since T0."""
    episode, spec = made.episode, made.kind.profile.video
    if spec.timing == "row":
        return np.arange(episode.length) / made.kind.fps
    return _ticks(_shown_stamps(made, camera), made) / spec.time_base_hz


def _ticks(stamps: NDArray[np.int64], made: Made) -> NDArray[np.int64]:
    """Capture times in the video's time base, floored."""
    return (stamps - made.episode.t0_ns) * made.kind.profile.video.time_base_hz // _NS_PER_S


def _shown_stamps(made: Made, camera: str) -> NDArray[np.int64]:
    """When the picture of each frame was taken."""
    if made.kind.profile.video.timing == "row":
        return made.episode.samples[camera].stamp_ns
    source = made.episode.cameras[camera]
    stamps = np.unique(source.stream.stamp_ns)
    stamps = stamps[(stamps >= source.first_ns) & (stamps <= source.last_ns)]
    _, first = np.unique(_ticks(stamps, made), return_index=True)
    return stamps[first]


def _frames(reader: EpisodeReader, key: str, faults: list[str]) -> tuple[Times, Pictures]:
    times, pictures = zip(*reader.frames(0, key), strict=True)
    if not np.allclose(times, reader.frame_times(0, key), rtol=0, atol=_PTS_TOLERANCE_S):
        faults.append(f"{key}: the packets have other times than the frames")
    return np.array(times), pictures


def _decoded(path: Path) -> Pictures:
    with av.open(str(path)) as container:
        return [video_frame_to_rgb(picture) for picture in container.decode(video=0)]


def _frame_faults(times: Times, pictures: Pictures, expected_s: Times, expected: Pictures) -> Iterator[str]:
    if len(times) != len(expected_s) or not np.allclose(times, expected_s, rtol=0, atol=_PTS_TOLERANCE_S):
        yield "the frames are at other times"
    yield from pixel_faults(pictures, expected)


def pixel_faults(pictures: Pictures, expected: Pictures) -> Iterator[str]:
    """In what two sequences of pictures are not the same, pixel by pixel."""
    if len(pictures) != len(expected):
        yield f"{len(pictures)} frames, not {len(expected)}"
        return
    other = [k for k, (a, b) in enumerate(zip(pictures, expected, strict=True)) if not np.array_equal(a, b)]
    if other:
        yield f"{len(other)} frames have other pixels, frame {other[0]} first"


def _against_recorded(made: Made, camera: str, times: Times, pictures: Pictures) -> tuple[float, list[int]]:
    """Greatest distance of a frame from its recorded picture, and which frames are nearer to another one."""
    shown = _shown_stamps(made, camera)
    if len(shown) != len(pictures):
        return 0.0, list(range(len(pictures)))
    stream = made.episode.cameras[camera].stream
    first, last = int(stream.stamp_ns.min()), int(stream.stamp_ns.max())
    recorded = {frame.stamp_ns: to_rgb(frame).astype(np.int16) for frame in stream.frames(first, last)}
    greatest, wrong = 0.0, []
    for k, (stamp, picture) in enumerate(zip(shown.tolist(), pictures, strict=True)):
        height, width, _ = picture.shape
        away = {s: float(np.abs(r[:height, :width] - picture).mean()) for s, r in recorded.items()}
        greatest = max(greatest, away[stamp])
        if min(away.values()) < away[stamp]:
            wrong.append(k)
    return greatest, wrong

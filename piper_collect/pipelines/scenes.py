"""From an episode of a dataset, or from a bag, to what a viewer shows, all on the time of capture."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import simplejpeg

from piper_collect.bag.episode import read_episode
from piper_collect.bag.reader import open_bag
from piper_collect.bag.sidecar import choose_config, read_record
from piper_collect.config.display import viewer_robot
from piper_collect.config.schema import SessionConfig
from piper_collect.core.kinematics import JOINT_NAMES, PiperKinematics
from piper_collect.core.types import CameraStream, FloatArray, Stream
from piper_collect.dataset.clip_files import clip_bytes
from piper_collect.dataset.dialect import EpisodeReader
from piper_collect.dataset.layout import VIDEO_KEY_PREFIX
from piper_collect.dataset.readers import open_any
from piper_collect.errors import DatasetError
from piper_collect.imaging.frames import to_rgb
from piper_collect.pipelines.replay_columns import RecordedEpisode, RowTimes, recorded_episode
from piper_collect.report.scene import Curve, EpisodeScene, ShownPicture, ShownVideo

MEASURED, TARGET = "measured", "target"
_POSE = ("x", "y", "z", "qw", "qx", "qy", "qz")
_WIDTH = ("width",)
_JPEG_QUALITY = 92


def dataset_scene(root: Path, index: int) -> tuple[EpisodeScene, str]:
    """An episode of a dataset, and the URDF of its arm.

    Commanded poses and widths come from the action, measured ones from the observation columns, each at the
    time that its sample was stamped with where the dataset has that, else at the row's; frames at their
    capture time.

    Raises:
        DatasetError: There is no such episode, or its files cannot be read.
    """
    dataset = open_any(root)
    episodes = dataset.lines
    if index not in episodes:
        known = f"{min(episodes)} to {max(episodes)}" if episodes else "none"
        raise DatasetError("no such episode", where=root, expected=known, got=index)
    config = _config_of(dataset, index)
    known_ns = dataset.sources.get(index, {}).get("t0_ns")
    t0_ns = int(known_ns) if isinstance(known_ns, int) else 0
    at = partial(_stamps, t0_ns)
    notes: tuple[str, ...] = ()
    motion = None
    try:
        motion = recorded_episode(dataset, index, PiperKinematics(config.arm.dh_offset))
    except DatasetError as err:
        notes = (f"no motion is shown: {err}",)
    tasks = episodes[index].tasks or ("",)
    scene = EpisodeScene(
        name=f"{root.name}, episode {index}",
        task=str(tasks[0]),
        clock="capture_time" if t0_ns else "episode_time",
        joints=_joints(motion, at),
        widths=_widths(motion, at),
        poses=_poses(motion, at),
        videos={
            key.removeprefix(VIDEO_KEY_PREFIX): _video(dataset, index, key, at) for key in dataset.video_keys
        },
        notes=notes,
    )
    return scene, viewer_robot(config)


def bag_scene(path: Path, config: SessionConfig | None = None) -> tuple[EpisodeScene, str]:
    """A recording, at the full rate of its topics, and the URDF of its arm.

    Args:
        path: The bag.
        config: How to read it; by default as it was recorded.

    Raises:
        BagError: It cannot be read.
        ConfigError: Its configuration is wrong.
    """
    with open_bag(path) as bag:
        record = read_record(bag)
        chosen = config if config is not None else choose_config(bag, record)[0]
        raw = read_episode(bag, chosen, record)
    streams = raw.streams
    names = {MEASURED: ("arm_eef", "gripper"), TARGET: ("target_eef", "target_gripper")}
    scene = EpisodeScene(
        name=record.name,
        task=raw.task,
        clock="capture_time",
        joints=_curve(streams["arm_joint"], JOINT_NAMES) if "arm_joint" in streams else None,
        widths={kind: _curve(streams[w], _WIDTH) for kind, (_, w) in names.items() if w in streams},
        poses={kind: _curve(streams[p], _POSE) for kind, (p, _) in names.items() if p in streams},
        pictures={name: partial(_pictures, camera) for name, camera in raw.cameras.items()},
    )
    return scene, viewer_robot(chosen)


def _config_of(dataset: EpisodeReader, index: int) -> SessionConfig:
    """Enough of a configuration to draw the arm: its DH variant, as the session's record has it."""
    session = dataset.sources.get(index, {}).get("session")
    record = next((r for r in dataset.sessions if r.get("session") == session), {})
    arm = record.get("arm")
    variant = arm.get("dh_offset") if isinstance(arm, dict) else None
    config = SessionConfig()
    if variant not in ("s_v1_6_3", "older"):
        return config
    return replace(config, arm=replace(config.arm, dh_offset=variant))


def _stamps(t0_ns: int, time_s: FloatArray) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return t0_ns + np.round(time_s * 1e9).astype(np.int64)


_At = Callable[[FloatArray], np.ndarray[tuple[int], np.dtype[np.int64]]]


def _tracked(time_s: FloatArray, values: FloatArray, names: tuple[str, ...], at: _At) -> Curve:
    """Each sample once: a row that repeats the sample before it adds nothing."""
    stamps, first = np.unique(at(time_s), return_index=True)
    return Curve(time_ns=stamps, values=values[first], names=names)


def _joints(motion: RecordedEpisode | None, at: _At) -> Curve | None:
    seen = motion.observed if motion is not None else None
    if motion is None or seen is None or seen.joints is None:
        return None
    return _tracked(seen.time_s + motion.start_s, seen.joints, JOINT_NAMES, at)


def _widths(motion: RecordedEpisode | None, at: _At) -> dict[str, Curve]:
    found = {}
    if motion is not None and motion.observed is not None and motion.observed.width_m is not None:
        seen = motion.observed
        found[MEASURED] = _tracked(seen.time_s + motion.start_s, motion.observed.width_m[:, None], _WIDTH, at)
    if motion is not None and motion.targets.width_m is not None:
        width = motion.targets.width_m[:, None]
        found[TARGET] = _tracked(motion.targets.time_s + motion.start_s, width, _WIDTH, at)
    return found


def _poses(motion: RecordedEpisode | None, at: _At) -> dict[str, Curve]:
    if motion is None:
        return {}
    found = {}
    if motion.observed is not None:
        seen = motion.observed
        found[MEASURED] = _tracked(seen.time_s + motion.start_s, seen.pose7, _POSE, at)
    targets = motion.targets
    found[TARGET] = _tracked(targets.time_s + motion.start_s, targets.pose7, _POSE, at)
    return found


def _video(dataset: EpisodeReader, index: int, key: str, at: _At) -> ShownVideo:
    """The frames by their capture time: the PTS, or on a grid the stamp of the sample that each one shows."""
    pts_s = dataset.frame_times(index, key)
    time_s = pts_s
    camera = key.removeprefix(VIDEO_KEY_PREFIX)
    stamped = RowTimes(dataset, index, dataset.rows(index)).stamped(camera)
    if stamped is not None and len(stamped) == len(pts_s):
        time_s = stamped
    stamps, first = np.unique(at(time_s), return_index=True)
    return ShownVideo(
        read=partial(clip_bytes, dataset.clip(index, key)),
        time_ns=stamps,
        pts_ns=np.round(pts_s[first] * 1e9).astype(np.int64),
    )


def _curve(stream: Stream, names: tuple[str, ...]) -> Curve:
    return Curve(time_ns=stream.stamp_ns, values=stream.values, names=names)


def _pictures(camera: CameraStream) -> Iterator[ShownPicture]:
    """JPEG and PNG as they were recorded; others as JPEG."""
    if not len(camera.stamp_ns):
        return
    for frame in camera.frames(int(camera.stamp_ns.min()), int(camera.stamp_ns.max())):
        if frame.encoding in ("jpeg", "png"):
            yield ShownPicture(frame.stamp_ns, bytes(frame.payload), f"image/{frame.encoding}")
        else:
            pixels = np.ascontiguousarray(to_rgb(frame))
            encoded = simplejpeg.encode_jpeg(pixels, quality=_JPEG_QUALITY, colorspace="RGB")
            yield ShownPicture(frame.stamp_ns, encoded, "image/jpeg")

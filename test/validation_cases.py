"""Datasets in which nothing is wrong: an arm that really moves, pictures that really show something."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from dataset_cases import MS, T0, camera, rows_of, shown_frames

from piper_collect.config.profile import Profile, load_profile
from piper_collect.core.kinematics import WORKING_POSE_RAD, PiperKinematics
from piper_collect.core.sampling import tick_offsets
from piper_collect.core.types import CameraFrame, Episode
from piper_collect.dataset.stage import EpisodeIdentity
from piper_collect.dataset.writer import DatasetWriter

FPS = 30.0
ROWS = 45
SIZE = (48, 64)
CAMERAS = ("cam_front", "cam_wrist")
LAG_S = 0.060
SESSION = {
    "input_device": "quest3",
    "arm": {"model": "piper", "firmware": "S-V1.8-5"},
    "control": {
        "backend": "position",
        "impedance": {"kp": [10.0] * 6, "kd": [0.8] * 6, "gravity_ff": True},
    },
    "cameras": {name: {"serial": None} for name in CAMERAS},
    "recording": {"fps": FPS},
    "tool_version": "0.1.0",
}

Shape = Callable[[Episode], Episode]


def joints_at(seconds: np.ndarray, episode: int = 0) -> np.ndarray:
    """A smooth way of the joints about the working pose, rad [T, 6]."""
    phase = 2 * np.pi * seconds[:, None] / 1.5 + episode
    return np.array(WORKING_POSE_RAD) + 0.25 * np.sin(phase + np.arange(6))


def picture_at(stamp_ns: int, number: int, base: int) -> CameraFrame:
    """A pattern that moves on with every frame."""
    rng = np.random.default_rng(base)
    scene = rng.integers(40, 216, (SIZE[0] // 4, SIZE[1] // 4, 3), np.uint8).repeat(4, 0).repeat(4, 1)
    payload = np.roll(scene, 3 * number, axis=1).tobytes()
    return CameraFrame(
        stamp_ns=stamp_ns, encoding="rgb8", height=SIZE[0], width=SIZE[1], step=3 * SIZE[1], payload=payload
    )


def good_episode(profile: Profile, index: int = 0, rows: int = ROWS, task: str = "pick the cube") -> Episode:
    """One episode as ``align`` would make it; capture times jitter, and start anew with every episode."""
    rng = np.random.default_rng(index)
    t0_ns = T0 + index * 60_000 * MS
    offsets = tick_offsets(FPS, rows)
    if profile.row_clock == "action":
        offsets = offsets + np.concatenate(([0], rng.integers(0, 4 * MS, rows - 1)))
    ticks = t0_ns + offsets
    frames_ns = t0_ns - 12 * MS + tick_offsets(FPS, rows + 2) + rng.integers(0, 3 * MS, rows + 2)
    frames = {
        name: [picture_at(int(t), k, seed) for k, t in enumerate(frames_ns)]
        for seed, name in enumerate(CAMERAS)
    }
    seconds = offsets / 1e9
    arm = PiperKinematics("s_v1_6_3")
    q = joints_at(seconds, index)
    width = 0.035 + 0.03 * np.sin(3 * seconds)[:, None]
    columns = {
        "arm_joint": q,
        "arm_eef": arm.forward(q),
        "gripper": width,
        "target_eef": arm.forward(joints_at(seconds + LAG_S, index)),
        "target_gripper": width,
    }
    return Episode(
        name=f"pick/episode_{index:06d}",
        t0_ns=t0_ns,
        tick_ns=ticks,
        columns=columns,
        samples={
            **dict.fromkeys(columns, rows_of(ticks)),
            **{name: shown_frames(ticks, frames[name]) for name in CAMERAS},
        },
        cameras={
            name: replace(camera(name, frames[name]), first_ns=t0_ns, last_ns=int(ticks[-1]))
            for name in CAMERAS
        },
        task=task,
        counts={"slots": rows, "rows": rows, "gaps": 0, "dropped": 0},
        provenance={"outcome": "success"},
    )


def write_dataset(
    root: Path,
    profile_name: str = "piper",
    *,
    episodes: int = 2,
    shape: Shape = lambda e: e,
    rows: int = ROWS,
) -> Path:
    """Write a dataset of good episodes, each as ``shape`` makes it."""
    profile = load_profile(Path(__file__).parents[1] / f"config/profiles/{profile_name}.yaml")
    writer = DatasetWriter.open(
        root, profile, fps=FPS, robot_type="piper", cameras=dict.fromkeys(CAMERAS, SIZE)
    )
    for index in range(episodes):
        writer.add_episode(
            shape(good_episode(profile, index, rows)),
            identity=EpisodeIdentity(
                session="pick", bag=f"episode_{index:06d}", content_hash=f"hash {index}"
            ),
            session_record={"session": "pick", **SESSION},
        )
    return root

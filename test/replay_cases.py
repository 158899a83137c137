"""Recorded motions for the tests of replays: what an arm can follow, its plan, and datasets of it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from dataset_cases import T0, episode, open_writer, rows_of
from plain_dataset import feature, write_plain_dataset

from piper_collect.config.profile import load_profile
from piper_collect.core.kinematics import WORKING_POSE_RAD, PiperKinematics
from piper_collect.core.motion import MotionConfig
from piper_collect.core.replay import ReplayPlan, plan_replay
from piper_collect.core.replay_check import check_reach
from piper_collect.core.replay_settings import ReplaySettings
from piper_collect.core.tracks import MotionTrack, motion_track
from piper_collect.dataset.stage import EpisodeIdentity

KINEMATICS = PiperKinematics("s_v1_6_3")
FPS = 30.0


def joints_over(seconds: float, fps: float = FPS) -> tuple[np.ndarray, np.ndarray]:
    """Times [T] and joints [T, 6] of a smooth motion about the working pose."""
    time_s = np.arange(0.0, seconds, 1.0 / fps)
    waves = np.sin(time_s[:, None] * np.array((2.0, 1.4, 1.0, 1.8, 2.2, 2.6)))
    return time_s, np.array(WORKING_POSE_RAD) + 0.2 * waves


def motion_of(time_s: np.ndarray, joints: np.ndarray, width_m: np.ndarray | None = None) -> MotionTrack:
    """The flange's motion under those joints, with a gripper that closes and opens."""
    width = 0.045 + 0.02 * np.cos(2.0 * time_s) if width_m is None else width_m
    return motion_track(time_s, KINEMATICS.forward(joints), width)


def still(width_m: float = 0.05) -> MotionTrack:
    """Two targets at the working pose."""
    return motion_of(np.array([0.0, 0.1]), np.tile(WORKING_POSE_RAD, (2, 1)), np.full(2, width_m))


def plan_of(
    targets: MotionTrack, *, speed: float = 1.0, config: MotionConfig | None = None, **settings: float
) -> ReplayPlan:
    """A plan under the default limits."""
    limits = MotionConfig() if config is None else config
    reach = check_reach(limits, targets, range(len(targets.time_s)), WORKING_POSE_RAD)
    return plan_replay(limits, targets, speed, ReplaySettings(**settings), reach.first_q)


def true_joints(time_s: np.ndarray) -> np.ndarray:
    """Joints [T, 6] of one motion that all the datasets below show, at any times."""
    waves = np.sin(np.maximum(time_s, 0.0)[:, None] * np.array((2.0, 1.4, 1.0, 1.8, 2.2, 2.6)))
    return np.array(WORKING_POSE_RAD) + 0.2 * waves


def true_width(time_s: np.ndarray) -> np.ndarray:
    """Gripper widths [T] of that motion."""
    return 0.045 + 0.02 * np.cos(2.0 * np.maximum(time_s, 0.0))


def jittered_s(rows: int = 60) -> np.ndarray:
    """Row times that are on no grid, from 0."""
    grid = np.arange(rows) / FPS
    return grid + np.where(grid > 0, 0.006 * np.sin(50 * grid), 0.0)


LATE_NS = {"arm_joint": 2_000_000, "arm_eef": 4_000_000, "gripper": 2_000_000}
"""How much older than its row each observed sample is, in the datasets that keep the samples' stamps."""


def write_ours(root: Path, profile: str, *, rows: int = 60, **record: object) -> None:
    """One episode of the motion, written by our own writer under a profile; observations are 3 mm high.

    Under ``train`` rows are on the grid and show the target before them, as holding does.
    """
    row_s = np.arange(rows) / FPS if profile == "train" else jittered_s(rows)
    ticks = T0 + np.round(row_s * 1e9).astype(np.int64)
    age_s = 0.005 * np.abs(np.sin(50 * row_s)) if profile == "train" else np.zeros(rows)
    target_ns = ticks - np.round(age_s * 1e9).astype(np.int64)
    stamps = {name: np.maximum(ticks - late, T0 - late) for name, late in LATE_NS.items()}
    stamps |= {"target_eef": target_ns, "target_gripper": target_ns}
    at = {name: (stamp - T0) / 1e9 for name, stamp in stamps.items()}
    columns = {
        "arm_joint": true_joints(at["arm_joint"]),
        "arm_eef": KINEMATICS.forward(true_joints(at["arm_eef"])) + np.array([0, 0, 0.003, 0, 0, 0, 0]),
        "gripper": true_width(at["gripper"])[:, None],
        "target_eef": KINEMATICS.forward(true_joints(at["target_eef"])),
        "target_gripper": true_width(at["target_gripper"])[:, None],
    }
    recorded = replace(
        episode(ticks_ms=(0,), frames_ms=(), cameras=()),
        tick_ns=ticks,
        columns=columns,
        samples={name: rows_of(stamp) for name, stamp in stamps.items()},
    )
    open_writer(root, profile=load_profile(profile), cameras={}).add_episode(
        recorded,
        identity=EpisodeIdentity(session="pick", bag="episode_000000", content_hash="hash"),
        session_record={"session": "pick", **record},
    )


def write_others(
    root: Path, columns: dict[str, np.ndarray], modality: dict[str, object] | None, *, rows: int = 60
) -> None:
    """One episode as another tool writes it: [T, D] cells by column, times in ``timestamp``."""
    cells: dict[str, object] = dict(columns)
    cells |= {"timestamp": jittered_s(rows), "frame_index": pa.array(np.arange(rows))}
    features = {key: feature(values.shape[1]) for key, values in columns.items()}
    write_plain_dataset(root, [cells], features, modality=modality)

"""Before an episode of a dataset is replayed: everything that can be known before anything moves."""

import math
from dataclasses import asdict, dataclass
from pathlib import Path

from piper_collect.config.motion import motion_config
from piper_collect.config.schema import SessionConfig
from piper_collect.core.arm_sim import SimArm, SimArmState
from piper_collect.core.kinematics import GRIPPER_WIDTH_M, WORKING_POSE_RAD
from piper_collect.core.mit import control_record
from piper_collect.core.motion import MotionConfig
from piper_collect.core.pose_checks import compare_kinematics
from piper_collect.core.provenance import BINDING_KEYS, BindingComparison, binding_changes
from piper_collect.core.replay import ReplayPlan, plan_replay
from piper_collect.core.replay_check import Reach, check_reach
from piper_collect.core.replay_log import ReplayLog, simulate_replay
from piper_collect.dataset.dialect import EpisodeReader
from piper_collect.dataset.readers import open_any
from piper_collect.errors import ConfigError, DatasetError, SessionError
from piper_collect.pipelines.replay_columns import RecordedEpisode, recorded_episode

REPLAY_KEYS = (*(key for key in BINDING_KEYS if key != "recording.fps"), "arm.dh_offset", "arm.model")
"""What the same target moves differently under; the rate of the rows is no matter, they have their times."""

_SLOWEST, _FASTEST = 0.05, 10.0
_OFF_MM = 5.0
"""Observed poses and joints that differ by more than this are not those of one arm and one flange."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Replay:
    """An episode that can be replayed.

    Attributes:
        root: The dataset.
        config: The configuration it is replayed under.
        episode: What was recorded.
        plan: What will be commanded.
        reach: How the arm reaches the targets.
        binding: What is otherwise than when it was recorded.
        rehearsal: The replay with a simulated arm, in no time.
        notes: What is to be said before.
    """

    root: Path
    config: SessionConfig
    episode: RecordedEpisode
    plan: ReplayPlan
    reach: Reach
    binding: BindingComparison
    rehearsal: ReplayLog
    notes: tuple[str, ...]


def prepare_replay(
    root: Path, index: int, config: SessionConfig, *, speed: float, strict_binding: bool
) -> Replay:
    """Read an episode and find out whether it can be replayed; nothing moves, and nothing is written.

    Args:
        root: The dataset.
        index: Number of the episode.
        config: Arm, limits and approach.
        speed: Seconds of the episode that pass in a second.
        strict_binding: Refuse where the episode was recorded under other control.

    Raises:
        DatasetError: The episode cannot be read, or was recorded under other control.
        SessionError: A target is outside the workspace box or cannot be reached.
        ConfigError: ``speed`` is out of its range.
    """
    motion = motion_config(config)
    reader = open_any(root)
    episode = recorded_episode(reader, index, motion.kinematics)
    notes = [*episode.notes, *_other_kinematics(episode, motion)]
    reach = _reach(episode, motion, root)
    _check_speed(speed, reach)
    if reach.clamped_widths:
        notes.append(
            f"{reach.clamped_widths} gripper widths are out of range, by {reach.clamped_width_m * 1e3:.1f} mm"
            " at most: they are clamped"
        )
    binding = _binding(reader, index, config)
    if binding.changed and strict_binding:
        changed = "; ".join(f"{b.key} {b.old} -> {b.new}" for b in binding.changed)
        raise DatasetError(
            f"episode {index} was recorded under other control: {changed}",
            where=root,
            hint="replay it with the --config that it was recorded with, or leave out --strict-binding",
        )
    plan = plan_replay(motion, episode.targets, speed, config.replay, reach.first_q)
    return Replay(
        root=root,
        config=config,
        episode=episode,
        plan=plan,
        reach=reach,
        binding=binding,
        rehearsal=_rehearsed(plan, config, f"{root}, episode {index}"),
        notes=tuple(notes),
    )


def _reach(episode: RecordedEpisode, motion: MotionConfig, root: Path) -> Reach:
    """How the arm reaches every target, in the posture that was recorded where that is known."""
    known = None if episode.observed is None else episode.observed.joints
    near = WORKING_POSE_RAD if known is None else known[episode.rows[0]].tolist()
    try:
        return check_reach(motion, episode.targets, episode.rows.tolist(), near)
    except SessionError as err:
        where = f"{root}, episode {episode.index}, {err.where}"
        raise SessionError(err.what, where=where, expected=err.expected, got=err.got, hint=err.hint) from err


def greatest_speed(reach: Reach) -> float:
    """The fastest that an episode may be replayed: as it was recorded, or until the first limit acts."""
    within_limits = min(reach.greatest_speed, _FASTEST)
    return max(1.0, math.floor(within_limits * 100 + 1e-9) / 100)


def _check_speed(speed: float, reach: Reach) -> None:
    most = greatest_speed(reach)
    if not _SLOWEST <= speed <= most:
        raise ConfigError(
            "the episode cannot be replayed at this speed",
            where="--speed",
            expected=f"{_SLOWEST:g} to {most:g}"
            + (f" ({reach.limit} allows no more)" if 1.0 < most < _FASTEST else ""),
            got=speed,
        )


def _rehearsed(plan: ReplayPlan, config: SessionConfig, where: str) -> ReplayLog:
    """The replay with a simulated arm; a real one is not known yet: it begins at the first pose."""
    q = WORKING_POSE_RAD if config.devices.arm == "sim" else plan.motion.home_q
    start = SimArmState(q=q, width_m=GRIPPER_WIDTH_M[1])
    log = simulate_replay(plan, SimArm(tau_s=config.sim.lag_s), start)
    if log.phase != "done":
        raise SessionError(
            f"the replay would stop: {log.reason}",
            where=where,
            hint="a lower --speed, or wider limits in section teleop of --config",
        )
    return log


def _binding(reader: EpisodeReader, index: int, config: SessionConfig) -> BindingComparison:
    """The episode's session against the configuration; what either does not know is not compared."""
    name = reader.sources.get(index, {}).get("session")
    recorded = next((s for s in reader.sessions if s.get("session") == name), None)
    if recorded is None:
        return BindingComparison()
    return binding_changes(recorded, _record_of(config), REPLAY_KEYS)


def _record_of(config: SessionConfig) -> dict[str, object]:
    """What a session under ``config`` would say of its arm and controller."""
    firmware = config.sim.firmware if config.devices.arm == "sim" else config.arm.firmware
    control = control_record(
        asdict(config.control), over_can=config.devices.arm == "can", firmware=config.arm.firmware
    )
    impedance = {name: _known(value) for name, value in control["impedance"].items()}
    return {
        "arm": {
            "model": config.arm.model or None,
            "firmware": firmware or None,
            "dh_offset": config.arm.dh_offset,
        },
        "control": {**control, "impedance": impedance},
    }


def _known(value: object) -> object:
    """A setting as a record has it: lists, and None for an empty one."""
    return (list(value) or None) if isinstance(value, tuple) else value


def _other_kinematics(episode: RecordedEpisode, motion: MotionConfig) -> list[str]:
    """Whether the observed poses are those of the observed joints, under this DH variant and in this order.

    Raises:
        DatasetError: The quaternions are xyzw.
    """
    observed = episode.observed
    if observed is None or observed.joints is None:
        return []
    survey = compare_kinematics(observed.joints, observed.pose7)
    if survey.order == "xyzw" and survey.order_median_deg < 1.0 < survey.median_deg:
        raise DatasetError(
            "the quaternions are in the order xyzw",
            where=episode.sources["observations"],
            expected="wxyz, as modality.json says",
        )
    if survey.median_mm > _OFF_MM:
        return [
            f"observed poses lie {survey.median_mm:.0f} mm from the flange of the observed joints: they"
            " are in another frame than base_link, or of another point than the flange"
        ]
    if survey.variant != motion.dh_offset and survey.other_median_mm > _OFF_MM:
        return [
            f"the episode was recorded with arm.dh_offset {survey.variant}, the configuration has"
            f" {motion.dh_offset}: joints for the same pose differ"
        ]
    return []

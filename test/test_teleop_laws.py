"""From the headset's stream to the joints: whatever comes, no limit and no clamp is broken."""

import math
from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from piper_collect.core import se3
from piper_collect.core.clutch import ClutchConfig, ClutchState, clutch_step
from piper_collect.core.kinematics import JOINT_LIMITS_RAD, JOINT_SPEED_RAD_S, WORKING_POSE_RAD
from piper_collect.core.motion import MotionConfig, MotionResult, MotionState, motion_step, start_motion
from piper_collect.core.motion_limits import flange_step
from piper_collect.core.quest import QuestController, QuestSample, XrPose

CLUTCH = ClutchConfig(stale_s=0.1, scale=2.0, yaw_rad=0.7)
BOX_M = ((0.24, -0.02, 0.32), (0.28, 0.02, 0.36))
MOTION = MotionConfig(
    workspace_min_m=BOX_M[0],
    workspace_max_m=BOX_M[1],
    max_linear_m_s=0.5,
    max_angular_rad_s=2.0,
    max_gripper_m_s=0.2,
    joint_speed_scale=0.6,
)
DT_S = MOTION.control_period_s
START_NS = 10**18

Numbers = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that the headset does, and how many control ticks follow it."""

    what: str
    shift: Numbers
    turn: Numbers
    ticks: int


UNBELIEVABLE = ("jump", "nan", "unnormed", "hidden", "lost", "guessed")
EVENTS = st.builds(
    Event,
    st.sampled_from(
        [*["move"] * 6, "open", "close", *UNBELIEVABLE, "old", "future", "late", "stall", "restart"]
    ),
    st.tuples(*[st.floats(-0.025, 0.025)] * 3),
    st.tuples(*[st.floats(-0.3, 0.3)] * 3),
    st.integers(1, 6),
)


class Headset:
    """A hand that does what the events say; keeps what may be believed of it by the rules in words.

    Whoever could not be believed, or was silent, must open the grip and squeeze it again.
    """

    def __init__(self) -> None:
        self.at_m: Numbers = (0.2, 1.1, -0.4)
        self.quat = (1.0, 0.0, 0.0, 0.0)
        self.squeeze = 0.0
        self.sequence = 0
        self.armed = self.held = False
        self.taken_ns = self.taken = 0

    def sample(self, event: Event, now_ns: int) -> QuestSample | None:
        """What arrives now; None for nothing."""
        what = event.what
        if what in ("stall", "late"):
            return None
        if what in ("old", "future"):
            return self._wild(now_ns + (-50_000_000 if what == "old" else 10**9))
        self.sequence = 0 if what == "restart" else self.sequence + 1
        if what in ("open", "close"):
            self.squeeze = 1.0 if what == "close" else 0.0
        step = tuple(v + math.copysign(0.2, v) for v in event.shift) if what == "jump" else event.shift
        self.at_m = tuple(a + b for a, b in zip(self.at_m, step, strict=True))
        self.quat = tuple(map(float, se3.quat_multiply(se3.quat_from_rotvec(event.turn), self.quat)))
        controller = self._controller()
        if what == "nan":
            pose = replace(controller.grip_pose, position_m=(math.nan, *self.at_m[1:]))
            controller = replace(controller, grip_pose=pose)
        if what == "unnormed":
            pose = replace(controller.grip_pose, orientation_xyzw=(0.0, 0.0, 0.0, 3.0))
            controller = replace(controller, grip_pose=pose)
        controller = replace(
            controller,
            connected=what != "lost",
            pose_valid=what != "lost",
            pose_emulated=what == "guessed",
        )
        visibility = "hidden" if what == "hidden" else "visible"
        return self._of(controller, now_ns, self.sequence, visibility)

    def believe(self, event: Event, now_ns: int) -> None:
        """Whether the hand may hold the arm from now on, as the operator was promised."""
        silent = now_ns - self.taken_ns > CLUTCH.stale_s * 1e9
        if event.what in ("old", "future", "stall", "late") or (self.sequence <= self.taken and not silent):
            return
        if event.what in UNBELIEVABLE or silent:
            self.armed = self.held = False
        if self.squeeze < CLUTCH.squeeze_off:
            self.armed, self.held = True, False
        elif self.armed and event.what not in UNBELIEVABLE:
            self.held = True
        self.taken_ns, self.taken = now_ns, self.sequence

    def _wild(self, stamp_ns: int) -> QuestSample:
        pose = XrPose(position_m=(9.0, 9.0, 9.0), orientation_xyzw=(1.0, 0.0, 0.0, 0.0))
        controller = replace(self._controller(), grip_pose=pose)
        return self._of(controller, stamp_ns, self.sequence + 5, "visible")

    def _of(self, controller: QuestController, stamp_ns: int, sequence: int, visibility: str) -> QuestSample:
        return QuestSample(
            stamp_ns=stamp_ns, headset_time_ms=0.0, sequence=sequence, visibility=visibility, right=controller
        )

    def _controller(self) -> QuestController:
        w, x, y, z = self.quat
        return QuestController(
            connected=True,
            pose_valid=True,
            grip_pose=XrPose(position_m=self.at_m, orientation_xyzw=(x, y, z, w)),
            button_values=(self.squeeze, self.squeeze, 0.0, 0.0, 0.0, 0.0, 0.0),
        )


def check_step(before: MotionState, result: MotionResult) -> None:
    """No limit, no clamp and no corner of the box is broken."""
    assert all(map(math.isfinite, (*result.q_cmd, *result.pose7, result.width_m)))
    limits = zip(before.q_cmd, result.q_cmd, JOINT_LIMITS_RAD, JOINT_SPEED_RAD_S, strict=True)
    for last, sent, (low, high), speed in limits:
        assert low <= sent <= high
        assert abs(sent - last) <= 0.6 * speed * DT_S + 1e-12
    metres, radians = flange_step(before.pose_cmd, result.pose7)
    assert metres <= 0.5 * DT_S * 1.002 + 2e-9
    assert radians <= 2.0 * DT_S * 1.002 + 2e-9
    for position, low, high in zip(result.pose7, *BOX_M, strict=False):
        assert low - 1e-4 <= position <= high + 1e-4  # joints move straight, the flange on a slight bow
    assert 0.0 <= result.width_m <= 0.07
    assert abs(result.width_m - before.width_cmd) <= 0.2 * DT_S + 1e-12


@settings(deadline=None, max_examples=60)
@given(st.lists(EVENTS, max_size=15))
def test_whatever_the_headset_sends_the_arm_keeps_its_bounds_and_moves_only_for_a_believed_grip(
    events: list[Event],
) -> None:
    still: Numbers = (0.0, 0.0, 0.0)
    begin = [Event("open", still, still, 1), Event("close", still, still, 1)]
    headset, clutch = Headset(), ClutchState()
    motion = start_motion(MOTION, WORKING_POSE_RAD, 0.05)
    now_ns, newest = START_NS, None
    for number, event in enumerate([*begin, *events]):
        newest = headset.sample(event, now_ns) or newest
        headset.believe(event, now_ns)
        for _ in range(25 if event.what == "stall" else event.ticks):
            before = motion
            clutch, goal = clutch_step(CLUTCH, clutch, newest, now_ns, motion.pose_cmd, motion.width_cmd)
            motion, result = motion_step(MOTION, motion, goal, DT_S)
            check_step(before, result)
            fresh = now_ns - headset.taken_ns <= CLUTCH.stale_s * 1e9
            assert not goal.engaged or (headset.held and fresh)
            assert goal.engaged or number != 1  # a squeeze is followed
            if not goal.engaged:
                assert (result.q_cmd, result.width_m) == (before.q_cmd, before.width_cmd)
            now_ns += round(DT_S * 1e9)
        headset.held = headset.held and now_ns - headset.taken_ns <= CLUTCH.stale_s * 1e9

"""The scripted operator against a fake recorder, the clutch and the motion layer."""

import math
from itertools import pairwise

import numpy as np
import pytest

from piper_collect.core.clutch import FOLLOWING, OPEN, ClutchConfig, ClutchState, clutch_step
from piper_collect.core.hand_path import hand_at
from piper_collect.core.kinematics import WORKING_POSE_RAD
from piper_collect.core.motion import MotionConfig, motion_step, start_motion
from piper_collect.core.motion_limits import flange_step
from piper_collect.core.operator_script import OperatorPlan, OperatorState, operator_step
from piper_collect.core.quest import PRIMARY, SECONDARY
from piper_collect.errors import ConfigError

START_NS = 1_700_000_000_000_000_000
MOTION = MotionConfig()


class FakeRecorder:
    """Starts, saves and discards on button edges; what it says is 0.1 s old."""

    def __init__(self, ignore_presses=0, ready_after_s=0.0, counts=True):
        self.word, self.saved, self.episodes = "idle", 0, []
        self._ignore, self._ready_ns, self._counts = ignore_presses, START_NS + ready_after_s * 1e9, counts
        self._down, self._until_ns = set(), 0
        self._said = []

    def take(self, sample, hand="right"):
        now = sample.stamp_ns
        down = {i for i, pressed in enumerate(sample.controller(hand).button_pressed) if pressed}
        edges, self._down = down - self._down, down
        if self.word == "saving" and now >= self._until_ns:
            self.word = "idle"
        if PRIMARY in edges and self.word == "idle":
            if self._ignore:
                self._ignore -= 1
            else:
                self.word, self._since = "recording", now
        elif edges & {PRIMARY, SECONDARY} and self.word == "recording":
            kept = PRIMARY in edges
            self.episodes.append((round((now - self._since) / 1e9, 1), "save" if kept else "discard"))
            self.saved += kept and self._counts
            self.word, self._until_ns = ("saving" if kept else "idle"), now + 300_000_000
        self._said.append((now, self.word, now >= self._ready_ns, self.saved))

    def says(self, now_ns):
        old = [said for said in self._said if said[0] <= now_ns - 100_000_000]
        self._said = self._said[max(len(old) - 1, 0) :]
        return old[-1][1:] if old else ("unknown", False, None)


def act(plan, recorder, most_s=120.0):
    """Every sample until the plan is over."""
    state, samples = OperatorState(), []
    for tick in range(int(most_s * plan.rate_hz)):
        now = START_NS + round(tick / plan.rate_hz * 1e9)
        word, ready, saved = recorder.says(now)
        state, sample = operator_step(plan, state, now, word, ready=ready, saved=saved)
        recorder.take(sample, plan.hand)
        samples.append(sample)
        if state.done:
            break
    return state, samples


def drive(samples, hand="right"):
    """The samples through clutch and motion layer at 200 Hz: goals and results."""
    clutch, motion = ClutchState(), start_motion(MOTION, WORKING_POSE_RAD, 0.07)
    config, steps, newest = ClutchConfig(hand=hand), [], 0
    for tick in range(int((samples[-1].stamp_ns - START_NS) / 5e6)):
        now = START_NS + tick * 5_000_000
        while newest + 1 < len(samples) and samples[newest + 1].stamp_ns <= now:
            newest += 1
        clutch, goal = clutch_step(config, clutch, samples[newest], now, motion.pose_cmd, motion.width_cmd)
        motion, result = motion_step(MOTION, motion, goal, 0.005)
        steps.append((goal, result))
    return steps


PLAN = OperatorPlan(seed=7, episodes=((4.0, "save"), (2.5, "discard"), (8.0, "save")))


@pytest.fixture(scope="module")
def session():
    recorder = FakeRecorder()
    state, samples = act(PLAN, recorder)
    return recorder, state, samples


def test_the_plan_is_recorded_as_asked(session):
    recorder, state, _ = session
    assert (state.done, state.failure) == (True, "")
    assert [outcome for _, outcome in recorder.episodes] == ["save", "discard", "save"]
    for (recorded_s, _), (planned_s, _) in zip(recorder.episodes, PLAN.episodes, strict=True):
        assert planned_s <= recorded_s <= planned_s + 0.3
    assert recorder.saved == 2


def test_the_same_plan_gives_the_same_samples(session):
    assert act(PLAN, FakeRecorder())[1] == session[2]


def test_samples_count_and_look_like_a_headset(session):
    samples = session[2]
    assert [sample.sequence for sample in samples] == list(range(len(samples)))
    assert samples[72].headset_time_ms == pytest.approx(1000.0)
    controller = samples[0].right
    assert (
        len(controller.button_values) == len(controller.button_pressed) == len(controller.button_touched) == 7
    )
    presses = [sum(s.right.button_pressed[i] for s in samples) for i in (PRIMARY, SECONDARY)]
    assert presses == [5 * 11, 11]  # 0.15 s each: three starts, two saves, one discard


@pytest.mark.parametrize(
    ("seed", "hand"), [(0, "right"), (1, "left"), (2, "right"), (3, "right"), (4, "right")]
)
def test_nothing_holds_or_limits_the_motion(seed, hand):
    plan = OperatorPlan(seed=seed, episodes=((3.0, "save"), (6.0, "save")), hand=hand)
    state, samples = act(plan, FakeRecorder())
    assert state.failure == ""
    steps = drive(samples, hand)
    assert {goal.reason for goal, _ in steps} == {FOLLOWING, OPEN}
    assert {result.limited for _, result in steps} == {()}
    engaged = [goal.engaged for goal, _ in steps]
    assert sum(after and not before for before, after in pairwise(engaged)) == 4  # twice an episode


def test_the_flange_moves_turns_grips_and_returns(session):
    steps = drive(session[2])
    first = steps[0][1]
    away = [flange_step(first.pose7, result.pose7) for _, result in steps]
    assert max(metres for metres, _ in away) > 0.03
    assert max(radians for _, radians in away) > math.radians(2.5)
    widths = [result.width_m for _, result in steps]
    assert min(widths) < 0.035
    assert widths[-1] == pytest.approx(0.07, abs=1e-9)
    assert away[-1] == pytest.approx((0.0, 0.0), abs=1e-6)


def test_no_jump_anywhere_and_the_clutched_hand_is_slow(session):
    for before, after in pairwise(session[2]):
        a, b = before.right, after.right
        step = math.dist(a.grip_pose.position_m, b.grip_pose.position_m)
        assert step < 0.02
        if a.squeeze > 0.4 and b.squeeze > 0.4:
            assert step * 72 < 0.1


def test_the_path_depends_on_seed_episode_and_time_only():
    path = [hand_at(3, 1, 5.0, t, "right") for t in np.linspace(0, 5, 50)]
    assert path == [hand_at(3, 1, 5.0, t, "right") for t in np.linspace(0, 5, 50)]
    assert path != [hand_at(3, 2, 5.0, t, "right") for t in np.linspace(0, 5, 50)]
    assert path != [hand_at(4, 1, 5.0, t, "right") for t in np.linspace(0, 5, 50)]
    late = OperatorPlan(seed=7, episodes=((4.0, "save"),))
    hands = []
    for recorder in (FakeRecorder(), FakeRecorder(ready_after_s=3.0)):
        _, samples = act(late, recorder)
        squeezed = [s.right for s in samples if s.right.squeeze > 0]
        hands.append([(c.grip_pose, c.squeeze, c.trigger) for c in squeezed])
    assert len(hands[0]) == len(hands[1])
    for (pose, *_), (twin, *_) in zip(*hands, strict=True):
        assert math.dist(pose.position_m, twin.position_m) < 1e-6


def test_it_waits_until_the_recorder_is_ready():
    _, samples = act(OperatorPlan(seed=0, episodes=((2.0, "save"),)), FakeRecorder(ready_after_s=4.0))
    first = next(s for s in samples if s.right.primary)
    assert 4.0 <= (first.stamp_ns - START_NS) / 1e9 < 4.3


def test_an_ignored_start_is_pressed_again():
    plan = OperatorPlan(seed=0, episodes=((2.0, "save"),))
    recorder = FakeRecorder(ignore_presses=4)
    state, _ = act(plan, recorder)
    assert (state.failure, len(recorder.episodes)) == ("", 1)
    state, _ = act(plan, FakeRecorder(ignore_presses=5))
    assert state.failure == "the recorder does not start after 5 presses"


def test_an_episode_that_was_not_saved_is_a_failure():
    state, _ = act(OperatorPlan(seed=0, episodes=((2.0, "save"), (2.0, "save"))), FakeRecorder(counts=False))
    assert state.failure == "episode 0 was to save, the recorder added 0"


def test_a_fault_or_a_recorder_that_stops_ends_the_plan():
    plan = OperatorPlan(seed=0, episodes=((2.0, "save"),))
    state, _ = operator_step(plan, OperatorState(), START_NS, "fault", ready=False)
    assert state.failure == "the recorder reports a fault"
    moving = OperatorState(phase="move", began_ns=START_NS, first_ns=START_NS)
    state, sample = operator_step(plan, moving, START_NS + 10**9, "idle", ready=True)
    assert state.failure == "somebody else ended the episode: the recorder is idle"
    assert sample.right.squeeze == 0.0


@pytest.mark.parametrize(
    "changes",
    [
        {"episodes": ()},
        {"episodes": ((1.0, "save"),)},
        {"episodes": ((3.0, "keep"),)},
        {"seed": -1},
        {"rate_hz": 0.0},
        {"hand": "both"},
    ],
)
def test_plans_that_cannot_be_acted_are_refused(changes):
    with pytest.raises(ConfigError):
        OperatorPlan(**{"seed": 0, "episodes": ((3.0, "save"),), **changes})

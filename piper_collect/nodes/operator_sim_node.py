"""A scripted operator: watches the recorder as a person watches the display, drives, presses buttons."""

from dataclasses import replace

from piper_collect.core.operator_script import OperatorPlan, OperatorState, operator_step
from piper_collect.msg import QuestInput, RecorderStatus
from piper_collect.nodes.convert import quest_input_msg
from piper_collect.nodes.qos import LATCHED_QOS, STREAM_QOS
from piper_collect.nodes.runtime import SessionNode, run_node

PATIENCE_S = 60.0
_WORDS = {
    RecorderStatus.STATE_WAITING: "idle",
    RecorderStatus.STATE_READY: "idle",
    RecorderStatus.STATE_RECORDING: "recording",
    RecorderStatus.STATE_SAVING: "saving",
    RecorderStatus.STATE_FAULT: "fault",
}


class OperatorSimNode(SessionNode):
    """Publishes QuestInput at the headset's rate; ends when its plan is done."""

    def __init__(self) -> None:
        super().__init__("operator_sim")
        sim = self.config.sim
        self._plan = OperatorPlan(
            seed=sim.seed,
            episodes=tuple(zip(sim.episode_s, sim.outcomes, strict=True)),
            hand=self.config.teleop.hand,
        )
        self._state = OperatorState()
        self._recorder = RecorderStatus(state=RecorderStatus.STATE_WAITING)
        self._heard = False
        self._settling_since_ns = 0
        self._input = self.create_publisher(QuestInput, "quest/input", STREAM_QOS)
        self.create_subscription(RecorderStatus, "recorder/status", self._take_status, LATCHED_QOS)
        self.create_timer(1.0 / self._plan.rate_hz, self._tick)

    def _take_status(self, status: RecorderStatus) -> None:
        self._recorder, self._heard = status, True

    def _tick(self) -> None:
        now_ns = self.steady_ns()
        self._state, sample = operator_step(
            self._plan,
            self._state,
            now_ns,
            _WORDS[self._recorder.state] if self._heard else "unknown",
            ready=self._recorder.state == RecorderStatus.STATE_READY,
            saved=self._recorder.episodes_saved if self._heard else None,
        )
        self._input.publish(quest_input_msg(replace(sample, stamp_ns=self.now_ns())))
        if self._state.done:
            self._end(self._state.failure)
        elif self._state.phase != "settle":
            self._settling_since_ns = 0
        elif not self._settling_since_ns:
            self._settling_since_ns = now_ns
        elif now_ns - self._settling_since_ns > PATIENCE_S * 1e9:
            told = self._recorder.message if self._heard else "there is no recorder"
            self._end(f"the recorder was not ready within {PATIENCE_S:.0f} s: {told}")

    def _end(self, failure: str) -> None:
        if failure:
            self.get_logger().error(failure)
            self.exit_code = 1
        else:
            self.get_logger().info("all episodes done")
        self.finished = True


def main(arguments: list[str] | None = None) -> int:
    """Run the scripted operator until its plan is done."""
    return run_node(OperatorSimNode, arguments)

"""Records one bag an episode: raw messages in, a whole rosbag2 folder out."""

import hashlib
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.serialization import deserialize_message
from rclpy.task import Future
from std_srvs.srv import Trigger

from piper_collect import __version__
from piper_collect.bag.recording import INTERRUPTED, SUCCESS, EpisodeRecording
from piper_collect.bag.session_folder import SessionFolder, find_unfinished, free_bytes
from piper_collect.config.load import dump_session
from piper_collect.config.names import recorded_topics, resolve_topic
from piper_collect.core.naming import session_name
from piper_collect.core.provenance import session_record
from piper_collect.core.topics import TopicMonitor, incomplete_reasons, start_refusal
from piper_collect.errors import PiperCollectError, SessionError
from piper_collect.msg import ArmStatus, RecorderStatus
from piper_collect.nodes.convert import duration_msg, stamp_msg, topic_status_msg
from piper_collect.nodes.qos import LATCHED_QOS
from piper_collect.nodes.runtime import SessionNode, run_node
from piper_collect.nodes.subscriptions import RawSubscriptions
from piper_collect.srv import StartEpisode

STATUS_S = 0.2
DISCOVERY_S = 0.5
WAITING_TOLD_S = 5.0


class RecorderNode(SessionNode):
    """Subscribes early, starts an episode only when every required topic is alive, loses nothing unsaid."""

    def __init__(self) -> None:
        super().__init__("recorder")
        self._settings = self.config.recorder
        self._session_yaml = dump_session(self.config)
        self._started_ns = self.now_ns()
        self._root = Path(self.config.session.root).expanduser()
        started = datetime.fromtimestamp(self._started_ns / 1e9)
        self._folder = SessionFolder(self._root, session_name(self.config.session.task, started))
        self._recording: EpisodeRecording | None = None
        self._saving: Future | None = None
        self._end_ns = 0
        self._fault = ""
        self._message = ""
        self._told_state = self._last_state = -1
        self._state_since_ns = self._started_ns
        self._saved = 0
        self._arm_status_topic = resolve_topic("arm/status", self.config.session.namespace)
        self._firmware = self.config.arm.firmware
        self._topics = RawSubscriptions(self, recorded_topics(self.config), self._receive)
        self._status_publisher = self.create_publisher(RecorderStatus, "recorder/status", LATCHED_QOS)
        self.create_service(StartEpisode, "recorder/start_episode", self._start_episode)
        # in a group of its own: the call waits for late messages, which the others must go on receiving
        waits = ReentrantCallbackGroup()
        self.create_service(Trigger, "recorder/stop_episode", self._stop_episode, callback_group=waits)
        self.create_service(Trigger, "recorder/discard_episode", self._discard_episode)
        self.create_service(Trigger, "recorder/delete_last_episode", self._delete_last_episode)
        self.create_timer(STATUS_S, self._publish_status)
        self.create_timer(DISCOVERY_S, self._topics.discover)

    def start(self) -> None:
        """Say what an earlier run left unfinished, and look for publishers."""
        for path in find_unfinished(self._root):
            self.get_logger().warning(f"an earlier recording was never finished and is kept: {path}")
        self._topics.discover()
        self._publish_status()

    def stop(self) -> bool:
        """Save a running episode as interrupted; True when nothing is left to write."""
        if self._saving is not None:
            return False  # the stop call that is being served ends the episode
        if self._recording is not None:
            self.get_logger().warning("stopped while an episode was running: saving it as interrupted")
            self._end_ns = self.now_ns()
            self._finish(INTERRUPTED)
        self._folder.close()
        self.exit_code = 1 if self._fault else 0
        return True

    # -- services ------------------------------------------------------------------------------

    def _start_episode(self, request: StartEpisode.Request, response: StartEpisode.Response):
        response.episode_index = -1
        task = request.task or self.config.session.task
        refusal = self._refusal(task)
        if not refusal:
            try:
                response.episode_index = self._open_episode(task)
            except PiperCollectError as err:
                refusal = str(err)
        response.success = not refusal
        response.message = self._say(f"not started: {refusal}" if refusal else f"recording: {task}")
        return response

    async def _stop_episode(self, _request: Trigger.Request, response: Trigger.Response):
        if self._recording is None or self._saving is not None:
            response.message = self._say("nothing to stop: no episode is running")
            return response
        self._end_ns = self.now_ns()
        self._saving = Future()
        self._publish_status()
        timer = self.create_timer(0.02, self._finish_when_drained)
        response.success, response.message = await self._saving
        self.destroy_timer(timer)
        self._saving = None
        self._say(response.message)
        return response

    def _discard_episode(self, _request: Trigger.Request, response: Trigger.Response):
        if self._recording is None or self._saving is not None:
            response.message = self._say("nothing to discard: no episode is running")
            return response
        index = self._recording.index
        self._recording.abandon()
        self._recording = None
        response.success = True
        response.message = self._say(f"episode {index} discarded")
        return response

    def _delete_last_episode(self, _request: Trigger.Request, response: Trigger.Response):
        if self._recording is not None:
            response.message = self._say("not deleted: an episode is running; discard it instead")
            return response
        try:
            index = self._folder.delete_last()
        except PiperCollectError as err:
            response.message = self._say(f"not deleted: {err}")
            return response
        self._saved -= 1
        response.success = True
        response.message = self._say(f"episode {index} deleted")
        return response

    # -- the episode ---------------------------------------------------------------------------

    def _refusal(self, task: str) -> str:
        if self._recording is not None or self._saving is not None:
            return "an episode is running; stop or discard it first"
        if not task.strip():
            return "the task is empty; give one in the call or set session.task"
        free_gb = free_bytes(self._root) / 1e9
        if free_gb < self._settings.min_free_gb:
            return f"only {free_gb:.2f} GB free at {self._root}, {self._settings.min_free_gb} are needed"
        return start_refusal(list(self._monitors()), self.now_ns(), self._fresh_ns())

    def _open_episode(self, task: str) -> int:
        record = self._session_record()
        self._folder.prepare(self._session_yaml, record)
        start_ns = self.now_ns()
        recording = EpisodeRecording(
            self._folder,
            storage=self._settings.storage,
            topics=self._topics.topics.values(),
            task=task,
            start_ns=start_ns,
            session_yaml=self._session_yaml,
            session_record=record,
        )
        self._fault, self._recording = "", recording
        for monitor in self._monitors():
            monitor.begin_episode()
        for topic, payload in self._topics.latched.items():
            self._write(self._topics.monitors[topic], payload, start_ns)
            if self._fault:
                raise SessionError(self._fault)
        return recording.index

    def _receive(self, monitor: TopicMonitor, payload: bytes, receive_ns: int) -> None:
        if monitor.name == self._arm_status_topic and monitor.type == "piper_collect/msg/ArmStatus":
            self._firmware = deserialize_message(payload, ArmStatus).firmware or self._firmware
        if self._recording is not None:
            self._write(monitor, payload, receive_ns)

    def _write(self, monitor: TopicMonitor, payload: bytes, receive_ns: int) -> None:
        try:
            self._recording.add_topic(self._topics.topic(monitor.name))
            self._recording.write(monitor.name, payload, receive_ns)
        except PiperCollectError as err:
            self._give_up(err)
            return
        monitor.messages += 1

    def _give_up(self, err: PiperCollectError) -> None:
        """The storage failed: keep what is on disk, and say where."""
        self._fault = f"not saved: {err}; what was written is kept at {self._recording.path}"
        self._recording.leave()
        self._recording = None
        if self._saving is not None and not self._saving.done():
            self._saving.set_result((False, self._fault))
        self._say(self._fault)

    def _finish_when_drained(self) -> None:
        if self._recording is None:
            return
        late_ns = self.now_ns() - self._end_ns
        waiting = [m.name for m in self._monitors() if m.required and m.newest_stamp_ns <= self._end_ns]
        if late_ns >= self._settings.drain_s * 1e9 or not waiting:
            self._finish(SUCCESS)

    def _finish(self, outcome: str) -> None:
        reasons = incomplete_reasons(list(self._monitors()), self._settings.max_lost)
        if outcome == INTERRUPTED:
            reasons.insert(0, "the recorder was told to end while the episode was running")
        counts = {
            m.name: {
                "type": m.type,
                "required": m.required,
                "messages": m.messages,
                "lost": m.lost,
                "publisher_restarts": m.restarts,
                "zero_stamps": m.zero_stamps,
            }
            for m in self._monitors()
        }
        recording, self._recording = self._recording, None
        try:
            path, summary = recording.finish(
                end_ns=self._end_ns, outcome=outcome, incomplete_reasons=reasons, topics=counts
            )
        except PiperCollectError as err:
            self._fault = f"not saved: {err}; what was written is kept at {recording.path}"
            result = (False, self._fault)
        else:
            self._saved += 1
            seconds = (self._end_ns - recording.start_ns) / 1e9
            text = f"episode {recording.index} saved: {seconds:.1f} s, {summary.message_count} messages"
            flaw = f"; INCOMPLETE: {'; '.join(reasons)}" if reasons else ""
            result = (True, f"{text}, {path}{flaw}")
        if self._saving is not None and not self._saving.done():
            self._saving.set_result(result)
        else:
            self._say(result[1])

    # -- what people see -----------------------------------------------------------------------

    def _monitors(self):
        return self._topics.monitors.values()

    def _fresh_ns(self) -> int:
        return int(self._settings.fresh_s * 1e9)

    def _session_record(self) -> dict[str, object]:
        config = self.config
        return session_record(
            session=self._folder.name,
            started_ns=self._started_ns,
            input_device=config.session.input_device,
            arm={
                "model": config.arm.model,
                "firmware": self._firmware,
                "dh_offset": config.arm.dh_offset,
            },
            control=asdict(config.control),
            cameras={name: {"serial": camera.serial} for name, camera in config.cameras.items()},
            fps=config.session.fps,
            task=config.session.task,
            tool_version=__version__,
            config_sha256=hashlib.sha256(self._session_yaml.encode("utf-8")).hexdigest(),
        )

    def _say(self, message: str) -> str:
        self._message = message
        self.get_logger().info(message)
        self._publish_status()
        return message

    def _state(self, refusal: str) -> int:
        if self._saving is not None:
            return RecorderStatus.STATE_SAVING
        if self._recording is not None:
            return RecorderStatus.STATE_RECORDING
        if self._fault:
            return RecorderStatus.STATE_FAULT
        return RecorderStatus.STATE_WAITING if refusal else RecorderStatus.STATE_READY

    def _publish_status(self) -> None:
        now_ns = self.now_ns()
        refusal = start_refusal(list(self._monitors()), now_ns, self._fresh_ns())
        status = RecorderStatus()
        status.header.stamp = stamp_msg(now_ns)
        status.state = self._state(refusal)
        status.session = self._folder.name if self._folder.path.is_dir() else ""
        running = self._recording
        status.episode_index = running.index if running else self._folder.next_index()
        status.task = running.task if running else self.config.session.task
        status.elapsed = duration_msg(now_ns - running.start_ns if running else 0)
        status.episodes_saved = self._saved
        status.bytes_free = free_bytes(self._root)
        status.message = refusal if status.state == RecorderStatus.STATE_WAITING else self._message
        status.topics = [
            topic_status_msg(m, now_ns, self._fresh_ns(), running=running is not None)
            for m in self._monitors()
        ]
        self._status_publisher.publish(status)
        self._tell_state(status.state, refusal, now_ns)

    def _tell_state(self, state: int, refusal: str, now_ns: int) -> None:
        """One line on the console when an episode can start, or has not been able to for a while."""
        if state != self._last_state:
            self._last_state, self._state_since_ns = state, now_ns
        if state == self._told_state:
            return
        if state == RecorderStatus.STATE_READY:
            self.get_logger().info(f"ready; episodes go to {self._folder.path}")
        elif state == RecorderStatus.STATE_WAITING:
            if now_ns - self._state_since_ns < WAITING_TOLD_S * 1e9:
                return
            self.get_logger().warning(f"no episode can start: {refusal}")
        self._told_state = state


def main(arguments: list[str] | None = None) -> int:
    """Run the recorder until it is told to stop."""
    return run_node(RecorderNode, arguments)

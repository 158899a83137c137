"""Records one bag an episode: raw messages in, a whole rosbag2 folder out."""

import hashlib
import time
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.task import Future
from std_srvs.srv import Trigger

from piper_collect import __version__
from piper_collect.bag.backends import choose_storage
from piper_collect.bag.recording import INTERRUPTED, SUCCESS, EpisodeRecording
from piper_collect.bag.session_folder import (
    SessionFolder,
    check_root,
    find_unfinished,
    free_bytes,
    room_refusal,
)
from piper_collect.config.load import dump_session
from piper_collect.config.names import RECORDER_STATUS_TOPIC, image_topic, resolve_topic
from piper_collect.core.drain import Drain
from piper_collect.core.host_clock import HostClock, told_steps
from piper_collect.core.mit import control_record
from piper_collect.core.naming import session_name
from piper_collect.core.provenance import session_record
from piper_collect.core.topics import TopicMonitor, incomplete_reasons, start_refusal, topic_counts
from piper_collect.core.wait_notice import WaitNotice
from piper_collect.errors import PiperCollectError, SessionError
from piper_collect.msg import RecorderStatus
from piper_collect.nodes.camera_devices import CameraDevices
from piper_collect.nodes.company import look_time_s, refuse_company
from piper_collect.nodes.contents import Contents
from piper_collect.nodes.convert import duration_msg, stamp_msg, topic_status_msg
from piper_collect.nodes.qos import LATCHED_QOS
from piper_collect.nodes.runtime import SessionNode, run_node
from piper_collect.nodes.subscriptions import RawSubscriptions
from piper_collect.pipelines.delete_last import delete_last
from piper_collect.srv import StartEpisode

STATUS_S = 0.2
DISCOVERY_S = 0.5


class RecorderNode(SessionNode):
    """Subscribes early, starts an episode only when every required topic is alive, loses nothing unsaid."""

    def __init__(self) -> None:
        super().__init__("recorder", extra_parameters=("look_s",))
        self._settings = self.config.recorder
        self._session_yaml = dump_session(self.config)
        self._started_ns = self.now_ns()
        self._root = Path(self.config.session.root).expanduser()
        started = datetime.fromtimestamp(self._started_ns / 1e9)
        self._folder = SessionFolder(self._root, session_name(self.config.session.task, started))
        self._host_clock = HostClock(time.time_ns, time.monotonic_ns)
        self._recording: EpisodeRecording | None = None
        self._saving: Future | None = None
        self._end_ns = 0
        self._drain: Drain | None = None
        self._fault = ""
        self._message = ""
        self._last_state = -1
        self._begun_ns = self._ended_ns = 0  # of the episode, by the clock that nobody sets
        self._state_since_ns = self.steady_ns()
        self._saved = 0
        self._contents = Contents(self.config)
        self._topics = RawSubscriptions(
            self, self.config, self._receive, watch_pictures=True, keep_lead_ins=True
        )
        self._devices = CameraDevices(self, self.config)
        self._status_publisher = self.create_publisher(RecorderStatus, RECORDER_STATUS_TOPIC, LATCHED_QOS)
        self.create_service(StartEpisode, "recorder/start_episode", self._start_episode)
        # in a group of its own: the call waits for late messages, which the others must go on receiving
        waits = ReentrantCallbackGroup()
        self.create_service(Trigger, "recorder/stop_episode", self._stop_episode, callback_group=waits)
        self.create_service(Trigger, "recorder/discard_episode", self._discard_episode)
        self.create_service(Trigger, "recorder/delete_last_episode", self._delete_last_episode)
        self.create_timer(STATUS_S, self._look_round)
        self.create_timer(DISCOVERY_S, self._discover)

    def start(self) -> None:
        """Say how bags are written and what an earlier run left unfinished, and look for publishers.

        Raises:
            ConfigError: Bags cannot be written here as configured.
            SessionError: The recording root cannot be written, or another recorder is running here.
        """
        check_root(self._root)
        self._storage = choose_storage(self._settings.storage, self._settings.storage_backend)
        refuse_company(self, RECORDER_STATUS_TOPIC, look_time_s(self.extra["look_s"]))
        self.get_logger().info(f"bags are stored as {self._storage}")
        if self._storage.because:
            self.get_logger().warning(f"rosbag2_py is not used: {self._storage.because}")
        for path in find_unfinished(self._root):
            self.get_logger().warning(
                f"an earlier recording was never finished and is kept: {path}; "
                "piper-collect recover makes an episode of it"
            )
        self._state_since_ns = self.steady_ns()
        self._notice = WaitNotice(self._state_since_ns)
        self._discover()
        self._publish_status()

    def stop(self) -> bool:
        """Save a running episode as interrupted; True when nothing is left to write."""
        if self._saving is not None:
            return False  # the stop call that is being served ends the episode
        if self._recording is not None:
            self.get_logger().warning("stopped while an episode was running: saving it as interrupted")
            self._end()
            self._finish(INTERRUPTED, "the recorder was told to end while the episode was running")
        self._folder.close()
        self.exit_code = 1 if self._fault or self._topics.wrong_setting else 0
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
        self._end()
        self._drain = Drain(end_ns=self._end_ns, patience_ns=int(self._settings.drain_s * 1e9))
        self._saving = Future()
        self._publish_status()
        timer = self.create_timer(0.02, self._finish_when_drained)
        response.success, response.message = await self._saving
        self.destroy_timer(timer)
        self._saving = self._drain = None
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
        dataset = self.config.session.dataset
        try:
            deleted = delete_last(self._folder, Path(dataset).expanduser() if dataset else None)
        except PiperCollectError as err:
            response.message = self._say(f"not deleted: {err}")
            return response
        self._saved -= 1
        response.success = True
        there = f", and from {dataset}" if deleted.from_dataset else ""
        response.message = self._say(f"episode {deleted.index} deleted{there}")
        return response

    # -- the episode ---------------------------------------------------------------------------

    def _refusal(self, task: str) -> str:
        if self._recording is not None or self._saving is not None:
            return "an episode is running; stop or discard it first"
        if not task.strip():
            return "the task is empty; give one with --task, in session.task, or in the call"
        least_gb = max(self._settings.min_free_gb, self._settings.stop_free_gb)
        return room_refusal(self._root, least_gb) or self._not_ready(self.steady_ns())

    def _not_ready(self, now_ns: int) -> str:
        """Why topics and cameras are not as an episode needs them; empty when they are."""
        reasons = (start_refusal(list(self._monitors()), now_ns, self._fresh_ns()), self._devices.refusal())
        return "; ".join(reason for reason in reasons if reason)

    def _open_episode(self, task: str) -> int:
        record = self._session_record()
        self._folder.prepare(self._session_yaml, record)
        start_ns, self._begun_ns = self.now_ns(), self.steady_ns()
        recording = EpisodeRecording(
            self._folder,
            storage=self._storage,
            topics=self._topics.topics.values(),
            task=task,
            start_ns=start_ns,
            session_yaml=self._session_yaml,
            session_record=record,
        )
        self._fault, self._recording = "", recording
        self._host_clock.begin()
        for monitor in self._monitors():
            monitor.begin_episode(self._begun_ns)
        for monitor, message in self._topics.early_messages(start_ns, self._fresh_ns()):
            self._write(monitor, message.payload, message.receive_ns, message.publish_ns)
            if self._fault:
                raise SessionError(self._fault)
        return recording.index

    def _receive(
        self, monitor: TopicMonitor, payload: bytes, receive_ns: int, publish_ns: int | None
    ) -> None:
        self._contents.take(monitor, payload)
        if self._drain is not None:
            self._drain.receive(receive_ns)
        if self._recording is not None:
            self._look_at_clock()
            self._write(monitor, payload, receive_ns, publish_ns)

    def _look_at_clock(self) -> None:
        if step := self._host_clock.look():
            self.get_logger().warning(told_steps([step]))
            for monitor in self._monitors():
                monitor.gaps.note_step(step)

    def _write(
        self, monitor: TopicMonitor, payload: bytes, receive_ns: int, publish_ns: int | None = None
    ) -> None:
        topic = self._topics.topic(monitor.name)
        if not self._recording.takes(topic):
            return  # of another type than before, which its monitor has noted
        try:
            self._recording.add_topic(topic)
            self._recording.write(monitor.name, payload, receive_ns, publish_ns)
        except PiperCollectError as err:
            self._give_up(err)
            return
        monitor.messages += 1

    def _give_up(self, err: PiperCollectError) -> None:
        """The storage failed: keep what is on disk, and say where."""
        self._fault = f"not saved: {err}; what was written is kept at {self._recording.path}"
        self._recording.leave([f"not saved: {err}"], topic_counts(self._monitors()))
        self._recording = None
        if self._saving is not None and not self._saving.done():
            self._saving.set_result((False, self._fault))
        self._say(self._fault)

    def _finish_when_drained(self) -> None:
        if self._recording is None or self._drain is None:
            return
        waited_ns = self.steady_ns() - self._ended_ns
        if self._drain.is_over(self.now_ns(), self._monitors(), waited_ns=waited_ns):
            self._finish(SUCCESS)

    def _end(self) -> None:
        """The episode ends now; what was sent before may still be on its way."""
        self._end_ns, self._ended_ns = self.now_ns(), self.steady_ns()

    def _finish(self, outcome: str, why: str = "") -> None:
        reasons = incomplete_reasons(
            list(self._monitors()), self._settings.max_lost, end_ns=self._ended_ns, fresh_ns=self._fresh_ns()
        )
        reasons += self._host_clock.flaws(self._settings.clock_step)
        if why:
            reasons.insert(0, why)
        recording, self._recording = self._recording, None
        try:
            path, summary = recording.finish(
                end_ns=self._end_ns,
                outcome=outcome,
                incomplete_reasons=reasons,
                topics=topic_counts(self._monitors()),
                clock_steps=self._host_clock.steps,
            )
        except PiperCollectError as err:
            self._fault = f"not saved: {err}; what was written is kept at {recording.path}"
            result = (False, self._fault)
        else:
            self._saved += 1
            seconds = (self._ended_ns - self._begun_ns) / 1e9
            text = f"episode {recording.index} saved: {seconds:.1f} s, {summary.message_count} messages"
            flaw = f"; INCOMPLETE: {'; '.join(reasons)}" if reasons else ""
            result = (True, f"{text}, {path}{flaw}")
        if self._saving is not None and not self._saving.done():
            self._saving.set_result(result)
        else:
            self._say(result[1])

    def _look_round(self) -> None:
        """End the episode while there is still room to end it well, and say how things stand."""
        if self._recording is not None and self._saving is None:
            short = room_refusal(self._root, self._settings.stop_free_gb)
            if short:
                self._end()
                self._finish(INTERRUPTED, f"it was stopped: {short}")
        self._publish_status()

    def _discover(self) -> None:
        """Look for publishers; a setting that can never work ends the recorder, unless an episode runs."""
        self._topics.discover()
        space, monitors = self.config.session.namespace, self._topics.monitors
        self._devices.poll(
            self.steady_ns(),
            {
                name: monitors[resolve_topic(image_topic(name, camera), space)].publishers != ()
                for name, camera in self.config.cameras.items()
            },
        )
        wrong = self._topics.wrong_setting
        if wrong is not None and self._recording is None and not self.finished:
            self.get_logger().error(str(wrong))
            self.finished = True

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
                "firmware": self._contents.firmware,
                "firmware_source": self._contents.firmware_source,
                "dh_offset": config.arm.dh_offset,
            },
            control=control_record(
                asdict(config.control),
                over_can=config.devices.arm == "can",
                firmware=self._contents.firmware,
            ),
            cameras=self._devices.records(),
            fps=config.session.fps,
            task=config.session.task,
            tool_version=__version__,
            config_sha256=hashlib.sha256(self._session_yaml.encode("utf-8")).hexdigest(),
            storage=self._storage.record(),
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
        stamp_ns, now_ns = self.now_ns(), self.steady_ns()
        refusal = self._not_ready(now_ns)
        status = RecorderStatus()
        status.header.stamp = stamp_msg(stamp_ns)
        status.state = self._state(refusal)
        if (self._last_state, status.state) == (RecorderStatus.STATE_WAITING, RecorderStatus.STATE_READY):
            self._message = ""  # why nothing could start is over
        status.session = self._folder.name if self._folder.path.is_dir() else ""
        running = self._recording
        status.episode_index = running.index if running else self._folder.next_index()
        status.task = running.task if running else self.config.session.task
        status.elapsed = duration_msg(now_ns - self._begun_ns if running else 0)
        status.episodes_saved = self._saved
        status.bytes_free = free_bytes(self._root)
        status.message = refusal if status.state == RecorderStatus.STATE_WAITING else self._message
        status.topics = [
            topic_status_msg(m, now_ns, stamp_ns, self._fresh_ns(), running=running is not None)
            for m in self._monitors()
        ]
        self._status_publisher.publish(status)
        self._tell_state(status.state, refusal)

    def _tell_state(self, state: int, refusal: str) -> None:
        """One line on the console when an episode can start, or has not been able to for a while."""
        self._last_state = state
        is_waiting = {RecorderStatus.STATE_WAITING: True, RecorderStatus.STATE_READY: False}.get(state)
        if not self._notice.is_due(is_waiting, self.steady_ns()):
            return
        if is_waiting:
            self.get_logger().warning(f"no episode can start: {refusal}")
        else:
            self.get_logger().info(f"ready; episodes go to {self._folder.path}")


def main(arguments: list[str] | None = None) -> int:
    """Run the recorder until it is told to stop."""
    return run_node(RecorderNode, arguments)

"""A simulated session whose processes can be killed, stalled and started again, one by one."""

import os
import resource
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ros_support import Rig, RunningProcess

from piper_collect.config.load import dump_session
from piper_collect.config.schema import CameraSettings, SessionConfig

CAMERAS = ("cam_front", "cam_wrist")
WAITING, READY, RECORDING, SAVING, FAULT = range(5)
SAMPLE_S = 1.0
_TOO_LARGE_BYTES = 20_000
_PATIENCE_S = 5.0


@dataclass(slots=True)
class Life:
    """One process: what it is, and how much it held over its time.

    Attributes:
        role: Which node it is.
        process: The process.
        truth: Folder of its truth log.
        samples: (seconds of monotonic time, resident memory in MB, open files).
    """

    role: str
    process: RunningProcess
    truth: Path
    samples: list[tuple[float, float, int]] = field(default_factory=list)


class Cell:
    """Recorder, arm, two cameras and teleoperation, each a process of its own.

    Args:
        rig: What starts and ends them.
        folder: For recordings and truth logs.
    """

    def __init__(self, rig: Rig, folder: Path) -> None:
        from piper_collect.msg import RecorderStatus
        from rclpy.qos import DurabilityPolicy, QoSProfile

        self.rig = rig
        self.folder = folder
        base = SessionConfig()
        camera = CameraSettings(width=160, height=120)
        self.config = replace(
            base,
            session=replace(base.session, root=str(folder / "recordings"), task="soak"),
            cameras=dict.fromkeys(CAMERAS, camera),
            recorder=replace(base.recorder, drain_s=3.0, min_free_gb=0.0, storage_backend="pip"),
        )
        self.root = folder / "recordings"
        self.lives: list[Life] = []
        self._sampled_s = 0.0
        self._recorder_since_ns = 0
        latched = QoSProfile(depth=10, durability=DurabilityPolicy.TRANSIENT_LOCAL)  # type: ignore[no-untyped-call]
        self.statuses = rig.listen(RecorderStatus, "recorder/status", latched)
        for role in ("recorder", "arm", "teleop", *CAMERAS):
            self.start(role)

    # -- processes -----------------------------------------------------------------------------

    def start(self, role: str) -> None:
        """Start a node, with a truth log of its own."""
        truth = self.folder / "truth" / f"{len(self.lives):04d}_{role}"
        file = self.folder / f"{len(self.lives):04d}_{role}.yaml"
        config = replace(self.config, sim=replace(self.config.sim, truth_dir=str(truth)))
        file.write_text(dump_session(config), encoding="utf-8")
        if role == "recorder":
            self._recorder_since_ns = time.time_ns()
        executable = "camera_sim_node" if role in CAMERAS else _EXECUTABLES[role]
        parameters = {"camera": role} if role in CAMERAS else {}
        process = self.rig.start_with(executable, file, site=None, **parameters)
        self.lives.append(Life(role, process, truth))

    def now(self, role: str) -> RunningProcess:
        """The newest process of a node."""
        return next(life for life in reversed(self.lives) if life.role == role).process

    def kill(self, role: str, number: signal.Signals = signal.SIGKILL) -> None:
        """End a process, and wait for its end."""
        process = self.now(role)
        process.may_end = True
        process.send(number)
        process.wait()

    def stall(self, role: str, seconds: float) -> None:
        """Let a process stand still."""
        process = self.now(role)
        process.send(signal.SIGSTOP)
        self.wait(seconds)
        process.send(signal.SIGCONT)

    def fail_writes(self, fail: bool) -> None:
        """Make the recorder's writes fail, as a full disk does, or let them succeed again."""
        limit = _TOO_LARGE_BYTES if fail else resource.RLIM_INFINITY
        resource.prlimit(self.now("recorder").pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))

    # -- time ----------------------------------------------------------------------------------

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        end_s = time.monotonic() + seconds
        self.until(lambda: time.monotonic() >= end_s, "time stands still")

    def until(self, holds: Callable[[], Any], what: str) -> None:
        """Wait for a condition, and look at the processes meanwhile."""
        self.rig.until(holds, what, meanwhile=self.sample)

    def sample(self) -> None:
        """Look at memory and open files of all processes, now and then."""
        now_s = time.monotonic()
        del self.statuses[:-1]
        if now_s - self._sampled_s < SAMPLE_S:
            return
        self._sampled_s = now_s
        for life in self.lives:
            if life.process.exit_code() is None:
                life.samples.append((now_s, *_held(life.process.pid)))

    # -- the recorder --------------------------------------------------------------------------

    @property
    def status(self) -> Any:
        """The newest status of the recorder that runs now, not of one before it; None before it speaks."""
        newest = self.statuses[-1] if self.statuses else None
        return newest if newest is not None and _stamp_ns(newest) >= self._recorder_since_ns else None

    def state(self) -> int:
        """What the recorder says that it does; -1 before it speaks."""
        return int(self.status.state) if self.status is not None else -1

    def begin(self) -> None:
        """Start an episode, as soon as one can be."""
        from piper_collect.srv import StartEpisode

        while self.state() != RECORDING:
            self.until(lambda: self.state() in (READY, FAULT, RECORDING), "no episode can start")
            self._ask(StartEpisode, "start_episode", (RECORDING,), task="soak")

    def finish(self, name: str) -> None:
        """End the episode by a service of the recorder."""
        from std_srvs.srv import Trigger

        while self.state() in (RECORDING, SAVING):
            self._ask(Trigger, name, (READY, FAULT, WAITING))

    def _ask(self, service: Any, name: str, states: tuple[int, ...], **fields: object) -> None:
        """Ask, and wait for one of these states.

        Whoever asks soon after a recorder was killed may have asked the dead one: it is asked again.
        """
        answer = self.rig.ask(service, f"recorder/{name}", **fields)
        end_s = time.monotonic() + _PATIENCE_S
        self.until(lambda: self.state() in states or time.monotonic() > end_s, "time stands still")
        if answer.done() and not answer.result().success:
            self.wait(0.3)

    def newest_ns(self) -> dict[str, int]:
        """Stamp of the newest message of each topic that the recorder says it has."""
        if self.status is None:
            return {}
        now_ns = _stamp_ns(self.status)
        heard = [topic for topic in self.status.topics if topic.age_s >= 0.0]
        return {topic.name: now_ns - round(topic.age_s * 1e9) for topic in heard}


_EXECUTABLES = {"recorder": "recorder_node", "arm": "arm_sim_node", "teleop": "teleop_node"}


def _stamp_ns(status: Any) -> int:
    """When a status was taken."""
    return int(status.header.stamp.sec) * 10**9 + int(status.header.stamp.nanosec)


def _held(pid: int) -> tuple[float, int]:
    """Resident memory in MB, and open files; zeros for a process that has just ended."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        return pages * resource.getpagesize() / 1e6, len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return 0.0, 0

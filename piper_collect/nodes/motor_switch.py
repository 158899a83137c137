"""Switching the arm's motors through its vendor's service, which may take seconds and shuts the gripper."""

from dataclasses import dataclass

from rclpy.task import Future

from piper_collect.config.bridge import BridgeSettings, vendor_names
from piper_collect.core.arm_report import MotorPower
from piper_collect.core.kinematics import Joints
from piper_collect.core.vendor_arm import ArmSample
from piper_collect.nodes.runtime import SessionNode
from piper_collect.nodes.vendor_types import vendor_type

HOLD_AT_LEAST_S = 0.5
"""The gripper may be on its way to 0 still, and look as if it had never moved."""

HOLD_AT_MOST_S = 2.0
REOPENED_M = 0.002


@dataclass(slots=True, kw_only=True)
class _Request:
    """One request under way."""

    enable: bool
    future: Future
    answer: Future
    deadline_ns: int
    width_m: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """What the arm is told until the gripper is where it was.

    Attributes:
        q: Joints in rad, as measured after the motors were on.
        width_m: Where the gripper was before.
        from_ns: When the motors were on.
    """

    q: Joints
    width_m: float
    from_ns: int


class MotorSwitch:
    """Asks the vendor's node to switch the motors, and never waits for it.

    Enabling sends the gripper to 0 in piper_ros; afterwards ``hold`` says what brings it back. Times are
    those of a clock that nobody sets (``monotonic_ns``); only stamps are of the node's.

    Args:
        node: The node that owns the client.
        settings: Which service, and how long it may take.

    Attributes:
        power: Whether the motors are on, as far as the answers say.
        answered_ns: When the last answer came; 0 before it.
        hold: What to command after enabling; None when there is nothing to bring back.
        missing: Why the motors cannot be switched from here; empty when they can.
    """

    def __init__(self, node: SessionNode, settings: BridgeSettings) -> None:
        names = vendor_names(settings)
        self._node = node
        self._piper_ros = settings.vendor == "piper_ros"
        self._timeout_ns = int(settings.enable_timeout_s * 1e9)
        self._timeout_s = settings.enable_timeout_s
        self._request: _Request | None = None
        self._reopen: tuple[float, int, int] | None = None
        self._type = vendor_type("srv", names.enable_type)
        self._client = node.create_client(self._type, names.enable_service) if self._type else None
        self.power: MotorPower = "unknown"
        self.answered_ns = 0
        self.hold: Hold | None = None
        package = names.enable_type.partition("/")[0]
        self.missing = "" if self._type else f"{package} is not installed here"

    @property
    def busy(self) -> bool:
        """Whether a request is under way, or the gripper on its way back."""
        return self._request is not None or self._reopen is not None or self.hold is not None

    @property
    def ready(self) -> bool:
        """Whether somebody answers requests."""
        return self._client is not None and self._client.service_is_ready()

    def ask(self, enable: bool, width_m: float | None, now_ns: int) -> Future:
        """Ask for power on, or off.

        Args:
            enable: Whether the motors shall be on.
            width_m: Where the gripper is now; None when that is not known.
            now_ns: Now.

        Returns:
            A future of whether it was done, and of a sentence about it.
        """
        answer = Future()
        if self.missing:
            answer.set_result((False, f"the motors cannot be switched from here: {self.missing}"))
        elif self.busy:
            answer.set_result((False, "the motors are being switched already"))
        elif not self.ready:
            answer.set_result(
                (False, f"nobody serves {self._client.srv_name}: is the vendor's node running?")
            )
        else:
            field = {"enable_request": enable} if self._piper_ros else {"data": enable}
            self._request = _Request(
                enable=enable,
                future=self._client.call_async(self._type.Request(**field)),
                answer=answer,
                deadline_ns=now_ns + self._timeout_ns,
                width_m=width_m if enable else None,
            )
        return answer

    def poll(self, now_ns: int) -> None:
        """Take the answer when it is there, or give up when it has not come in time."""
        request = self._request
        if request is None:
            return
        if request.future.done():
            self._request, self.answered_ns = None, now_ns
            done, said = self._read(request)
            self.power = ("on" if request.enable else "off") if done else "unknown"
            if done and request.width_m is not None:
                self._reopen = (max(0.0, request.width_m), now_ns, self._node.now_ns())
            request.answer.set_result((done, said))
        elif now_ns >= request.deadline_ns:
            self._request = None
            self._client.remove_pending_request(request.future)
            self.power = "unknown"
            request.answer.set_result((False, f"no answer within {self._timeout_s:g} s"))

    def measured(self, sample: ArmSample, now_ns: int) -> str:
        """Take note of a measurement; says what became of the gripper when that is settled.

        Only what was measured after the motors were on counts: before, somebody may have moved the arm.
        """
        if self._reopen is not None:
            width_m, since_ns, stamped_from_ns = self._reopen
            if sample.stamp_ns >= stamped_from_ns:
                self.hold = Hold(q=sample.q, width_m=width_m, from_ns=now_ns)
                self._reopen = None
            elif now_ns - since_ns > HOLD_AT_MOST_S * 1e9:
                self._reopen = None
                return "the gripper was not brought back: the arm's stamps are older than this clock"
            return ""
        if self.hold is None:
            return ""
        held_s, width_m = (now_ns - self.hold.from_ns) / 1e9, self.hold.width_m
        back = abs(sample.width_m - width_m) <= REOPENED_M
        if held_s < HOLD_AT_LEAST_S or (not back and held_s < HOLD_AT_MOST_S):
            return ""
        self.hold = None
        text = f"it was {width_m * 1e3:.1f} mm open and is {sample.width_m * 1e3:.1f} mm"
        return f"the gripper is back: {text}" if back else f"the gripper did not come back: {text}"

    def _read(self, request: _Request) -> tuple[bool, str]:
        response = request.future.result()
        done = bool(response.enable_response if self._piper_ros else response.success)
        word = "on" if request.enable else "off"
        said = "" if self._piper_ros else f": {response.message}"
        return done, f"the motors are {word}" if done else f"the motors did not go {word}{said}"

"""Settings of a replay: section ``replay`` of the session configuration."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySettings:
    """How a recorded episode is replayed; workspace, speed and joint limits are those of ``teleop``.

    Attributes:
        approach_rad_s: Fastest joint on the way to the first pose.
        approach_gripper_m_s: Speed of the gripper's width there.
        settle_s: How long the arm stands at the first pose before the replay, and at the last one after.
        tether_m: The replay stops when limits hold the command further than this behind its target.
        tether_rad: The same for rotation.
        trail_rad: The replay stops when a joint is further than this from its command: something holds it.
    """

    approach_rad_s: float = 0.3
    approach_gripper_m_s: float = 0.05
    settle_s: float = 0.5
    tether_m: float = 0.02
    tether_rad: float = 0.2
    trail_rad: float = 0.3

    def __post_init__(self) -> None:
        names = ("approach_rad_s", "approach_gripper_m_s", "tether_m", "tether_rad", "trail_rad")
        for name in names:
            if not 0.0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be above 0 (got {getattr(self, name)})")
        if not 0.0 <= self.settle_s < math.inf:
            raise ValueError(f"settle_s must not be negative (got {self.settle_s})")

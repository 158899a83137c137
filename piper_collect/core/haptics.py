"""What the operator feels in his hand when something he asked for was done, or was not."""

from dataclasses import dataclass

from piper_collect.core.operator_actions import Request
from piper_collect.core.quest import Hand


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulse:
    """One pulse of a controller; those given together are played one after another.

    Attributes:
        hand: Which controller.
        intensity: 0 to 1.
        duration_s: How long.
    """

    hand: Hand
    intensity: float
    duration_s: float


def tick(hand: Hand) -> tuple[Pulse, ...]:
    """A touch: the grip took hold, or a button that must be held began to count."""
    return (Pulse(hand=hand, intensity=0.3, duration_s=0.03),)


def answer(request: Request, hand: Hand, *, success: bool) -> tuple[Pulse, ...]:
    """One pulse for a start, two for what is kept, a long one for what is gone, three for a refusal."""
    if not success:
        return refusal(hand)
    if request is Request.START:
        return (Pulse(hand=hand, intensity=0.8, duration_s=0.15),)
    if request is Request.STOP:
        return (Pulse(hand=hand, intensity=0.8, duration_s=0.1),) * 2
    if request is Request.HOME:
        return (Pulse(hand=hand, intensity=0.5, duration_s=0.2),)
    return (Pulse(hand=hand, intensity=0.6, duration_s=0.5),)


def refusal(hand: Hand) -> tuple[Pulse, ...]:
    """It was not done."""
    return (Pulse(hand=hand, intensity=1.0, duration_s=0.06),) * 3


def let_go(hand: Hand) -> tuple[Pulse, ...]:
    """The arm stopped following although the grip is held."""
    return (Pulse(hand=hand, intensity=1.0, duration_s=0.25),) * 2

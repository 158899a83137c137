"""The one exception tree: every message says what, where, expected, got, and what to do."""

from collections.abc import Iterable
from difflib import get_close_matches


class PiperCollectError(Exception):
    """Base of all errors that a person can act on.

    Args:
        what: One sentence that says what is wrong.
        where: File, topic, episode or key it was found in.
        expected: What would have been right.
        got: What was there instead.
        hint: What to do about it.
        valid: The valid choices; the nearest to ``got`` is named first.
    """

    def __init__(
        self,
        what: str,
        *,
        where: object = None,
        expected: object = None,
        got: object = None,
        hint: str | None = None,
        valid: Iterable[str] | None = None,
    ) -> None:
        self.what = what
        self.where = where
        self.expected = expected
        self.got = got
        self.hint = hint
        self.valid = tuple(valid) if valid is not None else None
        super().__init__(self._one_line())

    def _one_line(self) -> str:
        text = self.what if self.where is None else f"{self.where}: {self.what}"
        facts = []
        if self.expected is not None:
            facts.append(f"expected {self.expected}")
        if self.got is not None:
            facts.append(f"got {self.got}")
        if facts:
            text += f" ({', '.join(facts)})"
        if self.valid is not None:
            near = get_close_matches(str(self.got), self.valid, n=1, cutoff=0.5)
            text += f"; did you mean {near[0]!r}?" if near else ""
            text += f" Valid: {', '.join(self.valid) if self.valid else 'none'}."
        if self.hint:
            text += f" -> {self.hint}"
        return " ".join(text.split())


class ConfigError(PiperCollectError):
    """The session YAML, a profile or a command line option is wrong."""


class UsageError(ConfigError):
    """The words of a command line are wrong by themselves, whatever lies on the disk."""


class BagError(PiperCollectError):
    """A bag cannot be read or written, or not all of it."""


class ImageError(PiperCollectError):
    """An image message cannot be decoded to the pixels it claims to hold."""


class AlignmentError(PiperCollectError):
    """The streams of an episode cannot be aligned as the policy demands."""


class DatasetError(PiperCollectError):
    """A dataset root cannot be read, continued or written."""


class DatasetLockError(DatasetError):
    """A dataset cannot be had for writing: another process has it, or the folder cannot be written."""


class KinematicsError(PiperCollectError):
    """A pose or joint vector is not one the arm can have."""


class SessionError(PiperCollectError):
    """A recording session cannot start, go on or end as asked."""


class ArmError(PiperCollectError):
    """The arm cannot be reached, or does not do as it is told."""


class LinkError(PiperCollectError):
    """The headset's page cannot be served, or said something that it may not."""

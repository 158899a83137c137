"""Whether the newest bag of a session may be deleted, and what goes with it out of the dataset."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedBag:
    """A bag, by what a dataset remembers of it.

    Attributes:
        session: Name of its session.
        bag: Name of its folder.
        content_hash: Hash of its content; empty when unknown.
    """

    session: str
    bag: str
    content_hash: str

    def is_same(self, other: "RecordedBag") -> bool:
        """Whether both are one recording: by content, and by their names only where no content is known."""
        if self.content_hash and other.content_hash:
            return self.content_hash == other.content_hash
        return bool(self.session) and (self.session, self.bag) == (other.session, other.bag)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """What deleting the newest bag comes to.

    Attributes:
        episodes: Numbers of the dataset's last episodes that were made of it and go with it; mostly one,
            none when the dataset does not hold it, several when it was split.
        refusal: Why nothing may be deleted; empty when it may.
    """

    episodes: tuple[int, ...] = ()
    refusal: str = ""


def decide_deletion(newest: RecordedBag, held: Sequence[RecordedBag]) -> Deletion:
    """Decide on the newest saved bag of the current session.

    Args:
        newest: The bag.
        held: What each episode of the dataset was made of, by episode number from 0; empty without a
            dataset.

    Returns:
        The bag alone, the bag and the dataset's last episodes, or a refusal: an episode before the last
        cannot go without changing the numbers of those after it.
    """
    made = [index for index, bag in enumerate(held) if newest.is_same(bag)]
    if made != list(range(len(held) - len(made), len(held))):
        after = len(held) - 1 - made[-1]
        where = f"episode {made[0]}" if len(made) == 1 else f"episodes {', '.join(map(str, made))}"
        later = f"{after} more after it" if after else "others between"
        return Deletion(refusal=f"the dataset holds {newest.bag} as {where}, with {later}")
    return Deletion(episodes=tuple(made))

"""The episodes of one bag into the dataset."""

from collections.abc import Mapping
from dataclasses import dataclass

from piper_collect.core.types import Episode
from piper_collect.dataset.stage import EpisodeExtras, EpisodeIdentity
from piper_collect.dataset.writer import DatasetWriter, SavedEpisode
from piper_collect.errors import DatasetError
from piper_collect.pipelines.prepare import PreparedBag, Tell, encoding_progress


@dataclass(frozen=True, slots=True, kw_only=True)
class BagSaver:
    """Puts the episodes of one bag into the dataset.

    Attributes:
        writer: The dataset's.
        identity: Of the bag.
        session: Record of its session.
        tell: Told how far it is.
    """

    writer: DatasetWriter
    identity: EpisodeIdentity
    session: Mapping[str, object]
    tell: Tell

    def save(self, prepared: PreparedBag, *, replace: bool) -> list[SavedEpisode]:
        """Save every part that the dataset does not hold; with ``replace`` those that it holds too, in place.

        Parts that could not be prepared are left out.

        Raises:
            DatasetError: It holds another number of parts of this bag.
        """
        parts = prepared.parts
        held = self.writer.held(self.identity.content_hash)
        if held.by_part and held.parts != len(parts):
            raise DatasetError(
                f"the dataset holds this bag as {held.parts} episodes, and it would now be {len(parts)}",
                where=self.writer.root,
                got=self.identity.bag,
                hint="delete those first, or split it as before",
            )
        saved = []
        for part, extras in zip(parts, prepared.extras, strict=False):
            index = held.by_part.get(part.part)
            if index is None or replace:
                saved.append(self._one(prepared, part, extras, index))
        return saved

    def _one(
        self, prepared: PreparedBag, part: Episode, extras: EpisodeExtras, index: int | None
    ) -> SavedEpisode:
        progress = encoding_progress(self.tell, part, prepared.parts, self.writer.profile.video)
        if index is not None:
            return self.writer.replace_episode(
                index,
                part,
                identity=self.identity,
                session_record=self.session,
                extras=extras,
                progress=progress,
            )
        return self.writer.add_episode(
            part, identity=self.identity, session_record=self.session, extras=extras, progress=progress
        )

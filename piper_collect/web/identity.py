"""Who this machine is to a browser: the names it goes by, and its certificate."""

from pathlib import Path

from piper_collect.config.quest_settings import QuestSettings
from piper_collect.web.addresses import own_addresses, own_names
from piper_collect.web.certificate import ensure_certificate


def served_names(settings: QuestSettings) -> tuple[str, ...]:
    """Host names that pages may be opened by, in lower case."""
    return (*own_names(), *(name.lower() for name in settings.names))


def identity(settings: QuestSettings) -> tuple[tuple[str, ...], Path, Path | None]:
    """Names, the certificate's file, and the key's where that has one of its own.

    Raises:
        LinkError: A certificate of our own cannot be kept.
    """
    names = served_names(settings)
    if settings.certificate:
        return names, Path(settings.certificate).expanduser(), _path(settings.key)
    folder = Path(settings.certificate_dir).expanduser()
    return names, ensure_certificate(folder, (*names, *own_addresses())), None


def _path(text: str) -> Path | None:
    return Path(text).expanduser() if text else None

"""The key that opens the desk's page from another machine: short enough to type, too long to guess."""

import hmac
import secrets

_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"  # none that is taken for another
_LENGTH = 12  # 59 bits


def new_key() -> str:
    """A key for one session."""
    return "".join(secrets.choice(_LETTERS) for _ in range(_LENGTH))


def same_key(key: str, given: str) -> bool:
    """Whether ``given`` is the key, however it was typed; the time does not tell how much is right."""
    typed = "".join(letter for letter in given.lower() if letter.isalnum())
    return hmac.compare_digest(key.encode(), typed.encode())

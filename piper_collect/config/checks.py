"""Checks that the sections of the configuration share."""

import re

NAME = r"[A-Za-z_][A-Za-z0-9_]*(/[A-Za-z_][A-Za-z0-9_]*)*"
"""A ROS name without its leading slash."""


def check_topic(setting: str, topic: str) -> None:
    """Refuse what can be no topic.

    Raises:
        ValueError: Names the setting.
    """
    if not re.fullmatch(f"/?{NAME}", topic):
        raise ValueError(
            f"{setting} is no topic name: words of letters, digits and _ with / between (got {topic!r})"
        )


def check_positive(settings: object, *names: str) -> None:
    """Refuse a setting of ``names`` that is not above 0 (ValueError)."""
    for name in names:
        if not getattr(settings, name) > 0:
            raise ValueError(f"{name} must be above 0 (got {getattr(settings, name)})")


def check_not_negative(settings: object, *names: str) -> None:
    """Refuse a setting of ``names`` that is below 0 (ValueError)."""
    for name in names:
        if not getattr(settings, name) >= 0:
            raise ValueError(f"{name} must not be below 0 (got {getattr(settings, name)})")


def check_address(host: str, port: int) -> None:
    """Refuse what no server can listen on (ValueError)."""
    if not 0 <= port <= 65535:
        raise ValueError(f"port must be from 0 to 65535 (got {port})")
    if not host.strip():
        raise ValueError("host is empty (expected an address such as 127.0.0.1 or 0.0.0.0)")

"""A profile as far as a session's sources feed it."""

from collections.abc import Container
from dataclasses import replace

from piper_collect.config.column_spec import ColumnSpec
from piper_collect.config.profile import Profile
from piper_collect.errors import ConfigError


def fitted_profile(profile: Profile, sources: Container[str]) -> Profile:
    """``profile`` without those optional columns that no source feeds, and those made from them.

    Args:
        profile: Columns.
        sources: Sources of a session's configuration.

    Raises:
        ConfigError: Something else in the profile needs a column that is left out.
    """
    gone = {c.key for c in profile.columns if c.optional and c.source and c.source not in sources}
    kept = tuple(
        c for c in profile.columns if c.key not in gone and not (c.optional and _made_from(c) & gone)
    )
    if len(kept) == len(profile.columns):
        return profile
    try:
        return replace(profile, columns=kept)
    except (ValueError, ConfigError) as err:
        left = ", ".join(sorted(gone))
        raise ConfigError(
            f"without a source for {left} it does not hold together: {err}", where=f"profile {profile.name}"
        ) from err


def _made_from(column: ColumnSpec) -> set[str]:
    return {*column.concat, *(part.column for part in column.parts)}

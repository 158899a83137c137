"""Inputs spoilt at random: seeded and few by default, more by ``PIPER_COLLECT_FUZZ``."""

import os

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

SCALE = int(os.environ.get("PIPER_COLLECT_FUZZ", "1"))
"""How many times as many inputs are tried; above 1 they differ from run to run, too."""


def fuzzed(examples: int) -> settings:
    """Settings of a test that tries so many inputs, the same ones in each run unless more are asked for."""
    return settings(
        max_examples=examples * SCALE,
        deadline=None,
        derandomize=SCALE == 1,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


def spoilt(content: bytes, words: tuple[bytes, ...] = ()) -> st.SearchStrategy[bytes]:
    """``content`` with one to six places put over, grown, cut out or repeated, by noise or by ``words``."""
    noise = st.binary(min_size=1, max_size=9)
    edit = st.tuples(
        st.sampled_from(["put", "insert", "cut", "end", "repeat"]),
        st.floats(0, 1),
        st.one_of(noise, st.sampled_from(words)) if words else noise,
    )
    return st.lists(edit, min_size=1, max_size=6).map(lambda edits: _edited(content, edits))


def _edited(content: bytes, edits: list[tuple[str, float, bytes]]) -> bytes:
    for kind, share, noise in edits:
        at = int(share * len(content))
        before, after = content[:at], content[at:]
        content = {
            "put": before + noise + after[len(noise) :],
            "insert": before + noise + after,
            "cut": before + after[len(noise) :],
            "end": before,
            "repeat": before + after[:40] * 3 + after[40:],
        }[kind]
    return content

"""Names of sessions and episodes."""

from datetime import datetime

import pytest

from piper_collect.core.naming import episode_name, session_name, task_slug


@pytest.mark.parametrize(
    ("task", "slug"),
    [
        ("Pick the cube!", "pick_the_cube"),
        ("  a/b\\..//c ", "a_b_c"),
        ("抓取 red", "抓取_red"),
        ("\n\t?!", "untitled"),
        ("x" * 60, "x" * 48),
        ("word " * 12, "word_word_word_word_word_word_word_word_word_wor"),
    ],
)
def test_a_slug_is_a_safe_short_folder_name(task: str, slug: str) -> None:
    assert task_slug(task) == slug


def test_session_and_episode_names() -> None:
    assert session_name("Pick it", datetime(2026, 1, 2, 3, 4, 5)) == "pick_it_20260102_030405"
    assert episode_name(3) == "episode_000003"

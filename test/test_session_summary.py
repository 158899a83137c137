"""What a session left on the disk, told when it ends."""

import json

import pytest

from piper_collect.bag.session_folder import recorded_seconds
from piper_collect.pipelines.session_summary import saved_sessions, sessions_in, told

NS = 1_000_000_000


def session(root, name, yaml="session: {}\n"):
    folder = root / name
    folder.mkdir(parents=True)
    (folder / "session.yaml").write_text(yaml)
    return folder


def episode(folder, index, seconds, lost=(0, 0), reasons=()):
    path = folder / f"episode_{index:06d}" / "episode.json"
    path.parent.mkdir()
    record = {
        "episode_start_ns": 10 * NS,
        "episode_end_ns": 10 * NS + round(seconds * NS),
        "topics": {f"/t{k}": {"lost": n} for k, n in enumerate(lost)},
        "incomplete_reasons": list(reasons),
    }
    path.write_text(json.dumps(record))


def test_only_what_is_new_and_of_this_configuration_counts(tmp_path):
    assert sessions_in(tmp_path / "nowhere") == frozenset()
    old = session(tmp_path, "stack_1")
    episode(old, 0, 5.0)
    before = sessions_in(tmp_path)
    assert before == {"stack_1"}
    episode(session(tmp_path, "stack_2"), 0, 5.0)
    episode(session(tmp_path, "other_rig", "session: {task: sort}\n"), 0, 5.0)
    (found,) = saved_sessions(tmp_path, before, "session: {}\n")
    assert found.path == tmp_path / "stack_2"
    assert saved_sessions(tmp_path, before, "session: {task: none}\n") == ()


def test_the_lines_say_how_many_how_long_what_is_lost_and_where(tmp_path):
    folder = session(tmp_path, "stack_1")
    episode(folder, 0, 4.25)
    episode(folder, 2, 8.0, lost=(3, 4), reasons=("/t0: 3 messages lost", "/t1: 4 messages lost"))
    left = folder / ".recording" / "episode_000003"
    left.mkdir(parents=True)
    assert told(saved_sessions(tmp_path, (), "session: {}\n")) == [
        f"saved 2 episodes, 12.2 s, 7 messages lost: {folder}",
        "  episode_000002 is INCOMPLETE: /t0: 3 messages lost; /t1: 4 messages lost",
        f"  never finished, and kept: {left} (piper-collect recover makes an episode of it)",
    ]


def test_one_episode_is_one_and_none_is_said(tmp_path):
    folder = session(tmp_path, "stack_1")
    episode(folder, 0, 1.0)
    assert told(saved_sessions(tmp_path, (), "session: {}\n")) == [
        f"saved 1 episode, 1.0 s, 0 messages lost: {folder}"
    ]
    assert told(()) == ["no episode was saved"]


@pytest.mark.parametrize("set_s", [3600, -3600])
def test_an_episode_in_which_the_clock_was_set_is_as_long_as_it_is(set_s):
    step = {"step_ns": set_s * NS, "old_until_ns": 11 * NS, "new_from_ns": (11 + set_s) * NS}
    record = {"episode_start_ns": 10 * NS, "episode_end_ns": (15 + set_s) * NS, "clock_steps": [step]}
    assert recorded_seconds(record) == 5.0

"""bench/soak.py: a few episodes in which something fails, and what it finds where something is lost."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="rclpy does not import here: the nodes need ROS 2", exc_type=ImportError)

from recover_cases import Studio, arm_rows

from bench._soak_cell import Life
from bench._soak_check import ARM_TOPICS, Truth, check

ROOT = Path(__file__).parents[1]
MINUTES = os.environ.get("PIPER_COLLECT_SOAK", "")
"""How long everything may go wrong; without it two things do, once each."""

SHORT = ("--every", "4", "--episodes", "2", "--faults", "kill-camera", "kill-recorder")
ALWAYS_MARKED = ("kill-camera", "kill-arm", "kill-recorder", "interrupt-recorder", "full-disk")


@pytest.mark.nodes
def test_nothing_is_lost_unsaid_in_a_session_in_which_things_go_wrong(tally):
    form = ("--minutes", MINUTES) if MINUTES else SHORT
    done = subprocess.run(
        [sys.executable, "-m", "bench", "soak", *form], cwd=ROOT, capture_output=True, text=True
    )
    assert done.stdout, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    # how much a recorder had not flushed is held to a second where its queues are bounded: test_recover_kills
    missed = [goal for goal, met in result["goals"].items() if not met and "ended recorder" not in goal]
    assert missed == [], result
    rows = {row["fault"]: row for row in result["table"]}
    assert MINUTES or set(rows) == {"kill-camera", "kill-recorder"}
    assert all(row["published"] > 0 for row in rows.values() if row["kept"])
    for row in rows.values():
        if row["fault"] in ALWAYS_MARKED:
            assert row["marked"] == row["kept"] == row["episodes"], row
    tally("episodes", result["totals"]["episodes"])
    tally("messages checked", result["totals"]["published"])


# -- the check itself ------------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path):
    """A saved episode of three topics, and the truth log that fits it."""
    episode = Studio(tmp_path / "root").save(20)
    life = Life("arm", None, tmp_path / "truth")
    life.truth.mkdir()
    stamps = [at - 1_000_000 for topic, at, _ in arm_rows(20) if topic == ARM_TOPICS[0]]
    return episode, life, stamps


def found(saved, stamps, **changes):
    episode, life, _ = saved
    (life.truth / "joints.csv").write_text("stamp_ns\n" + "".join(f"{stamp}\n" for stamp in stamps))
    path = episode / "episode.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, **changes}))
    finding = check(episode, Truth(), [life])
    return finding.published, finding.missing, finding.untold, finding.foreign


def test_what_is_in_the_bag_is_not_missing(saved):
    assert found(saved, saved[2]) == (40, 0, 0, 0)


def test_what_is_not_in_the_bag_is_untold_unless_it_is_counted_or_named(saved):
    more = [*saved[2], saved[2][-1] + 1, saved[2][-1] + 2]
    counts = json.loads((saved[0] / "episode.json").read_text())["topics"]
    assert found(saved, more) == (44, 4, 4, 0)
    one = {topic: {**counts[topic], "lost": 1} for topic in ARM_TOPICS}
    assert found(saved, more, topics=one) == (44, 4, 2, 0)
    reasons = [f"{topic}: its publisher restarted 1 times" for topic in ARM_TOPICS]
    assert found(saved, more, topics=counts, incomplete_reasons=reasons) == (44, 4, 0, 0)
    assert found(saved, more, incomplete_reasons=[], outcome="interrupted") == (44, 4, 0, 0)


def test_what_nobody_published_is_foreign(saved):
    assert found(saved, saved[2][1:]) == (38, 0, 0, 2)

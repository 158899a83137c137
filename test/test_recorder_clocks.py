"""The recorder and clocks: sources whose clock is wrong, and a step of its own machine's clock."""

import json
import re
from dataclasses import replace
from functools import partial

import pytest
from clock_site import SetClock
from recorder_studio import JOINTS, TARGET, Studio, config_of
from ros_support import one_session

from piper_collect.config.profile import load_profile
from piper_collect.pipelines.bag_episodes import ExportOptions
from piper_collect.pipelines.export import export


def test_an_episode_in_which_the_clock_was_set_is_marked_and_says_by_how_much(rig, tmp_path):
    clock = SetClock(tmp_path)
    studio = Studio(rig, config_of(rig.folder / "recordings"), clock=clock)
    studio.record(5)
    studio.ready()
    assert studio.start().success
    studio.feed(5)
    clock.set(-700_000_000)
    studio.feed(5)
    clock.set(-650_000_000)
    studio.feed(5)
    answer = studio.trigger("stop_episode")
    assert answer.success
    assert "INCOMPLETE: this machine's clock was set (-0.700 s, +0.050 s)" in answer.message

    session = one_session(studio.root)
    records = [json.loads(path.read_text()) for path in sorted(session.glob("episode_*/episode.json"))]
    assert "clock_steps" not in records[0]
    assert records[0]["complete"]
    assert not records[1]["complete"]
    steps = [step["step_ns"] for step in records[1]["clock_steps"]]
    assert steps == [pytest.approx(-700e6, abs=5e6), pytest.approx(50e6, abs=5e6)]
    options = ExportOptions(profile=load_profile("piper"))
    skipped = export([session / "episode_000001"], rig.folder / "ds", options).bags[0]
    assert (skipped.status, "clock was set" in skipped.reason) == ("skipped", True)


def test_a_clock_that_runs_ahead_is_told_and_where_that_is_refused_no_episode_starts(rig):
    config = config_of(rig.folder / "recordings")
    strict = replace(config.sources["arm_joint"], clock="refuse")
    studio = Studio(rig, replace(config, sources={**config.sources, "arm_joint": strict}))
    studio.ready()
    ahead = "after its receipt: its clock runs ahead"

    def until_told(topic):
        studio.ahead_ns = {topic: 300_000_000}
        said = partial(studio.topic, topic)
        studio.rig.until(lambda: ahead in said().reason, "no clock is told", meanwhile=studio.send)

    until_told(TARGET)
    assert studio.start().success
    studio.feed(5)
    assert "INCOMPLETE" not in studio.trigger("stop_episode").message
    until_told(JOINTS)
    refused = studio.start()
    assert not refused.success
    assert re.search(rf"{JOINTS}: stamped \d+ ms {ahead}", refused.message)
    assert TARGET not in refused.message

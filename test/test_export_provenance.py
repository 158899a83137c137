"""What an export keeps beside the rows: the session's record, latencies, intrinsics, the headset's stream."""

import json
from dataclasses import replace

import pytest
from sample_bags import (
    MS,
    START,
    arm_messages,
    arm_status,
    camera_info,
    camera_messages,
    custom,
    quest_input,
    write_bag,
)

from piper_collect.bag.qos import QosProfile
from piper_collect.config.profile import load_profile
from piper_collect.config.schema import CameraSettings, SessionConfig
from piper_collect.pipelines.bag_episodes import ExportOptions
from piper_collect.pipelines.export import export

DAY = 86_400 * 10**9


def bag_of(path, session, *, start=START, firmware="S-V1.8-5", focal=500.0, qos=None):
    messages = list(arm_messages(60, start=start))
    messages += camera_messages("cam", range(2, 300, 33), start=start)
    messages.append(("/arm/status", start + 5, arm_status(start, firmware)))
    for k, t in enumerate(range(0, 400, 14)):
        messages.append(("/quest/input", start + t * MS, quest_input(start + t * MS, k)))
        messages.append(("/cam/camera_info", start + t * MS, camera_info(start + t * MS, focal=focal)))
    losses = json.dumps({"/arm/joint_states": 2, "/quest/input": 1})
    return write_bag(path, messages, custom(session=session, start=start, end_ms=300, losses=losses), qos=qos)


def run(bag, root, **options):
    sources = SessionConfig().sources
    pose = replace(sources["arm_eef"], latency_ms=-4.0)
    config = SessionConfig(
        cameras={"cam": CameraSettings(serial="0123", latency_ms=7.5)}, sources={**sources, "arm_eef": pose}
    )
    options = ExportOptions(profile=load_profile("piper"), config=config, **options)
    (outcome,) = export([bag], root, options).bags
    return outcome


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_the_record_of_the_session_is_whole(tmp_path):
    bag = bag_of(tmp_path / "b", "first", qos={"/arm/joint_states": (QosProfile(),)})
    assert run(bag, tmp_path / "ds").status == "exported"
    (record,) = lines(tmp_path / "ds/meta/collection_sessions.jsonl")
    assert record == json.loads((tmp_path / "ds/meta/collection_meta.json").read_text())
    assert record["session"] == "first"
    assert (record["arm"]["firmware"], record["arm"]["firmware_source"]) == ("S-V1.8-5", "arm/status")
    assert record["cameras"] == {"cam": {"serial": "0123"}}
    assert record["recording"] == {"fps": 30.0}
    assert record["qos"]["/arm/joint_states"] == ["reliable, volatile"]
    assert record["losses"] == {
        "episodes": 1,
        "messages": 3,
        "by_topic": {"/arm/joint_states": 2, "/quest/input": 1},
    }
    (source,) = lines(tmp_path / "ds/meta/episode_sources.jsonl")
    assert source["recording"]["latency_ms"] == {"arm_eef": -4.0, "cam": 7.5}


@pytest.mark.parametrize("strict", [False, True])
def test_a_session_under_other_control_is_warned_of_or_refused(tmp_path, strict):
    root = tmp_path / "ds"
    assert run(bag_of(tmp_path / "a", "first"), root).warning == ""
    other = bag_of(tmp_path / "b", "second", start=START + DAY, firmware="S-V1.9-0")
    outcome = run(other, root, strict_binding=strict)
    if strict:
        assert (outcome.status, len(lines(root / "meta/collection_sessions.jsonl"))) == ("failed", 1)
        assert "arm.firmware S-V1.8-5 -> S-V1.9-0" in outcome.reason
        return
    assert outcome.status == "exported"
    assert "  arm.firmware  S-V1.8-5 -> S-V1.9-0" in outcome.warning.splitlines()
    assert [r["session"] for r in lines(root / "meta/collection_sessions.jsonl")] == ["first", "second"]
    assert json.loads((root / "meta/collection_meta.json").read_text())["session"] == "second"


def test_intrinsics_are_kept_where_they_change_and_the_headset_stream_when_asked(tmp_path):
    root = tmp_path / "ds"
    run(bag_of(tmp_path / "a", "s"), root)
    run(bag_of(tmp_path / "b", "s", start=START + DAY), root, save_raw_quest=True)
    run(bag_of(tmp_path / "c", "s", start=START + 2 * DAY, focal=510.0), root)
    (entries,) = json.loads((root / "extras/cameras.json").read_text()).values()
    assert [(e["from_episode"], e["info"]["k"][0], e["info"]["serial"]) for e in entries] == [
        (0, 500.0, "0123"),
        (2, 510.0, "0123"),
    ]
    assert {p.name for p in (root / "extras").glob("*.quest.jsonl")} == {"episode_000001.quest.jsonl"}
    kept = lines(root / "extras/episode_000001.quest.jsonl")
    # of the whole recording, from its start to its end 300 ms later
    assert [line["header"]["stamp_ns"] for line in kept] == [START + DAY + t * MS for t in range(0, 301, 14)]

"""The provenance record that an export writes: from the recorder, from the arm, from the bag, or null."""

import json
from dataclasses import replace

from sample_bags import MS, START, arm_messages, arm_status, custom, write_bag

from piper_collect.bag.qos import QosProfile, qos_words
from piper_collect.bag.reader import open_bag
from piper_collect.bag.sidecar import read_record
from piper_collect.config.schema import ArmSettings, SessionConfig, SessionSettings
from piper_collect.pipelines.session_record import record_for

CONFIG = SessionConfig(cameras={})
NAMED = replace(CONFIG, arm=ArmSettings(firmware="S-V1.5-2"))
RECORDED = {
    "session": "pick_20260101_120000",
    "arm": {"model": "piper", "firmware": "S-V1.5-2", "firmware_source": "configuration"},
    "control": {"backend": "position", "impedance": {"kp": None}},
}


def record_of(path, config=CONFIG):
    with open_bag(path) as bag:
        return record_for(bag, read_record(bag), config)


def statuses(*firmwares, namespace=""):
    return [
        (f"{namespace}/arm/status", START + k * 100 * MS, arm_status(START + k * 100 * MS, text))
        for k, text in enumerate(firmwares)
    ]


def own(**more):
    return custom(session_record=json.dumps(RECORDED), **more)


def test_the_firmware_that_the_arm_reported_wins_over_the_recorded_and_the_configured_one(tmp_path):
    messages = [*arm_messages(3), *statuses("", "S-V1.8-5", "S-V9.9-9")]
    for name, told in (("own", own()), ("foreign", {})):
        arm = record_of(write_bag(tmp_path / name, messages, told), NAMED)["arm"]
        assert (arm["firmware"], arm["firmware_source"]) == ("S-V1.8-5", "arm/status")
        assert arm["model"] == "piper"


def test_an_arm_that_reports_nothing_leaves_the_firmware_as_it_was_known(tmp_path):
    silent = [*arm_messages(3), *statuses("", "")]
    arm = record_of(write_bag(tmp_path / "own", silent, own()))["arm"]
    assert (arm["firmware"], arm["firmware_source"]) == ("S-V1.5-2", "configuration")
    arm = record_of(write_bag(tmp_path / "named", silent), NAMED)["arm"]
    assert (arm["firmware"], arm["firmware_source"]) == ("S-V1.5-2", "configuration")
    arm = record_of(write_bag(tmp_path / "unknown", silent))["arm"]
    assert (arm["firmware"], arm["firmware_source"]) == (None, None)


def test_the_status_is_looked_for_in_the_namespace_and_only_in_its_own_type(tmp_path):
    rig = replace(CONFIG, session=SessionSettings(namespace="rig"))
    bag = write_bag(tmp_path / "a", [*arm_messages(3), *statuses("S-V1.8-5", namespace="/rig")])
    assert record_of(bag, rig)["arm"]["firmware"] == "S-V1.8-5"
    assert record_of(bag)["arm"]["firmware"] is None
    other = [("/arm/status", r, m) for t, r, m in arm_messages(3) if t == "/arm/joint_states"]
    assert record_of(write_bag(tmp_path / "b", [*arm_messages(3), *other]))["arm"]["firmware"] is None


def test_a_record_from_before_the_source_was_kept_says_null(tmp_path):
    old = {**RECORDED, "arm": {"model": "piper", "firmware": "S-V1.5-2"}}
    bag = write_bag(tmp_path / "b", arm_messages(3), custom(session_record=json.dumps(old)))
    assert record_of(bag)["arm"] == {"model": "piper", "firmware": "S-V1.5-2", "firmware_source": None}


def test_qos_is_what_each_publisher_offered_in_words(tmp_path):
    hasty = QosProfile(reliability="best_effort", deadline_ns=50 * MS)
    offered = {
        "/arm/joint_states": (QosProfile(), hasty),
        "/teleop/target": (QosProfile(durability="transient_local"),),
    }
    bag = write_bag(tmp_path / "b", arm_messages(3), custom(), qos=offered)
    assert record_of(bag)["qos"] == {
        "/arm/flange_pose": None,
        "/arm/joint_states": ["reliable, volatile", "best_effort, volatile, deadline 50 ms"],
        "/teleop/target": ["reliable, transient_local"],
    }
    assert qos_words(()) is None


def test_losses_are_those_of_the_sessions_episodes_beside_the_bag(tmp_path):
    def episode(index, lost, session="pick_20260101_120000"):
        folder = tmp_path / f"episode_{index:06d}"
        told = own(session=session, episode=index, losses=json.dumps({"/a": lost, "/b": 1}))
        write_bag(folder, arm_messages(3), told)
        counts = {"/a": {"lost": lost}, "/b": {"lost": 1}}
        beside = {"session": session, "topics": counts}
        (folder / "episode.json").write_text(json.dumps(beside), encoding="utf-8")
        return folder

    first = episode(0, 4)
    alone = record_of(first)["losses"]
    assert alone == {"episodes": 1, "messages": 5, "by_topic": {"/a": 4, "/b": 1}}
    episode(1, 2)
    episode(2, 100, session="another")
    (episode(3, 50) / "episode.json").write_text("not JSON", encoding="utf-8")
    assert record_of(first)["losses"] == {"episodes": 2, "messages": 8, "by_topic": {"/a": 6, "/b": 2}}


def test_a_bag_that_says_nothing_has_null_for_what_is_unknown(tmp_path):
    made = record_of(write_bag(tmp_path / "b", arm_messages(3)))
    assert made["losses"] is None
    assert (made["input_device"], made["tool_version"]) == (None, None)
    assert made["control"] == {
        "backend": None,
        "impedance": {"kp": None, "kd": None, "t_ff": None, "gravity_ff": None},
    }
    json.dumps(made, allow_nan=False)

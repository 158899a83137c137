"""Bags looked at before an export: each planted fault by its name, and errors are what export refuses."""

import dataclasses
import json
import os
import shutil
import tracemalloc
from collections import Counter

import numpy as np
import pytest
from bag_faults import FAULTS, IMAGES, JOINTS, ONE_CAMERA, TARGET, bag, messages, shifted, without, zero
from dataset_cases import tree
from sample_bags import (
    MS,
    START,
    arm_messages,
    custom,
    joint_state,
    jpeg_image,
    make,
    picture,
    raw_image,
    sample_bag,
    write_bag,
)

from piper_collect.config.load import dump_session
from piper_collect.config.profile import load_profile
from piper_collect.config.schema import CameraSettings, SessionConfig, SessionSettings
from piper_collect.errors import BagError
from piper_collect.pipelines.bag_episodes import ExportOptions
from piper_collect.pipelines.export import export
from piper_collect.pipelines.validate_bag import validate_bag


def kinds(report):
    return Counter((f.level, f.code) for f in report.findings)


def only(report):
    assert len(report.findings) == 1, [str(f) for f in report.findings]
    return report.findings[0]


def test_a_clean_bag_has_its_numbers_and_no_findings(tmp_path):
    report = validate_bag(bag(tmp_path / "episode_000000", messages()))
    assert (report.findings, report.ok) == ((), True)
    facts = report.facts["by_bag"]["episode_000000"]
    assert (facts["storage"], facts["messages"], facts["whole"]) == ("mcap", 378, True)
    assert (facts["task"], facts["outcome"]) == ("pick the cube", "success")
    assert facts["topics"][TARGET] == {
        "type": "piper_collect/msg/TeleopTarget", "messages": 120, "clock": "header", "rate_hz": 200.0,
        "jitter_ms": 0.0, "missing_by_stamps": 0, "longest_gap_ms": 5.0, "offset_ms": 1.0, "drift_ppm": None,
    }  # fmt: skip
    assert facts["images"] == {IMAGES: {"encodings": "jpeg", "sizes": "64×48", "unusable": 0, "decoded": 8}}
    counts = facts["alignment"]
    assert (counts["rows"], counts["slots"], counts["gaps"], counts["dropped"]) == (18, 18, 0, 0)
    assert counts["t0_after_start_s"] == 0.005
    assert counts["age_ms"]["cam"]["max"] < 34
    json.dumps(report.to_json(), allow_nan=False)


def test_nothing_is_written(tmp_path):
    path = bag(tmp_path / "episode_000000", messages())
    before = tree(tmp_path)
    validate_bag(path)
    assert tree(tmp_path) == before


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_is_named_and_an_error_is_what_export_does_not_take(tmp_path, name):
    build, *expected = FAULTS[name]
    expected = [e for e in expected if e is not None]
    path = build(tmp_path / "episode_000000")
    report = validate_bag(path)
    said = [str(f) for f in report.findings]
    assert kinds(report) == Counter((level, code) for level, code, _, _ in expected), said
    for level, code, where, text in expected:
        found = next(f for f in report.findings if (f.level, f.code) == (level, code))
        assert found.where == f"episode_000000{where}"
        assert text in found.text
        assert str(tmp_path) not in found.text
    summary = export([path], tmp_path / "ds", ExportOptions(profile=load_profile("piper")))
    assert report.ok == (summary.bags[0].status == "exported"), summary.bags[0].reason


def test_backward_stamps_are_left_out_and_counted(tmp_path):
    content = shifted(messages(), JOINTS, lambda k: -22 if k in (7, 50, 51) else 0)
    found = only(validate_bag(bag(tmp_path / "b", content)))
    assert (found.level, found.code) == ("warning", "stamps-backwards")
    assert found.text.startswith("3 stamps lie before one received earlier")


def test_drift_of_a_clock(tmp_path):
    content = [
        (n, r, m)
        for n, r, m in shifted(arm_messages(2400), JOINTS, lambda k: -k * 5 * 1000e-6)
        if r % (20 * MS) == START % (20 * MS) + MS
    ]
    config = SessionConfig(cameras={})
    known = custom(end_ms=12_000, session_config=dump_session(config))
    report = validate_bag(write_bag(tmp_path / "b", content, known))
    found = only(report)
    assert (found.level, found.code, found.where) == ("warning", "clock-drift", f"b {JOINTS}")
    assert "1000 ppm slower than the recorder's, 12.0 ms over" in found.text
    assert report.facts["by_bag"]["b"]["topics"][JOINTS]["drift_ppm"] == pytest.approx(1000, abs=1)


def test_rows_that_are_held_are_told_by_the_profile_that_holds(tmp_path):
    path = bag(tmp_path / "b", without(messages(), IMAGES, 200, 400))
    held = validate_bag(path, profile=load_profile("train"))
    assert ("warning", "rows-held") in kinds(held)
    assert held.facts["profile"] == "train"
    assert "cam 4" in next(f for f in held.findings if f.code == "rows-held").text


def test_a_bag_cut_short(tmp_path):
    path = bag(tmp_path / "b", messages(2000))
    storage = next(path.glob("*.mcap"))
    os.truncate(storage, storage.stat().st_size * 3 // 4)
    report = validate_bag(path)
    assert {("error", "truncated"), ("error", "incomplete"), ("warning", "metadata-counts")} <= set(
        kinds(report)
    )
    facts = report.facts["by_bag"]["b"]
    assert facts["whole"] is False
    assert facts["alignment"]["rows"] > 10  # what is there is looked at all the same


def test_storage_that_does_not_agree_with_what_is_said_of_it(tmp_path):
    path = bag(tmp_path / "b", messages())
    record = {"messages_in_bag": {JOINTS: 125, TARGET: 120, "/gone": 3}, "task": " "}
    (path / "episode.json").write_text(json.dumps(record))
    metadata = path / "metadata.yaml"
    metadata.write_text(metadata.read_text().replace("message_count: 18", "message_count: 19"))
    report = validate_bag(path)
    assert kinds(report) == {
        ("warning", "metadata-counts"): 1,
        ("error", "messages-missing"): 2,
        ("warning", "no-task"): 1,
    }
    texts = [f.text for f in report.findings]
    assert "metadata.yaml counts 19 messages on /cam/image_raw/compressed, the storage holds 18." in texts
    assert "the recorder wrote 125 messages, the storage holds 120" in texts
    metadata.unlink()
    assert ("warning", "no-metadata") in kinds(validate_bag(path))
    (path / "episode.json").write_text("{")
    assert ("error", "record-unreadable") in kinds(validate_bag(path))


def test_a_damaged_chunk_is_an_error_and_not_the_end(tmp_path):
    path = bag(tmp_path / "rec" / "episode_000001", messages())
    bag(tmp_path / "rec" / "episode_000000", messages())
    storage = next(path.glob("*.mcap"))
    content = bytearray(storage.read_bytes())
    content[len(content) // 3] ^= 0xFF
    storage.write_bytes(bytes(content))
    report = validate_bag(tmp_path / "rec")
    found = only(report)
    assert (found.level, found.code) == ("error", "damaged")
    assert found.where == "episode_000001"
    assert report.facts["by_bag"]["episode_000000"]["alignment"]["rows"] == 18


def test_what_is_no_bag(tmp_path):
    with pytest.raises(BagError, match="no such path"):
        validate_bag(tmp_path / "nothing")
    with pytest.raises(BagError, match="no bag here"):
        validate_bag(tmp_path)
    (tmp_path / "b.mcap").write_bytes(b"")
    found = only(validate_bag(tmp_path / "b.mcap"))
    assert (found.level, found.code, found.where) == ("error", "unreadable", "b.mcap")
    assert "0 bytes" in found.text


def test_a_bag_without_messages_or_configuration(tmp_path):
    empty = write_bag(tmp_path / "b", [], types={"/a": "sensor_msgs/msg/JointState"})
    assert kinds(validate_bag(empty)) == {
        ("error", "empty"): 1, ("error", "no-config"): 1, ("warning", "no-task"): 1,
    }  # fmt: skip


def test_where_nothing_says_what_matters_stamps_are_told_once(tmp_path):
    def zeros(topics):
        for t in range(0, 100, 10):
            for topic in topics:
                state = joint_state(START, [0.1], names=["a"])
                zero(state)
                yield topic, START + t * MS, state
                yield "/bare", START + t * MS, make("std_msgs/msg/String", "x")

    report = validate_bag(write_bag(tmp_path / "b", zeros(["/x", "/y", "/z"])))
    assert kinds(report)["warning", "stamps-unset"] == 1
    text = next(f.text for f in report.findings if f.code == "stamps-unset")
    assert text == "aligned by receive time: all 10 header stamps are zero (so on 3 topics)"


def test_a_given_configuration_is_used(tmp_path):
    path = write_bag(tmp_path / "b", messages(), custom(end_ms=600))
    assert ("error", "missing-topic") in kinds(validate_bag(path))  # the default has two other cameras
    assert validate_bag(path, ONE_CAMERA).ok


def test_bags_that_do_not_fit_one_dataset(tmp_path):
    slower = dataclasses.replace(ONE_CAMERA, session=SessionSettings(fps=15.0))
    big = (jpeg_image(START + round(t * MS), picture((9, 9, 9), 96, 128)) for t in np.arange(2, 600, 100 / 3))
    images = [
        (IMAGES, START + round(t * MS) + MS, m) for t, m in zip(np.arange(2, 600, 100 / 3), big, strict=True)
    ]
    bag(tmp_path / "r" / "episode_000000", messages())
    bag(tmp_path / "r" / "episode_000001", messages(), config=slower)
    bag(tmp_path / "r" / "episode_000002", messages(images=images))
    bag(tmp_path / "r" / "episode_000003", messages())
    report = validate_bag(tmp_path / "r")
    assert [(f.code, f.where) for f in report.findings] == [
        ("bags-differ", "episode_000001"),
        ("bags-differ", "episode_000002"),
    ]
    assert "its fps is 15.0, that of episode_000000 is 30.0" in report.findings[0].text
    assert report.facts["bags"] == 4


def test_each_bag_is_told_of_once_it_was_looked_at(tmp_path):
    sample_bag(tmp_path / "r" / "s1" / "episode_000000")
    sample_bag(tmp_path / "r" / "s2" / "episode_000000", start=START + 10**10)
    shutil.copytree(tmp_path / "r" / "s1", tmp_path / "r" / ".recording")
    looks = []
    report = validate_bag(tmp_path / "r", on_bag=looks.append)
    assert [look.name for look in looks] == ["s1/episode_000000", "s2/episode_000000"]
    assert [len(look.pictures["cam_wrist"]) for look in looks] == [8, 8]
    assert report.ok
    assert report.facts["rows"] == sum(look.episode.length for look in looks)


def test_images_are_not_held_in_memory(tmp_path):
    config = SessionConfig(cameras={"cam": CameraSettings(transport="raw")})
    stamps = [START + round(t * MS) for t in np.arange(2, 3000, 100 / 3)]
    still = picture((1, 2, 3), 480, 640)
    images = (("/cam/image_raw", t + MS, raw_image(t, still)) for t in stamps)
    known = custom(end_ms=3000, session_config=dump_session(config))
    path = write_bag(tmp_path / "b", [*arm_messages(600), *images], known)
    assert sum(f.stat().st_size for f in path.iterdir()) > 80_000_000
    tracemalloc.start()
    try:
        assert validate_bag(path).ok
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 45_000_000

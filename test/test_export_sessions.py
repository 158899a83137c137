"""Export: sessions under other control, extras, latencies, and where a dataset goes without a name."""

import dataclasses
import json
import re

import pytest
from sample_bags import (
    MS,
    START,
    arm_messages,
    camera_info,
    camera_messages,
    custom,
    quest_input,
    write_bag,
)

from piper_collect.cli import main as cli
from piper_collect.config.load import dump_session
from piper_collect.config.profile import load_profile
from piper_collect.config.schema import CameraSettings, SessionConfig, SessionSettings
from piper_collect.dataset.parquet import column_values
from piper_collect.dataset.reader import open_dataset
from piper_collect.pipelines.bag_episodes import ExportOptions
from piper_collect.pipelines.export import export

NO_CAMERAS = SessionConfig(cameras={})


def record(session, **control):
    known = {"session": session, "arm": {"firmware": "S-V1.8-5"}, "recording": {"fps": 30.0}}
    return json.dumps({**known, "control": {"backend": "position", **control}})


def arm_bag(path, session, start=START, **control):
    said = custom(session=session, start=start, end_ms=300, session_record=record(session, **control))
    return write_bag(path, arm_messages(60, start=start), said)


def run(paths, root, config=NO_CAMERAS, **options):
    return export(paths, root, ExportOptions(profile=load_profile("piper"), config=config, **options))


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_another_controller_is_a_prominent_warning(tmp_path):
    first = arm_bag(tmp_path / "a", "monday")
    second = arm_bag(tmp_path / "b", "tuesday", START + 10**10, backend="impedance")
    summary = run([first, second], tmp_path / "ds")
    assert [b.status for b in summary.bags] == ["exported", "exported"]
    assert summary.bags[0].warning == ""
    assert re.search(r"control\.backend\s+position -> impedance", summary.bags[1].warning)
    assert "fresh dataset root" in summary.bags[1].warning


def test_strict_binding_refuses_it_and_leaves_the_dataset(tmp_path, capsys):
    first = arm_bag(tmp_path / "a", "monday")
    second = arm_bag(tmp_path / "b", "tuesday", START + 10**10, backend="impedance")
    run([first], tmp_path / "ds")
    before = (tmp_path / "ds/meta/info.json").read_bytes()
    refused = run([second], tmp_path / "ds", strict_binding=True)
    assert refused.exit_code == 1
    assert "control.backend position -> impedance" in refused.bags[0].reason
    assert (tmp_path / "ds/meta/info.json").read_bytes() == before


def test_the_warning_goes_to_stderr(tmp_path, capsys):
    settings = tmp_path / "arm_only.yaml"
    settings.write_text(dump_session(NO_CAMERAS), encoding="utf-8")
    first = arm_bag(tmp_path / "a", "monday")
    second = arm_bag(tmp_path / "b", "tuesday", START + 10**10, backend="impedance")
    words = ["export", str(first), str(second), "-o", str(tmp_path / "ds"), "--config", str(settings)]
    assert cli.main(words) == 0
    out, err = capsys.readouterr()
    assert "2 exported" in out
    assert "WARNING: session tuesday" in err


def test_the_same_controller_and_the_same_session_say_nothing(tmp_path):
    bags = [arm_bag(tmp_path / n, s, START + i * 10**10) for i, (n, s) in enumerate(["am", "bm", "ct"])]
    summary = run(bags, tmp_path / "ds")
    assert [b.warning for b in summary.bags] == ["", "", ""]
    assert len(lines(tmp_path / "ds/meta/collection_sessions.jsonl")) == 2


def test_what_one_session_does_not_know_is_a_note(tmp_path):
    bags = [arm_bag(tmp_path / "a", "m"), arm_bag(tmp_path / "b", "t", START + 10**10, backend=None)]
    summary = run(bags, tmp_path / "ds")
    assert summary.bags[1].warning == ""
    assert any("control.backend" in n and "unknown" in n for n in summary.bags[1].notes)


def test_extras_hold_the_headset_and_the_intrinsics(tmp_path):
    messages = list(arm_messages(60))
    messages += camera_messages("cam_front", range(2, 300, 33))
    messages += [("/quest/input", START + k * MS, quest_input(START + k * MS, k)) for k in (1, 50, 290, 400)]
    messages += [("/cam_front/camera_info", START + 2 * MS, camera_info(START + 2 * MS))]
    bag = write_bag(tmp_path / "a", messages, custom(end_ms=300))
    config = SessionConfig(cameras={"cam_front": CameraSettings(width=64, height=48, serial="007")})
    run([bag], tmp_path / "ds", config, save_raw_quest=True)
    quest = lines(tmp_path / "ds/extras/episode_000000.quest.jsonl")
    assert [q["header"]["stamp_ns"] - START for q in quest] == [1 * MS, 50 * MS, 290 * MS]
    cameras = json.loads((tmp_path / "ds/extras/cameras.json").read_bytes())
    (entry,) = cameras["cam_front"]
    assert (entry["from_episode"], entry["info"]["serial"], entry["info"]["width"]) == (0, "007", 64)


def test_headset_input_that_was_not_recorded_is_said(tmp_path):
    summary = run([arm_bag(tmp_path / "a", "m")], tmp_path / "ds", save_raw_quest=True)
    assert "no headset input was recorded, so none is kept" in summary.bags[0].notes
    assert not list((tmp_path / "ds/extras").glob("*.quest.jsonl"))


def test_latencies_are_applied_once_and_recorded(tmp_path):
    sources = {
        key: dataclasses.replace(source, latency_ms=10.0) if key == "arm_joint" else source
        for key, source in NO_CAMERAS.sources.items()
    }
    run([arm_bag(tmp_path / "a", "m")], tmp_path / "ds", dataclasses.replace(NO_CAMERAS, sources=sources))
    run([arm_bag(tmp_path / "b", "m")], tmp_path / "plain")
    (source,) = lines(tmp_path / "ds/meta/episode_sources.jsonl")
    assert source["recording"]["latency_ms"] == {"arm_joint": 10.0}
    late, plain = (
        column_values(open_dataset(tmp_path / name).rows(0), "observation.arm_joint")
        for name in ("ds", "plain")
    )
    # joint1 counts the ticks of 5 ms in steps of 1e-3: feedback that is 10 ms late shows two ticks more
    assert late[0, 0] - plain[0, 0] == pytest.approx(2e-3, abs=1e-7)


def test_without_a_root_the_dataset_gets_the_name_of_the_task(tmp_path):
    session = SessionSettings(root=str(tmp_path / "recordings"))
    config = dataclasses.replace(NO_CAMERAS, session=session)
    summary = run([arm_bag(tmp_path / "a", "m")], None, config, task="Stack the cups, all of them!")
    assert summary.root is not None
    assert summary.root.parent == tmp_path / "recordings"
    assert re.fullmatch(r"stack_the_cups_all_of_them_\d{8}_\d{6}", summary.root.name)
    assert (summary.root / "meta/info.json").is_file()

"""The keys that bind a policy to a controller, compared between sessions; the record; losses summed."""

import json

import pytest

from piper_collect.core.provenance import (
    BINDING_KEYS,
    Binding,
    binding_changes,
    note_text,
    session_record,
    total_losses,
    warning_text,
)


def record(*, backend="impedance", kp=(50.0, 60.0), gravity_ff=True, firmware="S-V1.8-5", fps=30.0, **more):
    impedance = {"kp": list(kp), "kd": [1.0, 1.5], "t_ff": [0.0, 0.0], "gravity_ff": gravity_ff}
    return {
        "session": "pick_20260101_120000",
        "arm": {"model": "piper", "firmware": firmware},
        "control": {"backend": backend, "impedance": impedance},
        "recording": {"fps": fps},
        **more,
    }


def test_the_binding_keys_are_those_of_the_format():
    assert BINDING_KEYS == (
        "control.backend",
        "control.impedance.kp",
        "control.impedance.kd",
        "control.impedance.t_ff",
        "control.impedance.gravity_ff",
        "arm.firmware",
        "recording.fps",
    )


def test_the_same_controller_is_no_change_whatever_else_differs():
    other = record(session="pick_20260102_090000", input_device="meta_quest_3", task="pour")
    comparison = binding_changes(record(), other)
    assert (comparison.changed, comparison.unknown) == ((), ())
    assert warning_text(comparison, "a", "b") == ""
    assert note_text(comparison, "a", "b") == ""


def test_each_change_is_found_with_its_old_and_new_value():
    new = record(backend="position", kp=(50.0, 61.0), gravity_ff=False, firmware="S-V1.9-0", fps=15.0)
    assert binding_changes(record(), new).changed == (
        Binding(key="control.backend", old="impedance", new="position"),
        Binding(key="control.impedance.kp", old=[50.0, 60.0], new=[50.0, 61.0]),
        Binding(key="control.impedance.gravity_ff", old=True, new=False),
        Binding(key="arm.firmware", old="S-V1.8-5", new="S-V1.9-0"),
        Binding(key="recording.fps", old=30.0, new=15.0),
    )


@pytest.mark.parametrize("name", ["kp", "kd", "t_ff"])
@pytest.mark.parametrize("value", [[1.0], [1.0, 2.0, 3.0], 2.0, "stiff"])
def test_gains_of_another_length_or_kind_are_a_change(name, value):
    new = record()
    new["control"]["impedance"][name] = value
    old_value = record()["control"]["impedance"][name]
    comparison = binding_changes(record(), new)
    assert comparison.changed == (Binding(key=f"control.impedance.{name}", old=old_value, new=value),)


def test_numbers_compare_as_numbers_and_lists_by_value():
    whole = record(kp=(50, 60), fps=30)
    assert binding_changes(record(), whole).changed == ()
    tuples = record()
    tuples["control"]["impedance"]["kp"] = (50.0, 60.0)
    assert binding_changes(record(), tuples).changed == ()
    assert binding_changes(tuples, record(fps=29.97)).changed == (
        Binding(key="recording.fps", old=30.0, new=29.97),
    )


def test_zero_and_false_are_known_values():
    old, new = record(gravity_ff=True), record(gravity_ff=False)
    old["control"]["impedance"]["t_ff"], new["control"]["impedance"]["t_ff"] = [1.5], [0.0]
    comparison = binding_changes(old, new)
    assert [pair.key for pair in comparison.changed] == [
        "control.impedance.t_ff",
        "control.impedance.gravity_ff",
    ]
    assert comparison.unknown == ()


@pytest.mark.parametrize("unknown", [{"firmware": None, "model": "piper"}, {"model": "piper"}, None, "piper"])
def test_what_one_side_does_not_know_is_unknown_and_never_a_change(unknown):
    old, new = record(), record(arm=unknown)
    comparison = binding_changes(old, new)
    assert comparison.changed == ()
    assert comparison.unknown == (Binding(key="arm.firmware", old="S-V1.8-5", new=None),)
    assert binding_changes(new, old).unknown == (Binding(key="arm.firmware", old=None, new="S-V1.8-5"),)
    assert binding_changes(new, record(arm={})) == binding_changes(record(), record())


def test_the_warning_lists_every_key_and_suggests_a_fresh_root():
    new = record(backend="position", kp=(50.0, 61.5), fps=15.0)
    text = warning_text(binding_changes(record(), new), "pick_20260101_120000", "pick_20260102_090000")
    lines = text.splitlines()
    assert lines[0] == lines[-1] == "=" * 78
    assert "WARNING" in lines[1]
    assert "pick_20260101_120000" in text
    assert "pick_20260102_090000" in text
    assert lines[4:7] == [
        "  control.backend       impedance -> position",
        "  control.impedance.kp  [50.0, 60.0] -> [50.0, 61.5]",
        "  recording.fps         30.0 -> 15.0",
    ]
    assert "fresh dataset root" in text
    assert "gravity_ff" not in text


def test_the_note_is_one_line_and_says_which_session_does_not_know():
    old, new = record(firmware=None), record()
    del new["control"]["impedance"]["kp"]
    del new["recording"]
    assert note_text(binding_changes(old, new), "first", "second") == (
        "cannot be compared, because unknown: arm.firmware of session first; "
        "control.impedance.kp, recording.fps of session second"
    )


def test_a_record_has_null_for_what_is_unknown():
    made = session_record(
        session="s",
        started_ns=7,
        input_device="",
        arm={"model": "piper", "firmware": "", "firmware_source": None},
        control={"backend": "position", "impedance": {"kp": (), "kd": (1.0,), "gravity_ff": False}},
        cameras={"cam": {"serial": ""}},
        fps=30.0,
        task="pick",
        tool_version="0.1.0",
        config_sha256="00",
    )
    assert json.loads(json.dumps(made, allow_nan=False)) == {
        "session": "s",
        "started_ns": 7,
        "task": "pick",
        "input_device": None,
        "arm": {"model": "piper", "firmware": None, "firmware_source": None},
        "control": {"backend": "position", "impedance": {"kp": None, "kd": [1.0], "gravity_ff": False}},
        "cameras": {"cam": {"serial": None}},
        "recording": {"fps": 30.0},
        "tool_version": "0.1.0",
        "config_sha256": "00",
    }


def test_losses_are_summed_over_episodes_and_topics():
    assert total_losses([{"/b": 2, "/a": 0}, {"/b": 3}, {}, {"/c": None}]) == {
        "episodes": 2,
        "messages": 5,
        "by_topic": {"/a": 0, "/b": 5},
    }


def test_losses_that_nobody_counted_are_unknown_and_not_zero():
    assert total_losses([{}, {"/a": None}]) is None
    assert total_losses([]) is None

"""Devices from the command line: which are used, and what changes with them to stay true."""

import argparse
import re
from dataclasses import replace

import pytest

from piper_collect.cli.main import main
from piper_collect.config.load import load_session, override_session
from piper_collect.config.override import DeviceWords, device_choices, switch
from piper_collect.config.schema import (
    CameraSettings,
    ControlSettings,
    DeviceSettings,
    ImpedanceSettings,
    SessionConfig,
)
from piper_collect.errors import ConfigError

DEFAULT = load_session("default")
FRONT, WRIST = "/camera/cam_front/color/image_raw", "/camera/cam_wrist/color/image_raw"


def real() -> SessionConfig:
    """A session with a real arm in impedance control, real cameras, and a person."""
    return replace(
        DEFAULT,
        session=replace(DEFAULT.session, input_device="meta_quest_3"),
        devices=DeviceSettings(arm="can", cameras="realsense", operator="quest"),
        arm=replace(DEFAULT.arm, firmware="S-V1.8-5"),
        control=ControlSettings(
            backend="impedance", impedance=ImpedanceSettings(kp=(10.0,) * 6, kd=(0.8,) * 6)
        ),
        cameras={
            "cam_front": CameraSettings(topic=FRONT, serial="8316"),
            "cam_wrist": CameraSettings(topic=WRIST, serial="8317", transport="raw"),
        },
    )


def overridden(config: SessionConfig, **words: object) -> SessionConfig:
    return override_session(config, devices=DeviceWords(**words))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ({}, ("can", "realsense", "quest")),
        ({"sim": True}, ("sim", "sim", "sim")),
        ({"sim": True, "operator": "quest"}, ("sim", "sim", "quest")),
        ({"sim": True, "arm": "can"}, ("can", "sim", "sim")),
        ({"arm": "none", "cameras": "none", "operator": "none"}, ("none", "none", "none")),
    ],
)
def test_a_word_wins_over_sim_and_sim_over_the_file(words, expected):
    devices = overridden(real(), **words).devices
    assert (devices.arm, devices.cameras, devices.operator) == expected


def test_nothing_else_changes_where_the_devices_do_not():
    assert overridden(real()) == real()
    assert overridden(real(), arm="can", cameras="realsense", operator="quest") == real()
    assert overridden(DEFAULT, sim=True) == DEFAULT


def test_a_rehearsal_does_not_pass_for_the_real_thing():
    rehearsal = overridden(real(), sim=True)
    assert rehearsal.control == ControlSettings(backend="simulated")
    assert rehearsal.arm.firmware == ""
    assert rehearsal.session.input_device == "simulated_quest"
    assert [camera.serial for camera in rehearsal.cameras.values()] == ["", ""]
    assert [camera.topic for camera in rehearsal.cameras.values()] == [FRONT, WRIST]
    assert rehearsal.arm.dh_offset == real().arm.dh_offset
    assert rehearsal.sources == real().sources


def test_real_devices_take_the_place_of_simulated_ones():
    config = overridden(DEFAULT, arm="can", cameras="realsense", operator="quest")
    assert config.control.backend == "position"
    assert config.session.input_device == ""
    assert {name: (c.topic, c.serial) for name, c in config.cameras.items()} == {
        "cam_front": (FRONT, ""),
        "cam_wrist": (WRIST, ""),
    }


def test_only_what_belongs_to_a_device_changes_with_it():
    config = overridden(real(), operator="none")
    assert config.control == real().control
    assert config.cameras == real().cameras
    assert config.session.input_device == ""
    assert overridden(real(), cameras="none").cameras == real().cameras
    assert overridden(real(), arm="none").control == real().control


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ({"arm": "snim"}, "devices.arm: not a valid choice (got snim); did you mean 'sim'?"),
        ({"cameras": "webcam"}, "Valid: sim, realsense, none."),
        ({"operator": "keys"}, "Valid: sim, quest, none."),
    ],
)
def test_a_word_that_is_none_is_refused_with_those_that_are(words, expected):
    with pytest.raises(ConfigError) as caught:
        overridden(DEFAULT, **words)
    assert expected in str(caught.value)


def test_a_configuration_that_does_not_fit_the_devices_is_refused():
    with pytest.raises(ConfigError, match=r"bridge needs arm\.preset: piper_collect"):
        overridden(load_session("piper_ros_realsense"), arm="bridge")


def test_the_choices_are_those_of_the_configuration():
    assert device_choices("arm") == ("sim", "can", "bridge", "none")


@pytest.mark.parametrize(
    ("word", "value"),
    [("", None), ("true", True), ("True", True), ("1", True), ("false", False), ("0", False)],
)
def test_a_switch_is_on_off_or_not_said(word, value):
    assert switch("rviz", word) is value


def test_a_switch_that_is_neither_is_refused():
    with pytest.raises(ConfigError, match=r"rviz: neither on nor off \(got perhaps\) Valid: true, false"):
        switch("rviz", "perhaps")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--arm", "snim"], "--arm: not a valid choice (got snim)"),
        (["--cameras", "webcam"], "Valid: sim, realsense, none."),
        (["--operator", "quset"], "did you mean 'quest'?"),
    ],
)
def test_record_refuses_a_bad_word_as_usage(tmp_path, capsys, words, expected):
    assert main(["record", "--root", str(tmp_path), *words]) == 2
    error = capsys.readouterr().err
    assert error.startswith("usage: ")
    assert expected in error.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []


def test_record_refuses_devices_that_the_file_is_not_made_for_in_one_line(tmp_path, capsys):
    words = ["--config", "piper_ros_realsense", "--arm", "bridge"]
    assert main(["record", "--root", str(tmp_path), *words]) == 1
    error = capsys.readouterr().err
    assert "bridge needs arm.preset" in error
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_the_help_of_record_names_the_choices():
    from piper_collect.cli.record import add_arguments

    parser = argparse.ArgumentParser()
    add_arguments(parser)
    for device in ("arm", "cameras", "operator"):
        (option,) = [action for action in parser._actions if f"--{device}" in action.option_strings]
        assert tuple(re.findall(r"[a-z]+", option.help.partition(" (")[0].replace("or ", ""))) == (
            device_choices(device)
        )


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--sim", "--quest"], ("sim", "sim", "quest")),
        (["--sim", "--operator", "none"], ("sim", "sim", "none")),
        (["--arm", "can", "--cameras", "none"], ("can", "none", "sim")),
    ],
)
def test_record_takes_the_words(tmp_path, monkeypatch, words, expected):
    from piper_collect.pipelines import record

    started = []
    monkeypatch.setattr(
        record, "run_session", lambda config, **_: started.append(config) or record.SessionEnd()
    )
    assert main(["record", "--root", str(tmp_path), *words]) == 0
    (config,) = started
    assert (config.devices.arm, config.devices.cameras, config.devices.operator) == expected

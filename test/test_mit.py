"""MIT commands: encoding, firmware quirks, the record of gains, the gravity torques."""

import math
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from piper_collect.config.schema import ControlSettings, ImpedanceSettings
from piper_collect.core.gravity import LINK_MASS_KG, GravityModel
from piper_collect.core.kinematics import JOINT_LIMITS_RAD, PiperKinematics
from piper_collect.core.mit import (
    KD_N_M_S_RAD,
    KP_N_M_RAD,
    POSITION_RAD,
    SPEED_RAD_S,
    TORQUE_N_M,
    control_record,
    gains_record,
    impedance_gains,
    mit_commands,
)
from piper_collect.core.piper_firmware import firmware_version, mit_quirks
from piper_collect.errors import ConfigError

KP, KD = (10.0,) * 6, (0.8,) * 6
Q = (0.1, 0.2, -0.3, 0.4, -0.5, 0.6)
RANGES = [POSITION_RAD, SPEED_RAD_S, KP_N_M_RAD, KD_N_M_S_RAD, TORQUE_N_M]


@pytest.mark.parametrize(
    ("known", "value", "number", "arrives"),
    [
        (POSITION_RAD, 0.5, 34078, 0.499924),
        (SPEED_RAD_S, 0.0, 2047, -0.010989),
        (KP_N_M_RAD, 10.0, 81, 9.890110),
        (KD_N_M_S_RAD, 0.8, 2375, 0.799756),
        (TORQUE_N_M, 1.0, 143, 0.972549),
        (TORQUE_N_M, 0.0, 127, -0.031373),
        (TORQUE_N_M, 8.0, 255, 8.0),
        (TORQUE_N_M, -8.0, 0, -8.0),
    ],
)
def test_what_arrives_of_a_number(known, value, number, arrives) -> None:
    assert known.encode(value) == number
    assert known.quantised(value) == pytest.approx(arrives, abs=1e-6)


@given(st.sampled_from(RANGES), st.floats(0, 1))
def test_a_number_arrives_at_most_one_step_smaller(known, share) -> None:
    value = known.low + share * (known.high - known.low)
    step = (known.high - known.low) / ((1 << known.bits) - 1)
    assert 0 <= known.encode(value) < 1 << known.bits
    assert -1e-9 <= value - known.quantised(value) <= step + 1e-9


@pytest.mark.parametrize(
    ("firmware", "flipped", "amplified"),
    [
        ("S-V1.5-2", {1, 2, 4, 6}, {1, 2, 3}),
        ("S-V1.7-2", {1, 2, 4, 6}, {1, 2, 3}),
        ("S-V1.7-3", set(), {1, 2, 3}),
        ("S-V1.8-2", set(), {1, 2, 3}),
        ("S-V1.8-3", set(), set()),
        ("S-V1.8-5", set(), set()),
        ("S-V1.10-1", set(), set()),
        ("S-V2.0-0", set(), set()),
    ],
)
def test_firmware_quirks(firmware, flipped, amplified) -> None:
    quirks = mit_quirks(firmware)
    assert {n for n, sign in enumerate(quirks.signs, 1) if sign == -1.0} == flipped
    assert {n for n, times in enumerate(quirks.torque_gain, 1) if times == 4.0} == amplified
    assert set(quirks.signs) <= {1.0, -1.0}
    assert set(quirks.torque_gain) <= {1.0, 4.0}


@pytest.mark.parametrize("firmware", ["", "S-V", "S-V1.8-", "1.8-5", "S-V1.8-5x", "H-V1.8-5"])
def test_an_unknown_firmware_is_refused_for_impedance(firmware) -> None:
    assert firmware_version(firmware) is None
    with pytest.raises(ConfigError, match=r"arm\.firmware: impedance control needs to know the firmware"):
        mit_quirks(firmware)


def test_commands_of_a_new_firmware_are_as_named() -> None:
    gains = impedance_gains(KP, KD, (0.5,) * 6)
    commands = mit_commands(Q, gains, (1.0,) * 6, mit_quirks("S-V1.8-5"))
    assert [c.position_rad for c in commands] == list(Q)
    assert {(c.speed_rad_s, c.kp, c.kd, c.torque_n_m) for c in commands} == {(0.0, 10.0, 0.8, 1.5)}


def test_commands_of_an_old_firmware_are_turned_and_their_torque_divided() -> None:
    gains = impedance_gains(KP, KD)
    commands = mit_commands(Q, gains, (2.0,) * 6, mit_quirks("S-V1.7-2"))
    assert [c.position_rad for c in commands] == [-0.1, -0.2, -0.3, -0.4, -0.5, -0.6]
    assert [c.torque_n_m for c in commands] == [-0.5, -0.5, 0.5, -2.0, 2.0, -2.0]
    assert {c.kp for c in commands} == {10.0}


def test_a_torque_that_does_not_fit_is_kept_at_the_most() -> None:
    commands = mit_commands(Q, impedance_gains(KP, KD), (0.0, 30.0, -30.0, 0, 0, 0), mit_quirks("S-V1.8-5"))
    assert [c.torque_n_m for c in commands][:3] == [0.0, 8.0, -8.0]
    old = mit_commands(Q, impedance_gains(KP, KD), (0.0, 30.0, -30.0, 0, 0, 30), mit_quirks("S-V1.8-2"))
    assert [c.torque_n_m for c in old] == [0.0, 2.0, -2.0, 0.0, 0.0, 8.0]


@pytest.mark.parametrize(
    ("kp", "kd", "t_ff", "words"),
    [
        ((10.0,) * 5, KD, (), "control.impedance.kp: one gain a joint is needed"),
        ((), (), (), "control.impedance.kp"),
        (KP, (0.8,) * 7, (), "control.impedance.kd"),
        (KP, KD, (1.0,), "control.impedance.t_ff"),
        ((*KP[:5], 500.1), KD, (), "control.impedance.kp, joint6: not a usable gain"),
        (KP, (-0.1, *KD[1:]), (), "control.impedance.kd, joint1"),
        (KP, KD, (0, 0, 0, 0, 0, 8.1), "control.impedance.t_ff, joint6"),
        ((math.nan, *KP[1:]), KD, (), "control.impedance.kp, joint1"),
    ],
)
def test_gains_that_cannot_be_sent_are_refused(kp, kd, t_ff, words) -> None:
    with pytest.raises(ConfigError, match=words):
        impedance_gains(kp, kd, t_ff)


def test_the_record_has_what_was_asked_for_and_what_the_motors_do() -> None:
    new = gains_record(KP, KD, (1.0,) * 6, "S-V1.8-5")
    assert new["requested"] == {"kp": [10.0] * 6, "kd": [0.8] * 6, "t_ff": [1.0] * 6}
    assert new["quantised"]["kp"] == pytest.approx([9.890110] * 6, abs=1e-6)
    assert new["quantised"]["kd"] == pytest.approx([0.799756] * 6, abs=1e-6)
    assert new["quantised"]["t_ff"] == pytest.approx([0.972549] * 6, abs=1e-6)
    old = gains_record(KP, KD, (1.0,) * 6, "S-V1.7-2")["quantised"]["t_ff"]
    # 0.25 N.m arrives as 0.2196, -0.25 as -0.2824, -1 as -1.0353
    assert old == pytest.approx([1.129412, 1.129412, 0.878431, 1.035294, 0.972549, 1.035294], abs=1e-6)
    assert gains_record(KP, KD, (), "")["quantised"]["t_ff"] is None


def test_the_record_of_a_controller_has_its_quantised_gains_where_we_send_them() -> None:
    springs = ImpedanceSettings(kp=KP, kd=KD)
    settings = asdict(ControlSettings(backend="impedance", impedance=springs))
    ours = control_record(settings, over_can=True, firmware="S-V1.8-5")
    assert set(ours) == {"backend", "impedance"}
    assert ours["impedance"]["kp"] == KP
    assert ours["impedance"]["requested"]["kp"] == list(KP)
    assert ours["impedance"]["quantised"]["kp"] == pytest.approx([9.890110] * 6, abs=1e-6)
    theirs = control_record(settings, over_can=False, firmware="S-V1.8-5")
    assert theirs == {"backend": "impedance", "impedance": asdict(springs)}
    position = control_record(asdict(ControlSettings()), over_can=True, firmware="")
    assert position == {"backend": "position", "impedance": asdict(ImpedanceSettings())}


def test_the_gravity_model_is_recorded_where_it_moves_the_arm() -> None:
    springs = ImpedanceSettings(kp=KP, kd=KD, gravity_ff=True)
    settings = asdict(ControlSettings(backend="impedance", impedance=springs))
    model = control_record(settings, over_can=True, firmware="")["gravity"]
    assert model["link_mass_kg"] == LINK_MASS_KG
    assert control_record(settings, over_can=False, firmware="").get("gravity") is None


def potential_energy(kinematics, masses, coms, q):
    frames = kinematics.frames(q)
    bodies = [*frames, frames[5]]
    heights = [(frame @ np.array([*com, 1.0]))[2] for frame, com in zip(bodies, coms, strict=True)]
    return 9.81 * float(np.dot(masses, heights))


@pytest.mark.parametrize("dh_offset", ["s_v1_6_3", "older"])
def test_gravity_torques_are_the_slope_of_the_potential_energy(dh_offset) -> None:
    rng = np.random.default_rng(3)
    kinematics = PiperKinematics(dh_offset)
    low, high = np.transpose(JOINT_LIMITS_RAD)
    for _ in range(10):
        masses, coms = rng.uniform(0, 2, 7), rng.uniform(-0.2, 0.2, (7, 3))
        q, h = rng.uniform(low, high), 1e-6
        slope = [
            (
                potential_energy(kinematics, masses, coms, q + h * e)
                - potential_energy(kinematics, masses, coms, q - h * e)
            )
            / (2 * h)
            for e in np.eye(6)
        ]
        model = GravityModel(kinematics, masses.tolist(), coms.reshape(-1).tolist())
        np.testing.assert_allclose(model.torques(q.tolist()), slope, atol=1e-7)


def test_gravity_of_the_arm_as_it_comes() -> None:
    kinematics = PiperKinematics("s_v1_6_3")
    stretched = (0.0, 1.6, -1.6, 0.0, 0.0, 0.0)
    torques = GravityModel(kinematics).torques(stretched)
    assert torques[0] == pytest.approx(0.0, abs=1e-12)  # a vertical axis carries nothing
    assert 5.0 < abs(torques[1]) < 15.0
    upside_down = GravityModel(kinematics, gravity_m_s2=(0.0, 0.0, 9.81)).torques(stretched)
    np.testing.assert_allclose(upside_down, [-t for t in torques])
    sideways = GravityModel(kinematics, gravity_m_s2=(0.0, -9.81, 0.0)).torques(stretched)
    assert abs(sideways[0]) > 1.0


def test_a_gravity_model_that_is_none_is_refused() -> None:
    kinematics = PiperKinematics("s_v1_6_3")
    with pytest.raises(ConfigError, match="link_mass_kg"):
        GravityModel(kinematics, (1.0,) * 6)
    with pytest.raises(ConfigError, match="a mass is negative"):
        GravityModel(kinematics, (-1.0, *(1.0,) * 6))
    with pytest.raises(ConfigError, match="link_com_m"):
        GravityModel(kinematics, link_com_m=(0.0,) * 20)

"""The control of an arm, against an arm that does exactly what it is told and a clock that waits."""

from dataclasses import replace

import pytest
from can_sessions import SPRINGS, can_session
from fake_arm import ON, FakeArm

from piper_collect.config.schema import ControlSettings
from piper_collect.core.arm_report import MOVE_J, MOVE_M
from piper_collect.core.kinematics import WORKING_POSE_RAD
from piper_collect.devices.arm import ArmDevice
from piper_collect.devices.arm_control import ArmControl
from piper_collect.devices.piper_setup import cautions, control_config
from piper_collect.errors import ArmError, ConfigError

HERE = WORKING_POSE_RAD
THERE = (0.1, *HERE[1:])


def control_of(arm: ArmDevice, **settings) -> ArmControl:
    return ArmControl(arm, control_config(can_session(**settings)), clock_ns=arm.clock_ns, sleep=arm.sleep)


def started(arm=None, **settings) -> tuple[FakeArm, ArmControl]:
    arm = arm or FakeArm()
    control = control_of(arm, **settings)
    control.start(lambda _snapshot: None)
    arm.told.clear()
    return arm, control


def step(arm, control, q=None, width_m=0.04, age_s=0.0) -> None:
    arm.sleep(0.005)
    if q is not None:
        control.command(q, width_m, age_s)
    control.step()


def test_it_switches_on_where_the_arm_stands_and_the_gripper_as_wide_as_it_is() -> None:
    arm = FakeArm(width_m=0.031)
    control_of(arm).start(lambda _snapshot: None)
    assert arm.told == [
        ("position", HERE),
        ("enable",),
        ("position", HERE),
        ("mode", MOVE_J),
        ("position", HERE),
        ("width", 0.031),
    ]


def test_impedance_begins_in_position_control() -> None:
    arm = FakeArm()
    control_of(arm, impedance=SPRINGS).start(lambda _snapshot: None)
    kinds = [kind for kind, *_ in arm.told]
    assert arm.sent("mode") == [[MOVE_J], [MOVE_M]]
    assert kinds[-3:] == ["mode", "impedance", "width"]
    assert "impedance" not in kinds[:-3]
    ((commands,),) = arm.sent("impedance")
    assert [c.position_rad for c in commands] == list(HERE)


def test_an_end_that_is_asked_for_during_the_start_switches_nothing_more_on() -> None:
    arm = FakeArm()
    control = control_of(arm)
    control.start(lambda _snapshot: None, lambda: True)
    control.stop()
    assert arm.told == []
    arm = FakeArm()
    control = control_of(arm, impedance=SPRINGS)
    control.start(lambda _snapshot: None, lambda: bool(arm.sent("mode")))
    assert arm.sent("mode") == [[MOVE_J]]
    control.stop()
    assert arm.sent("impedance") == []
    assert arm.sent("position")[-1] == [HERE]


def test_asking_goes_on_until_the_arm_does_it() -> None:
    arm = FakeArm()
    arm.stuck, arm.stubborn = (2,), True
    sleep = arm.sleep

    def patient(seconds):
        sleep(seconds)
        if arm.now_ns > 1.5e9:
            arm.stuck = ()
        if arm.now_ns > 2.5e9:
            arm.stubborn = False

    arm.sleep = patient
    control = control_of(arm)
    control.start(lambda _snapshot: None)
    assert len(arm.sent("enable")) == pytest.approx(6, abs=1)
    assert control.condition().power == "on"


def test_motors_that_do_not_switch_on_are_named() -> None:
    arm = FakeArm()
    arm.stuck = (2, 5)
    arm.state = replace(arm.state, error_code=0x02)
    with pytest.raises(ArmError, match="joint2, joint5: the motors did not switch on within 5 s") as caught:
        control_of(arm).start(lambda _snapshot: None)
    assert "joint2: communication failed" in str(caught.value)
    assert arm.sent("mode") == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"control_mode": 2}, "the arm is in teach mode"),
        ({"control_mode": 6}, "the arm is in linked teaching"),
        ({"arm_status": 1}, "emergency stop"),
    ],
)
def test_an_arm_that_somebody_else_has_is_left_to_him(changes, words) -> None:
    arm = FakeArm()
    arm.state = replace(arm.state, **changes)
    with pytest.raises(ArmError, match=f"cannot be switched on: {words}"):
        control_of(arm).start(lambda _snapshot: None)
    assert arm.told == []


def test_an_arm_that_does_not_take_commands_is_told() -> None:
    arm = FakeArm()
    arm.stubborn = True
    words = r"did not take commands over CAN within 2 s \(got the arm is in standby\)"
    with pytest.raises(ArmError, match=words):
        control_of(arm, enable_timeout_s=2.0).start(lambda _snapshot: None)


@pytest.mark.parametrize(
    ("settings", "firmware", "words"),
    [
        ({}, "S-V1.6-2", "arm.dh_offset: does not fit the arm's firmware S-V1.6-2"),
        ({"dh_offset": "older"}, "S-V1.6-3", "arm.dh_offset: .*expected s_v1_6_3"),
        ({"firmware": "S-V1.5-2"}, "", "arm.dh_offset"),
        ({"impedance": SPRINGS}, "", "arm.firmware: impedance control needs to know the firmware"),
    ],
)
def test_a_configuration_that_does_not_fit_the_firmware_moves_nothing(settings, firmware, words) -> None:
    arm = FakeArm(firmware=firmware)
    with pytest.raises(ConfigError, match=words):
        control_of(arm, **settings).start(lambda _snapshot: None)
    assert arm.told == []


def test_the_configured_firmware_serves_where_the_arm_does_not_say_it() -> None:
    _, control = started(FakeArm(firmware=""), impedance=SPRINGS, firmware="S-V1.7-2")
    assert control.condition().firmware == "S-V1.7-2"
    _, control = started(FakeArm(firmware=""))
    assert control.condition().firmware == ""
    assert control.condition().power == "on"


def test_a_backend_that_no_arm_has_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"control\.backend: a real arm has no such backend"):
        control_config(replace(can_session(), control=ControlSettings(backend="simulated")))
    with pytest.raises(ConfigError, match=r"control\.impedance\.kp"):
        control_config(replace(can_session(), control=ControlSettings(backend="impedance")))


def test_springs_too_soft_for_the_arms_weight_are_told() -> None:
    assert cautions(can_session()) == ()
    soft = cautions(can_session(impedance=SPRINGS))
    assert [words.split(" may sink")[0] for words in soft] == ["joint2", "joint3"]
    assert "must hold up to 12.1 N·m and gets 3.0" in soft[0]
    carried = cautions(can_session(impedance=replace(SPRINGS, gravity_ff=True)))
    assert [words.split(" may sink")[0] for words in carried] == ["joint2"]
    assert "gets 11.0" in carried[0]
    assert cautions(can_session(impedance=replace(SPRINGS, kp=(41.0,) * 6))) == ()


def test_it_holds_until_a_command_comes_and_follows_it() -> None:
    arm, control = started()
    step(arm, control)
    assert arm.told == [("position", HERE), ("width", 0.04)]
    assert control.condition().faults == ()
    for _ in range(100):
        step(arm, control, THERE, 0.02)
    assert arm.told[-2:] == [("position", pytest.approx(THERE)), ("width", 0.02)]
    condition = control.condition()
    assert (condition.power, condition.control, condition.faults) == ("on", "position", ())


def test_when_the_commands_stop_it_holds_where_it_is_and_says_so() -> None:
    for springs in (None, SPRINGS):
        arm, control = started(impedance=springs, watchdog_s=0.2)
        step(arm, control, THERE)
        arm.q = (0.013, *HERE[1:])
        arm.sleep(0.3)
        step(arm, control)
        step(arm, control)
        assert control.condition().faults == ("no joint command for 0.2 s: holding",)
        if springs is None:
            assert arm.sent("position")[-2:] == [[arm.q], [arm.q]]
        else:
            ((commands,),) = arm.sent("impedance")[-1:]
            assert [c.position_rad for c in commands] == list(arm.q)
            assert {(c.kp, c.kd) for c in commands} == {(10.0, 0.8)}


def test_a_command_that_was_sent_long_ago_is_not_followed() -> None:
    arm, control = started()
    step(arm, control, THERE, age_s=0.6)
    assert arm.sent("position") == [[HERE]]


def test_a_command_far_away_is_refused_and_told() -> None:
    arm, control = started(max_step_rad=0.05)
    step(arm, control, THERE)
    assert arm.sent("position") == [[HERE]]
    assert control.condition().faults == (
        "joint1 is commanded more than 0.05 rad from where it stands: holding",
    )


def test_a_silent_arm_is_sent_nothing_and_afterwards_only_what_is_new_and_near() -> None:
    arm, control = started()
    step(arm, control, THERE)
    arm.silent = "no feedback of the joints on can0"
    arm.told.clear()
    for _ in range(5):
        step(arm, control, (0.2, *HERE[1:]))
    assert arm.told == []
    condition = control.condition()
    assert (condition.power, condition.control) == ("unknown", "unknown")
    assert condition.faults == ("no feedback of the joints on can0",)
    arm.silent, arm.q = "", (0.5, *HERE[1:])
    step(arm, control)
    assert arm.sent("position") == [[arm.q]]
    step(arm, control, (0.15, *HERE[1:]))
    assert arm.sent("position")[-1] == [arm.q]
    assert "from where it stands" in control.condition().faults[0]
    step(arm, control, (0.45, *HERE[1:]))
    assert arm.sent("position")[-1][0][0] < 0.5


def test_an_arm_that_was_moved_while_it_was_silent_is_held_where_it_is_now() -> None:
    arm, control = started()
    step(arm, control)
    arm.silent, arm.q = "no feedback from the arm on can0", THERE
    step(arm, control)
    arm.silent = ""
    step(arm, control)
    assert arm.sent("position") == [[HERE], [THERE]]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"motor_flags": (ON, ON, 0, ON, ON, ON)}, "motors off: joint3"),
        ({"control_mode": 2}, "the arm is in teach mode"),
        ({"arm_status": 1}, "emergency stop"),
        ({"move_mode": 0}, "another program commands it"),
    ],
)
def test_an_arm_that_was_taken_away_is_never_commanded_again(changes, words) -> None:
    arm, control = started()
    step(arm, control, THERE)
    before, arm.state = arm.state, replace(arm.state, **changes)
    arm.told.clear()
    step(arm, control, THERE)
    assert control.condition().power == ("off" if "motor_flags" in changes else "on")
    arm.state = before
    for _ in range(5):
        step(arm, control, THERE)
    control.stop()
    assert arm.told == []
    assert words in control.condition().faults[0]
    assert "start again when it is safe" in control.condition().faults[0]


def test_on_a_fault_it_holds_and_goes_on_when_it_is_gone() -> None:
    arm, control = started()
    step(arm, control, THERE)
    arm.state, arm.q = replace(arm.state, arm_status=7), (0.01, *HERE[1:])
    step(arm, control, THERE)
    assert arm.sent("position")[-1] == [arm.q]
    assert control.condition().faults == ("collision: holding",)
    arm.state = replace(arm.state, arm_status=0)
    step(arm, control, THERE)
    assert arm.sent("position")[-1][0][0] > 0.01


def test_a_failed_send_is_told_and_held_on() -> None:
    arm, control = started()
    step(arm, control, THERE)
    arm.failed = "piper_sdk: JointCtrl_J12 send failed"
    step(arm, control, THERE)
    assert control.condition().faults == ("piper_sdk: JointCtrl_J12 send failed: holding",)
    step(arm, control, THERE)
    assert control.condition().faults == ()


def test_at_the_end_the_arm_holds_itself_in_position_control() -> None:
    for springs in (None, SPRINGS):
        arm, control = started(impedance=springs)
        step(arm, control, THERE)
        arm.told.clear()
        arm.q = (0.02, *HERE[1:])
        control.stop()
        control.stop()
        assert arm.sent("mode") == [[MOVE_J]] * 3
        assert all(q == arm.q for (q,) in arm.sent("position"))
        assert arm.sent("disable") == arm.sent("impedance") == []
        assert arm.closed == 1


def test_at_the_end_it_falls_only_where_that_is_asked_for() -> None:
    arm, control = started(on_stop="disable")
    control.stop()
    assert arm.told == [("disable",)]
    assert arm.closed == 1


def test_a_start_that_fails_in_impedance_control_leaves_the_arm_in_position_control() -> None:
    arm = FakeArm()
    set_mode = arm.set_mode

    def position_only(mode):
        set_mode(mode)
        if mode == MOVE_M:
            arm.state = replace(arm.state, move_mode=MOVE_J)

    arm.set_mode = position_only
    control = control_of(arm, impedance=SPRINGS, enable_timeout_s=0.5)
    with pytest.raises(ArmError, match=r"did not take commands .* \(got the arm is in move mode 1, not 4"):
        control.start(lambda _snapshot: None)
    arm.told.clear()
    control.stop()
    assert arm.sent("mode") == [[MOVE_J]] * 3
    assert arm.sent("position")[-1] == [HERE]


@pytest.mark.parametrize("on_stop", ["hold", "disable"])
def test_an_arm_that_is_only_listened_to_is_never_told_anything(on_stop) -> None:
    arm, control = started(enable_on_start=False, on_stop=on_stop)
    for _ in range(3):
        step(arm, control, HERE)
    assert control.condition().power == "off"
    arm.silent = "no feedback from the arm on can0"
    step(arm, control)
    assert control.condition().power == "unknown"
    assert control.condition().faults == (arm.silent,)
    control.stop()
    assert arm.told == []
    assert arm.closed == 1


def test_an_end_before_the_beginning_leaves_the_bus() -> None:
    arm = FakeArm()
    control_of(arm).stop()
    assert (arm.told, arm.closed) == ([], 1)


def test_gravity_is_carried_where_the_arm_is() -> None:
    arm, control = started(impedance=replace(SPRINGS, gravity_ff=True))
    step(arm, control)
    (first,) = arm.sent("impedance")[-1]
    arm.q = (0.0, 0.2, -1.0, 0.0, 0.5, 0.0)
    step(arm, control)
    (second,) = arm.sent("impedance")[-1]
    assert first[0].torque_n_m == pytest.approx(0.0, abs=1e-9)
    assert abs(first[1].torque_n_m) > 1.0
    assert abs(first[1].torque_n_m - second[1].torque_n_m) > 0.5
    assert [c.position_rad for c in second] == list(HERE)

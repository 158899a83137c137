"""What a page may say: every field arrives as it was, and nothing else gets through."""

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from piper_collect.core.quest import QuestController, QuestSample, XrPose
from piper_collect.errors import LinkError
from piper_collect.web.messages import (
    MOST_BYTES,
    CodeMessage,
    InputMessage,
    LeaveMessage,
    PairMessage,
    ResumeMessage,
    ShownMessage,
    WatchMessage,
    parse_message,
)

POSE = [0.1, 1.2, -0.3, 0.0, 0.6, 0.0, 0.8]
CONTROLLER = {
    "profiles": ["meta-quest-touch-plus", "generic-trigger-squeeze-thumbstick"],
    "grip": POSE,
    "emulated": True,
    "aim": [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0],
    "buttons": [[0.25, True, True], [1, True, False], [0, False, False]],
    "axes": [0, 0, -1, 0.5],
}
INPUT = {
    "type": "input",
    "sequence": 7,
    "time_ms": 1234.5,
    "visibility": "visible",
    "head": POSE,
    "left": None,
    "right": CONTROLLER,
}


def changed(path: str, value: Any) -> str:
    content = json.loads(json.dumps(INPUT))
    *parents, leaf = path.split(".")
    inner = content
    for parent in parents:
        inner = inner[parent]
    inner[leaf] = value
    return json.dumps(content)


def test_an_input_arrives_field_for_field() -> None:
    message = parse_message(json.dumps(INPUT))
    assert isinstance(message, InputMessage)
    pose = XrPose(position_m=(0.1, 1.2, -0.3), orientation_xyzw=(0.0, 0.6, 0.0, 0.8))
    assert message.stamped(99) == QuestSample(
        stamp_ns=99,
        headset_time_ms=1234.5,
        sequence=7,
        visibility="visible",
        head_valid=True,
        head_pose=pose,
        right=QuestController(
            connected=True,
            profiles=("meta-quest-touch-plus", "generic-trigger-squeeze-thumbstick"),
            pose_valid=True,
            pose_emulated=True,
            grip_pose=pose,
            aim_valid=True,
            aim_pose=XrPose(),
            button_values=(0.25, 1.0, 0.0),
            button_pressed=(True, True, False),
            button_touched=(True, False, False),
            axes=(0.0, 0.0, -1.0, 0.5),
        ),
    )


def test_a_pose_that_the_frame_did_not_have_is_not_valid_and_not_invented() -> None:
    content = {**INPUT, "head": None, "right": {**CONTROLLER, "grip": None, "aim": None}}
    message = parse_message(json.dumps(content))
    assert isinstance(message, InputMessage)
    right = message.sample.right
    assert (message.sample.head_valid, right.pose_valid, right.aim_valid) == (False, False, False)
    assert right.connected
    assert not message.sample.left.connected


def test_the_other_messages() -> None:
    assert parse_message('{"type":"pair","code":"123456"}') == PairMessage(code="123456")
    assert parse_message('{"type":"resume","token":"abc"}') == ResumeMessage(token="abc")
    assert parse_message('{"type":"code"}') == CodeMessage()
    assert parse_message('{"type":"leave"}') == LeaveMessage()
    assert parse_message('{"type":"watch","token":""}') == WatchMessage(token="")
    assert parse_message('{"type":"shown","camera":1}') == ShownMessage(camera=1)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "7",
        '"input"',
        "{}",
        "{",
        '{"type": "input"}',
        '{"type": "reboot"}',
        '{"type": ["pair"], "code": "1"}',
        '{"type": "pair"}',
        '{"type": "pair", "code": 123456}',
        '{"type": "pair", "code": "' + "1" * 17 + '"}',
        '{"type": "pair", "code": "１２３４５６"}',
        '{"type": "pair", "code": "1", "admin": true}',
        '{"type": "pair", "code": "1", "code": "2"}',
        '{"type": "code", "type": "leave"}',
        '{"type": "shown", "camera": -1}',
        '{"type": "shown", "camera": 1.0}',
        '{"type": "shown", "camera": true}',
        "[" * 8000,
        '{"type":' * 900,
        "9" * 5000,
        "x" * (MOST_BYTES + 1),
        changed("extra", 1),
        changed("right.extra", 1),
        changed("sequence", 1.5),
        changed("sequence", -1),
        changed("sequence", 2**53 + 1),
        changed("sequence", True),
        changed("sequence", "7"),
        changed("time_ms", None),
        changed("time_ms", -1),
        changed("time_ms", 1e300),
        changed("visibility", "asleep"),
        changed("visibility", ["visible"]),
        changed("head", POSE[:6]),
        changed("head", [*POSE, 0.0]),
        changed("head", [0.0] * 7),
        changed("head", [101.0, *POSE[1:]]),
        changed("head", [10**400, *POSE[1:]]),
        changed("head", [None, *POSE[1:]]),
        changed("head", [True, *POSE[1:]]),
        changed("head", "0000000"),
        changed("head", {"0": 1}),
        changed("right", []),
        changed("right.grip", [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.1]),
        changed("right.emulated", 0),
        changed("right.profiles", "meta"),
        changed("right.profiles", ["Meta Quest"]),
        changed("right.profiles", ["a" * 65]),
        changed("right.profiles", ["a"] * 9),
        changed("right.profiles", ["a\n"]),
        changed("right.buttons", [[0.5, True]]),
        changed("right.buttons", [[1.1, True, True]]),
        changed("right.buttons", [[-0.1, True, True]]),
        changed("right.buttons", [[0.5, 1, True]]),
        changed("right.buttons", [[0.5, True, True]] * 17),
        changed("right.buttons", {"length": 1}),
        changed("right.axes", [1.1]),
        changed("right.axes", [None]),
        changed("right.axes", [0] * 9),
        json.dumps(INPUT).replace("1234.5", "NaN"),
        json.dumps(INPUT).replace("1234.5", "Infinity"),
        json.dumps(INPUT).replace("1234.5", "1e999"),
    ],
)  # fmt: skip
def test_what_is_not_as_it_must_be_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(LinkError) as caught:
        parse_message(text)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


NUMBERS = st.floats(-100, 100, allow_nan=False)


@st.composite
def poses(draw: st.DrawFn) -> list[float]:
    quat = draw(st.lists(st.floats(-1, 1), min_size=4, max_size=4).filter(lambda q: math.hypot(*q) > 0.1))
    return [*draw(st.lists(NUMBERS, min_size=3, max_size=3)), *(value / math.hypot(*quat) for value in quat)]


BUTTONS = st.lists(st.tuples(st.floats(0, 1), st.booleans(), st.booleans()).map(list), max_size=16)


@settings(max_examples=60, deadline=None)
@given(st.none() | poses(), poses(), BUTTONS, st.lists(st.floats(-1, 1), max_size=8), st.integers(0, 2**53))
def test_no_bit_of_a_number_is_lost(grip, head, buttons, axes, sequence) -> None:
    controller = {**CONTROLLER, "grip": grip, "buttons": buttons, "axes": axes}
    message = parse_message(json.dumps({**INPUT, "head": head, "left": controller, "sequence": sequence}))
    assert isinstance(message, InputMessage)
    sample = message.sample
    assert [*sample.head_pose.position_m, *sample.head_pose.orientation_xyzw] == head
    assert sample.left.pose_valid == (grip is not None)
    if grip is not None:
        assert [*sample.left.grip_pose.position_m, *sample.left.grip_pose.orientation_xyzw] == grip
    assert list(sample.left.button_values) == [button[0] for button in buttons]
    assert list(sample.left.axes) == axes
    assert sample.sequence == sequence


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(INPUT)), JSON, st.text(max_size=200))
def test_whatever_comes_is_a_message_or_an_error_of_ours(key, value, text) -> None:
    for attempt in (text, json.dumps({**INPUT, key: value}), json.dumps({**INPUT, "right": value})):
        try:
            message = parse_message(attempt)
        except LinkError:
            continue
        assert isinstance(message, InputMessage)  # what else there is needs a type of its own
        sample = message.stamped(99)
        hands = [hand.grip_pose for hand in (sample.left, sample.right)]
        for pose in (sample.head_pose, *hands):
            assert all(map(math.isfinite, (*pose.position_m, *pose.orientation_xyzw)))
        assert sample.sequence >= 0

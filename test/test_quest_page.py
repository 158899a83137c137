"""The page in a real browser with an emulated Quest 3, against the server without ROS."""

import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import simplejpeg
from page_support import Page, open_page
from xr_support import Operator, headset_browser

from piper_collect.core.haptics import Pulse
from piper_collect.core.quest import QuestController, QuestSample, XrPose
from piper_collect.core.session_status import SessionView

READY = SessionView(state="ready", episode_index=4, saved=4, task="stack the cups", teleop="clutch open")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with headset_browser() as browser:
        yield browser


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    page = open_page(tmp_path, cameras=("cam_front", "cam_wrist"))
    page.server.show(READY)
    yield page
    page.close()


@pytest.fixture
def operator(chromium: Any, page: Page) -> Iterator[Operator]:
    with chromium.visit(page.origin) as operator:
        operator.pair(page.codes[-1])
        yield operator
        assert operator.errors == []


def pose_of(numbers: list[float]) -> XrPose:
    x, y, z, qx, qy, qz, qw = numbers
    return XrPose(position_m=(x, y, z), orientation_xyzw=(qx, qy, qz, qw))


def controller_of(seen: dict[str, Any]) -> QuestController:
    return QuestController(
        connected=True,
        profiles=tuple(seen["profiles"]),
        pose_valid=True,
        pose_emulated=seen["emulated"],
        grip_pose=pose_of(seen["grip"]),
        aim_valid=True,
        aim_pose=pose_of(seen["aim"]),
        button_values=tuple(map(float, seen["values"])),
        button_pressed=tuple(seen["pressed"]),
        button_touched=tuple(seen["touched"]),
        axes=tuple(map(float, seen["axes"])),
    )


def same(sample: QuestSample, seen: dict[str, Any]) -> None:
    """A sample holds exactly what the headset gave at that frame."""
    assert sample.headset_time_ms == seen["time"]
    assert sample.visibility == seen["visibility"]
    assert sample.head_valid
    assert sample.head_pose == pose_of(seen["head"])
    for hand in ("left", "right"):
        assert sample.controller(hand) == controller_of(seen[hand])


def jpeg(grey: int) -> bytes:
    return bytes(simplejpeg.encode_jpeg(np.full((120, 160, 3), grey, np.uint8)))


# -- poses --------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["vr", "ar"])
def test_every_frame_of_the_headset_arrives_with_every_field(
    operator: Operator, page: Page, mode: str
) -> None:
    operator.enter(mode)
    operator.run("emulator.device.controllers.right.quaternion.set(0.1, 0.2, 0.3, Math.sqrt(0.86))")
    operator.press("right", "trigger", 0.25)
    operator.press("right", "squeeze", 0.75)
    operator.press("left", "y-button")
    operator.run("emulator.device.controllers.left.updateButtonTouch('thumbrest', true)")
    operator.run("emulator.device.controllers.right.updateAxes('thumbstick', -0.5, 1)")
    operator.run("emulator.estimated = true")
    first = operator.frame_count()
    operator.until(lambda: operator.frame_count() > first + 20, "the headset gives no frames")
    frames = operator.frames()
    operator.until(lambda: page.samples[-1].headset_time_ms >= frames[-1]["time"], "the input stops")
    by_time = {frame["time"]: frame for frame in frames}
    samples = [sample for sample in page.samples if sample.headset_time_ms in by_time]
    assert len(samples) > 20
    for sample in samples:
        same(sample, by_time[sample.headset_time_ms])
    last = samples[-1]
    assert (last.right.trigger, last.right.squeeze, last.left.secondary) == (0.25, 0.75, True)
    assert last.right.thumbstick == (-0.5, 1.0)
    assert last.right.profiles[0] == "meta-quest-touch-plus"
    assert last.right.pose_emulated
    assert len(last.right.button_values) == 7


def test_while_the_network_is_behind_poses_are_dropped_and_the_gap_tells_how_many(
    operator: Operator, page: Page
) -> None:
    operator.enter()
    operator.until(lambda: len(page.samples) > 10, "no input")
    operator.run("window.held = 1e6")
    operator.run("Object.defineProperty(WebSocket.prototype, 'bufferedAmount', {get: () => held})")
    operator.tab.wait_for_timeout(100)
    before, frames = len(page.samples), operator.frame_count()
    operator.until(lambda: operator.frame_count() > frames + 30, "the headset stops with the network")
    assert len(page.samples) == before
    operator.run("window.held = 0")
    operator.until(lambda: len(page.samples) > before + 5, "it does not go on")
    samples, seen = list(page.samples), operator.frames()
    numbers = {frame["time"]: number for number, frame in enumerate(seen, start=1)}
    assert all(numbers[s.headset_time_ms] == s.sequence for s in samples)
    assert samples[before].sequence - samples[before - 1].sequence - 1 >= 30
    # a fresh pose comes first, not one that waited
    assert samples[before].headset_time_ms > seen[frames + 28]["time"]


def test_a_host_that_stalls_finds_half_a_second_of_poses_at_most(chromium: Any, tmp_path: Path) -> None:
    flowing = threading.Event()
    flowing.set()
    samples: list[QuestSample] = []

    def take(sample: QuestSample) -> None:
        flowing.wait()
        samples.append(sample)

    page = open_page(tmp_path, take_input=take)
    with chromium.visit(page.origin) as operator:
        operator.pair(page.codes[-1])
        operator.enter()
        operator.until(lambda: len(samples) > 10, "no input")
        flowing.clear()
        before, frames = len(samples), operator.frame_count()
        operator.until(lambda: operator.frame_count() > frames + 90, "the headset stops with the host")
        released = operator.frame_count()
        flowing.set()
        operator.until(lambda: samples[-1].sequence > released, "it does not go on")
        waited = [sample for sample in samples[before:] if sample.sequence <= released]
        assert len(waited) <= 40
    page.close()


def test_a_hidden_session_and_a_lost_controller_are_told_at_once(operator: Operator, page: Page) -> None:
    operator.enter()
    operator.run("emulator.device.controllers.right.connected = false")
    operator.until(lambda: page.samples and not page.samples[-1].right.connected, "it is not told")
    assert page.samples[-1].left.connected
    operator.run("emulator.device.controllers.right.connected = true")
    operator.until(lambda: page.samples[-1].right.connected, "the controller does not come back")
    operator.run("emulator.device.updateVisibilityState('visible-blurred')")
    operator.until(lambda: page.samples[-1].visibility == "visible-blurred", "blurring is not told")
    away = next(s for s in page.samples if s.visibility == "visible-blurred")
    assert (away.head_valid, away.left.connected, away.right.connected) == (False, False, False)
    operator.run("emulator.device.updateVisibilityState('visible')")
    operator.until(lambda: page.samples[-1].visibility == "visible", "it stays blurred")
    operator.run("emulator.device.activeSession.end()")
    operator.until(lambda: page.samples[-1].visibility == "hidden", "the end is not told")
    assert not page.samples[-1].right.connected
    operator.tab.wait_for_selector("#enter-vr:not([disabled])")


def test_pictures_never_take_the_place_of_poses(operator: Operator, page: Page) -> None:
    """By count: while pictures of both cameras come as fast as they can, no frame goes missing unsaid."""
    operator.enter()
    wanted = dict.fromkeys(page.panels.cameras, 0)

    def take(camera: str) -> bytes:
        wanted[camera] += 1
        return jpeg(wanted[camera] % 200)

    first = operator.frame_count()
    while operator.frame_count() < first + 120:
        for camera in wanted:
            page.panels.offer(camera, partial(take, camera))
        operator.tab.wait_for_timeout(10)
    frames = operator.frames()
    operator.until(lambda: page.samples[-1].headset_time_ms >= frames[-1]["time"], "the input stops")
    sent = [sample for sample in page.samples if sample.head_valid]
    first_sequence, last = sent[0].sequence, sent[-1]
    missing = last.sequence - first_sequence + 1 - len(sent)
    assert missing <= 0.1 * len(sent)
    assert min(wanted.values()) > 10  # each is asked for only when the one before was drawn


# -- haptics ------------------------------------------------------------------------------------


def test_pulses_are_felt_in_their_hand_one_after_another(operator: Operator, page: Page) -> None:
    operator.enter()
    for pulse in (
        Pulse(hand="right", intensity=0.8, duration_s=0.1),
        Pulse(hand="right", intensity=0.4, duration_s=0.05),
        Pulse(hand="left", intensity=1.0, duration_s=0.2),
    ):
        page.server.feel(pulse)
    operator.until(lambda: operator.run("emulator.pulses.length") == 3, "the pulses are not felt")
    felt = operator.run("emulator.pulses")
    assert [p for p in felt if p["hand"] == "left"] == [{"hand": "left", "intensity": 1, "ms": 200}]
    assert [(p["intensity"], p["ms"]) for p in felt if p["hand"] == "right"] == [(0.8, 100), (0.4, 50)]


# -- the page -----------------------------------------------------------------------------------


def test_the_page_shows_the_state_and_who_drives(chromium: Any, page: Page) -> None:
    with chromium.visit(page.origin) as first, chromium.visit(page.origin, headset=False) as second:
        first.pair(page.codes[-1])
        second.tab.wait_for_selector("#taken:not([hidden])")
        assert second.tab.is_hidden("#pair")
        for view, title, aside in (
            (READY, "READY", "4 saved"),
            (SessionView(state="recording", episode_index=4, start_ns=time.time_ns()), "REC", "episode 4"),
            (SessionView(state="homing", saved=1), "HOMING", "1 saved"),
            (SessionView(state="fault", faults=("arm: stall",)), "FAULT", "0 saved"),
        ):
            page.server.show(view)
            for viewer in (first, second):
                viewer.until(lambda v=viewer, t=title: v.shown() == t, f"{title} is not shown")
                viewer.until(lambda v=viewer, a=aside: a in v.tab.text_content("#state-aside"), aside)
        assert "arm: stall" in second.tab.text_content("#faults")
        assert second.tab.is_visible("#no-xr")
        assert first.tab.is_hidden("#no-xr")
        assert (first.errors, second.errors) == ([], [])


def test_a_wrong_code_is_told_and_the_right_one_in_the_address_pairs(chromium: Any, page: Page) -> None:
    with chromium.visit(page.origin) as operator:
        operator.tab.wait_for_selector("#pair:not([hidden])")
        operator.tab.fill("#code", f"{(int(page.codes[-1]) + 1) % 10**6:06d}")
        operator.tab.click("#pair button[type=submit]")
        operator.until(lambda: "not the code" in operator.tab.text_content("#notice"), "it is not told")
    with chromium.visit(f"{page.origin}/#pair={page.codes[-1]}") as operator:
        operator.tab.wait_for_selector("#paired:not([hidden])")
        assert operator.run("location.href") == f"{page.origin}/"


def test_a_page_that_is_loaded_again_drives_on(operator: Operator, page: Page) -> None:
    operator.tab.reload()
    operator.tab.wait_for_selector("#paired:not([hidden])")
    operator.enter()
    operator.until(lambda: page.samples, "it does not drive")
    assert len(page.codes) == 1


def test_a_lost_connection_is_shown(operator: Operator, page: Page) -> None:
    operator.enter()
    page.server.stop()
    operator.until(lambda: operator.shown() == "NO CONNECTION", "it is not shown")
    assert "trying again" in operator.tab.text_content("#link")
    operator.errors.clear()  # the browser itself reports each refused connection


PAINTED = """async (state) => {
  const { Hud } = await import('/hud.js');
  const painted = [];
  const pen = CanvasRenderingContext2D.prototype;
  const fill = pen.fillText;
  pen.fillText = function (text, x, y) {
    const width = this.measureText(text).width;
    painted.push({ text, left: this.textAlign === 'right' ? x - width : x, width, y });
    return fill.call(this, text, x, y);
  };
  const link = { connected: true, paired: true, roundTripMs: 8, dropped: 0, state };
  new Hud().draw(link, state.at);
  pen.fillText = fill;
  return painted;
}"""


def test_the_plate_has_room_for_long_words(chromium: Any, page: Page) -> None:
    """What must be done stands at the end of a reason; and nothing is painted over something else."""
    reason = "right controller jumped (12 cm, 3 deg between two samples); open the grip, then squeeze"
    state = {"state": "recording", "episode": 123, "saved": 1234, "task": "stack", "text": "", "at": 0}
    state |= {"elapsed_ms": 754_000, "teleop": reason, "faults": []}
    with chromium.visit(page.origin, headset=False) as operator:
        painted = operator.tab.evaluate(PAINTED, state)
        homing = operator.tab.evaluate(
            PAINTED, state | {"state": "homing", "teleop": "moving home", "text": "moving home"}
        )
    title, aside, *rest = painted
    assert (title["text"], aside["text"]) == ("REC", "episode 123   12:34.0")
    assert title["left"] + title["width"] + 30 < aside["left"]
    assert reason in " ".join(line["text"] for line in rest)
    assert all(part["left"] >= 36 and part["left"] + part["width"] <= 1024 - 36 for part in painted)
    assert [part["text"] for part in homing].count("moving home") == 1

"""The page at the desk in a real browser: what it shows, what it never shows as live, who gets in."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from desk_support import KEY, Desk, jpeg, open_desk, texture
from xr_support import Operator, headset_browser

from piper_collect.core.desk import DeskView, EpisodeRow, TopicReport, topic_row
from piper_collect.core.session_status import SessionView
from piper_collect.core.types import ReferenceView

FITS = "[...document.querySelectorAll('.wide')].every((wide) => wide.scrollWidth <= wide.clientWidth)"
WHOLE = EpisodeRow(number=0, seconds=64.0, outcome="success", lost=0, flaws=(), size_bytes=1)
FLAWED = replace(WHOLE, number=1, seconds=4.5, lost=7, flaws=("/cam/image_raw: 7 messages lost",))
GOOD = TopicReport(name="/arm/joint_states", required=True, rate_hz=199.0, age_s=0.01, lost=0, reason="")
SILENT = TopicReport(
    name="/a_rather_long_namespace/cam_front/color/image_raw/compressed",
    required=True,
    rate_hz=0.0,
    age_s=4.0,
    lost=2,
    reason="nobody publishes it; is realsense2_camera running, and does its serial number fit?",
)


def recording() -> DeskView:
    began_ns = time.time_ns() - 61 * 10**9
    running = SessionView(
        state="recording", episode_index=2, start_ns=began_ns, saved=2, task="stack <b>cups"
    )
    return DeskView(
        session=running,
        name="stack_cups_20260101_120000",
        topics=(topic_row(GOOD, 200.0), topic_row(SILENT, 30.0)),
        episodes=(WHOLE, FLAWED),
        bytes_free=70_400_000_000,
        bytes_a_second=2_000_000.0,
        minutes_left=578.4,
    )


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with headset_browser() as browser:
        yield browser


@pytest.fixture
def desk() -> Iterator[Desk]:
    desk = open_desk(cameras=("cam_front", "cam_wrist"))
    desk.server.show(recording())
    yield desk
    desk.server.stop()


class Host:
    """Says the newest state again and again, as the node does."""

    def __init__(self, desk: Desk, view: DeskView) -> None:
        self.view = view
        self._desk = desk
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._speak, daemon=True)
        self._thread.start()

    def silence(self) -> None:
        self._end.set()
        self._thread.join()

    def _speak(self) -> None:
        while not self._end.wait(0.1):
            self._desk.server.show(self.view)


@contextmanager
def speaking(desk: Desk, view: DeskView) -> Iterator[Host]:
    host = Host(desk, view)
    try:
        yield host
    finally:
        host.silence()


def shows(person: Operator, **expected: str) -> None:
    """Wait until elements, by their ids with _ for -, hold these words."""

    def seen() -> dict[str, str]:
        return {name: text(person, f"#{name.replace('_', '-')}") for name in expected}

    person.until(lambda: seen() == expected, f"{expected} is not shown")


def text(person: Operator, selector: str) -> str:
    return " ".join((person.tab.text_content(selector) or "").split())


def test_everything_of_the_session_is_shown_in_words(chromium: Any, desk: Desk) -> None:
    view = recording()
    with speaking(desk, view) as host, visit(chromium, desk) as person:
        shows(person, title="REC", task="“stack <b>cups”", link="● live", saved="2", lost="2", sound="1 of 2")
        shows(person, saved_note="episodes saved, 1:09 min")
        shows(person, disk="70 GB", disk_note="disk left, 578 min at 2.0 MB/s")
        person.until(lambda: text(person, "#aside").startswith("episode 2 1:"), "no timer")
        good, bad = rows(person, "topics")
        assert "✓ good" in good
        assert "199 of 200 Hz" in good
        assert "✕ bad" in bad
        assert "nobody publishes it; is realsense2_camera running" in bad
        assert "2 messages of this episode lost" in bad
        first, last = rows(person, "episodes")
        assert "INCOMPLETE /cam/image_raw: 7 messages lost" in first
        assert "✓ complete" in last
        assert "1:04 min" in last
        broken = SessionView(state="fault", faults=("arm: the motors are off",))
        host.view = replace(view, session=broken, topics=None)
        shows(person, title="FAULT", second="arm: the motors are off")
        assert person.tab.is_visible("#no-topics")
        assert person.errors == []


def test_a_page_without_connection_never_looks_live(chromium: Any) -> None:
    desk = open_desk(cameras=("cam_front",))
    desk.panels.offer("cam_front", lambda: jpeg(texture((48, 64))))
    live = "document.body.dataset.live"
    with visit(chromium, desk) as person:
        with speaking(desk, recording()):
            shows(person, title="REC")
            # the picture came once: it is old although the state is live
            person.until(lambda: "OLD" in text(person, "#cameras .old"), "an old picture looks live")
            assert person.run("document.querySelector('#cameras figure').dataset.stale") == "true"
            person.until(lambda: person.run(live) == "true", "it does not look live")
        # the host says nothing more, while the socket stays open
        person.until(lambda: person.run(live) == "false", "a silent host looks live")
        shows(person, title="NO CONNECTION", link="not live")
        with speaking(desk, recording()):
            person.until(lambda: person.run(live) == "true", "it does not come back")
        desk.server.stop()
        shows(person, title="NO CONNECTION", link="not live")
        person.until(lambda: "old. Trying" in text(person, "#third"), "it does not say how old it is")
        person.until(lambda: person.run("document.title").startswith("NO CONNECTION"), "the title looks live")


def test_cameras_are_laid_over_the_first_pictures_of_a_dataset(chromium: Any, desk: Desk) -> None:
    before = texture((240, 320))
    after = np.roll(before, (4, -12), axis=(0, 1))
    notes = ("cam_wrist is not there",)
    desk.server.align_to(ReferenceView(dataset="/sets/cups", pictures={"cam_front": before}, notes=notes))
    with speaking(desk, recording()), visit(chromium, desk) as person:
        person.tab.click("#show-alignment")

        def compared() -> bool:
            desk.panels.offer("cam_front", lambda: jpeg(after))
            return "too low" in text(person, "#alignments .numbers")

        person.until(compared, "the shift is not shown")
        numbers = text(person, "#alignments .numbers")
        assert numbers.startswith("← 12.0 px too far left, ↓ 4.0 px too low")
        assert "mean difference" in numbers
        assert text(person, "#alignments .badge") == "✕ moved"
        shows(person, dataset="/sets/cups", notes="cam_wrist is not there")
        then, now = float(before[100, 100, 0]), float(after[100, 100, 0])
        assert abs(then - now) > 40  # so that no mode passes for another
        levels = {"Overlay": (then + now) / 2, "Reference": then, "Live": now, "Difference": abs(then - now)}
        for mode, level in levels.items():
            person.tab.click(f"#alignments button:text-is('{mode}')")
            person.until(lambda level=level: abs(pixel(person) - level) < 12, f"{mode} is not {level}")
        assert person.errors == []


def test_from_another_machine_the_key_opens_the_page(
    chromium: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("piper_collect.web.desk_server.is_loopback", lambda _address: False)
    desk = open_desk(tmp_path)
    with speaking(desk, recording()):
        with visit(chromium, desk) as person:
            person.tab.wait_for_selector("#unlock:not([hidden])")
            shows(person, title="NO CONNECTION")
            person.tab.fill("#key", "not the key")
            person.tab.click("#unlock button")
            shows(person, unlock_notice="This key is not the one of this session.")
            person.tab.fill("#key", KEY.upper())
            person.tab.click("#unlock button")
            shows(person, title="REC")
            person.until(lambda: person.tab.is_hidden("#unlock"), "it still asks for the key")
        with visit(chromium, desk, path=f"desk#key={KEY}") as person:
            shows(person, title="REC")
            assert person.run("location.href") == f"{desk.origin}/desk"
    desk.server.stop()


@pytest.mark.parametrize("width", [360, 1920])
def test_nothing_sticks_out_of_a_narrow_or_wide_window(chromium: Any, desk: Desk, width: int) -> None:
    pictures = {"cam_front": texture((48, 64))}
    desk.server.align_to(ReferenceView(dataset="/a" * 60, pictures=pictures, notes=("x" * 90,)))
    with speaking(desk, recording()), visit(chromium, desk, width=width) as person:
        shows(person, title="REC")
        person.tab.wait_for_selector("#alignments figure", state="attached")
        for view in ("session", "alignment"):
            person.tab.click(f"#show-{view}")
            assert person.run("document.scrollingElement.scrollWidth") <= width, view
            assert person.run(FITS), view


def visit(chromium: Any, desk: Desk, *, path: str = "desk", width: int = 1280) -> Any:
    return chromium.visit(f"{desk.origin}/{path}", headset=False, size=(width, 900))


def rows(person: Operator, table: str) -> list[str]:
    found = f"#{table} tbody tr"
    person.until(lambda: person.tab.locator(found).count() == 2, f"the {table} are not shown")
    return [" ".join(words.split()) for words in person.tab.locator(found).all_inner_texts()]


def pixel(person: Operator) -> int:
    canvas = "document.querySelector('#alignments canvas')"
    return int(person.run(f"{canvas}.getContext('2d').getImageData(100, 100, 1, 1).data[0]"))

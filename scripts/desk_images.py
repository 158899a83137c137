#!/usr/bin/env python3
"""Make docs/images/desk.jpg and desk_alignment.jpg: the desk's page in Chromium, on a simulated session.

The dataset that the cameras are aligned to is drawn with one camera turned a little, as if it had been moved
since. Needs ROS, /usr/bin/chromium and playwright (pip install '.[test]').

usage: PYTHONPATH=.:test python scripts/desk_images.py [FOLDER for pictures at other widths, light and dark]
"""

import re
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from desk_cases import write_reference
from numpy.typing import NDArray
from playwright.sync_api import Page, ViewportSize, sync_playwright
from ros_support import RosRun, RunningProcess, record_command
from xr_support import CHROMIUM

from piper_collect.config.load import dump_session, load_session
from piper_collect.config.schema import SessionConfig
from piper_collect.core.kinematics import WORKING_POSE_RAD, PiperKinematics
from piper_collect.core.se3 import matrix_from_pose
from piper_collect.imaging.scene import draw_scene, look_at, wrist_view

IMAGES = Path(__file__).parents[1] / "docs" / "images"
MOST_BYTES = 150_000
DEADLINE_S = 120.0
EPISODE_S = (4.0, 6.0, 600.0)
SIZE = (640, 480)
WINDOW: ViewportSize = {"width": 1440, "height": 960}
PLACE_M, TARGET_M = (1.05, 0.35, 0.55), (0.2, 0.0, 0.18)  # where camera_sim_node has its first camera
TURNED_M = (0.2, 0.04, 0.165)

TRIES, TRY_S = 6, 20.0  # on a busy machine
FRESH = "document.querySelectorAll('{} figure[data-stale=false]').length === 2"
SOUND = f"document.querySelector('#sound').textContent === '9 of 9' && {FRESH.format('#cameras')}"
TOLD = "document.querySelector('#alignments .badge').textContent"
MOVED = f"{TOLD} === '✕ moved' && {FRESH.format('#alignments')}"


def reference_pictures() -> dict[str, NDArray[np.uint8]]:
    """The front camera as it was before somebody turned it, and the wrist's as it is."""
    kinematics = PiperKinematics("s_v1_6_3")
    flange = matrix_from_pose(kinematics.forward(WORKING_POSE_RAD))
    views = {"cam_front": look_at(PLACE_M, TURNED_M, *SIZE), "cam_wrist": wrist_view(flange, *SIZE)}
    points = kinematics.link_points(WORKING_POSE_RAD)
    return {name: draw_scene(view, points, flange, 0.0) for name, view in views.items()}


def session() -> SessionConfig:
    """Two episodes to be shown, and a long one that runs meanwhile; slow, for a machine that draws it all."""
    base = load_session("default")
    settings = replace(base.session, root="~/recordings", task="stack the cups")
    return replace(
        base,
        session=replace(settings, control_rate_hz=50.0),
        cameras={name: replace(camera, fps=15.0) for name, camera in base.cameras.items()},
        desk=replace(base.desk, port=0, picture_rate_hz=2.0, reference="~/datasets/cups"),
        sim=replace(base.sim, episode_s=EPISODE_S, outcomes=("save", "save", "save")),
    )


def address(process: RunningProcess) -> str:
    """Where the page is, once the session says so."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        if found := re.search(r"http://localhost:\d+/desk", process.log()):
            return found[0]
        time.sleep(0.2)
    raise SystemExit(f"the page does not come up:\n{process.log()}")


def take(page: Page, name: str, condition: str) -> None:
    """Write a picture that is small enough for the docs, if possible one while ``condition`` holds."""
    path = IMAGES / name
    for _ in range(TRIES):
        deadline = time.monotonic() + TRY_S
        while not page.evaluate(condition) and time.monotonic() < deadline:
            page.wait_for_timeout(100)
        for quality in (85, 75, 65, 50):
            page.screenshot(path=path, type="jpeg", quality=quality, animations="disabled")
            if path.stat().st_size < MOST_BYTES:
                break
        if page.evaluate(condition):
            break
    print(f"{path}: {path.stat().st_size / 1e3:.0f} kB")


def look_around(page: Page, folder: Path) -> None:
    """The same at other widths, light and dark, for a person to judge."""
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        for width in (360, 1920):
            page.set_viewport_size({"width": width, "height": 960})
            for view in ("session", "alignment"):
                page.click(f"#show-{view}")
                page.wait_for_timeout(700)
                page.screenshot(path=folder / f"{view}_{scheme}_{width}.png", full_page=width < 800)
    page.emulate_media(color_scheme="light")
    page.set_viewport_size(WINDOW)


def photograph(url: str, looks: Path | None) -> None:
    """Visit the page, and wait for what is to be seen."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        page = browser.new_page(viewport=WINDOW)
        page.set_default_timeout(DEADLINE_S * 1e3)
        page.goto(url)
        page.wait_for_selector("#banner[data-kind=recording]:has(#aside:text('episode 2'))")
        take(page, "desk.jpg", SOUND)
        if looks is not None:
            look_around(page, looks)
        page.click("#show-alignment")
        page.click("#alignments figure:nth-child(2) button:has-text('Difference')")
        take(page, "desk_alignment.jpg", MOVED)
        browser.close()


def main() -> None:
    """Run the session, and take both pictures."""
    looks = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    with tempfile.TemporaryDirectory(prefix="desk_images_") as temporary:
        folder = Path(temporary)
        write_reference(folder / "datasets/cups", reference_pictures())
        file = folder / "session.yaml"
        file.write_text(dump_session(session()), encoding="utf-8")
        run = RosRun(folder)
        process = run.launch("record", record_command(file), HOME=str(folder))
        try:
            photograph(address(process), looks)
        finally:
            process.end()
            run.close()


if __name__ == "__main__":
    main()

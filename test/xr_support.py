"""A real browser with an emulated Quest 3, as the tests of the headset's page use it.

Debian's Chromium, driven by playwright; the headset is IWER, Meta's own emulator, from npm.
"""

import base64
import hashlib
import io
import os
import shutil
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import pytest

CHROMIUM = Path("/usr/bin/chromium")
IWER = "iwer@2.5.0"
IWER_SHA512 = "grq7iMyWo4s2DYnATKLPPoAByhcNuwLjMHHOILrFU9q8EGHIEzHyUuq1mz+9Xqy6+xrYPn3Ho8Z9eymZCE+D6w=="
REQUIRED = "PIPER_COLLECT_BROWSER_REQUIRED"
PATIENCE_MS = 120_000

_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--use-gl=angle",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-background-timer-throttling",
    "--disable-renderer-backgrounding",
    "--disable-backgrounding-occluded-windows",
]
_EMULATOR = Path(__file__).parent / "web" / "emulator.js"


def _missing(what: str) -> NoReturn:
    """Skip, saying why; where the browser is required, fail."""
    if os.environ.get(REQUIRED):
        pytest.fail(f"{REQUIRED} is set, and {what}")
    pytest.skip(what)


def emulator_script() -> str:
    """The script that turns the browser into a Quest 3; downloaded once, checked against its hash."""
    if not CHROMIUM.exists():
        _missing("there is no /usr/bin/chromium (apt-get install chromium)")
    cache = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "piper_collect_test"
    archive = cache / f"{IWER.replace('@', '-')}.tgz"
    if not archive.is_file() or not _is_whole(archive):
        if shutil.which("npm") is None:
            _missing(f"there is no npm to get {IWER} with (apt-get install npm)")
        cache.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(["npm", "pack", IWER], cwd=cache, capture_output=True, text=True, timeout=120)
        if done.returncode != 0 or not _is_whole(archive):
            _missing(f"npm cannot get {IWER}, or not the one that is pinned: {done.stderr[-300:]}")
    with tarfile.open(fileobj=io.BytesIO(archive.read_bytes())) as packed:
        member = packed.extractfile("package/build/iwer.min.js")
        assert member is not None
        iwer = member.read().decode()
    return f"{iwer};\n{_EMULATOR.read_text(encoding='utf-8')}"


def _is_whole(archive: Path) -> bool:
    digest = hashlib.sha512(archive.read_bytes()).digest() if archive.is_file() else b""
    return base64.b64encode(digest).decode() == IWER_SHA512


class Operator:
    """A person with a headset at the page.

    Args:
        tab: The open page.
    """

    def __init__(self, tab: Any) -> None:
        self.tab = tab
        self.errors: list[str] = []
        tab.on("pageerror", lambda error: self.errors.append(str(error)))
        tab.on("console", lambda line: self.errors.append(line.text) if line.type == "error" else None)

    def pair(self, code: str) -> None:
        """Type the code."""
        self.tab.wait_for_selector("#pair:not([hidden])")
        self.tab.fill("#code", code)
        self.tab.click("#pair button[type=submit]")
        self.tab.wait_for_selector("#paired:not([hidden])")

    def enter(self, mode: str = "vr") -> None:
        """Enter VR (``vr``) or passthrough (``ar``), and wait for frames."""
        before = self.frame_count()
        self.tab.click(f"#enter-{mode}")
        self.until(lambda: self.frame_count() > before + 3, "the headset gives no frames")

    def until(self, holds: Callable[[], Any], what: str) -> None:
        """Wait for something while the browser goes on."""
        deadline = time.monotonic() + PATIENCE_MS / 1e3
        while not holds():
            assert time.monotonic() < deadline, f"{what}; the browser says {self.errors}"
            self.tab.wait_for_timeout(20)

    def frame_count(self) -> int:
        """How many frames the headset has given."""
        return int(self.tab.evaluate("emulator.frames.length"))

    def frames(self) -> list[dict[str, Any]]:
        """What the headset gave at each of them."""
        return list(self.tab.evaluate("emulator.frames"))

    def run(self, script: str) -> Any:
        """Evaluate JavaScript in the page."""
        return self.tab.evaluate(script)

    def press(self, hand: str, button: str, value: float = 1.0) -> None:
        """Push a button as far as ``value``."""
        self.run(f"emulator.press('{hand}', '{button}', {value})")

    def shown(self) -> str:
        """The title of the state that the page shows."""
        return str(self.tab.text_content("#state-title"))


@contextmanager
def headset_browser() -> Iterator[Any]:
    """A running Chromium; each context is a browser of its own, with a Quest 3."""
    script = emulator_script()
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=str(CHROMIUM), headless=True, args=_FLAGS)
        try:
            yield _Browser(chromium, script)
        finally:
            chromium.close()


class _Browser:
    def __init__(self, chromium: Any, script: str) -> None:
        self._chromium = chromium
        self._script = script

    @contextmanager
    def visit(
        self, url: str, *, headset: bool = True, size: tuple[int, int] = (420, 320)
    ) -> Iterator[Operator]:
        """Open the page; small, since every frame is drawn in software here."""
        viewport = {"width": size[0], "height": size[1]}
        context = self._chromium.new_context(ignore_https_errors=True, viewport=viewport)
        context.set_default_timeout(PATIENCE_MS)
        try:
            tab = context.new_page()
            if headset:
                tab.add_init_script(self._script)
            operator = Operator(tab)
            tab.goto(url)
            yield operator
        finally:
            context.close()

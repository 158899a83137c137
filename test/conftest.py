"""Fixtures of several test files; ROS is imported only when one that starts nodes is used."""

import os
import signal
import tempfile
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from ros_support import Rig, RosRun

# a shell has what it starts in the background ignore Ctrl-C; so would all that the tests start
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# the same inputs in each run, however slow the machine is; others with --hypothesis-profile=explore
_PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("seeded", _PATIENT, derandomize=True, database=None)
settings.register_profile("explore", _PATIENT)
settings.load_profile("seeded")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that start nodes or a browser are marked ``nodes``: they mostly wait."""
    for item in items:
        if {"ros_run", "chromium"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.nodes)


@pytest.fixture(scope="session")
def ros_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator["RosRun"]:
    """A ROS domain of this test process; afterwards nothing of it is left."""
    from ros_support import RosRun

    run = RosRun(tmp_path_factory.mktemp("ros"))
    yield run
    left = run.close()
    assert not left, f"processes were left running: {left}"
    assert not run.dead_segments()


@pytest.fixture
def rig(ros_run: "RosRun", tmp_path: Path) -> Iterator["Rig"]:
    """Nodes of one test, ended with it."""
    from ros_support import rig_in

    with rig_in(ros_run, tmp_path) as rig:
        yield rig


@pytest.fixture
def fast_path(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is such, for tests that make and remove thousands of files."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)


@pytest.fixture
def no_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are not flushed to the disk, which is slow: no test here cuts the power."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture
def tally(record_property: Callable[[str, object], None]) -> Iterator[Callable[..., None]]:
    """Counts what a test did for docs/reliability.md: ``tally("messages checked", 300)``."""
    counts: Counter[str] = Counter()

    def count(what: str, number: int = 1) -> None:
        counts[what] += number

    yield count
    for what, number in counts.items():
        record_property(what, number)


@pytest.fixture
def can_channel() -> str:
    """Name of a virtual CAN bus that no other test is on."""
    return f"test_{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="session")
def vendor_site(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Makes a vendor's message package, once; what to put on the Python path for it."""
    from vendor_packages import SHARE, make_package

    if not (SHARE / "rosidl_generator_py" / "resource").is_dir():
        pytest.skip("the generators of the ROS wheels are not there: a vendor's messages cannot be made")
    made: dict[str, Path] = {}

    def site(package: str) -> Path:
        if package not in made:
            made[package] = make_package(tmp_path_factory.mktemp(package), package)
        return made[package]

    return site

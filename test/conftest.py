"""Fixtures of the tests that start real ROS nodes; ROS is imported only when one of them is used."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ros_support import Rig, RosRun


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

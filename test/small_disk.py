"""Disks that are small, or that nobody may write to."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


class SmallDisk:
    """A tmpfs of a few MB.

    Args:
        path: Where it is mounted.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._filler = path / "filler"

    def fill(self, left_bytes: int) -> None:
        """Leave only so much room."""
        status = os.statvfs(self.path)
        size = status.f_bavail * status.f_frsize - left_bytes
        with self._filler.open("ab") as file:
            file.write(bytes(size))

    def empty(self) -> None:
        """Take away what ``fill`` put there."""
        self._filler.unlink()

    def remount(self, options: str) -> None:
        """Change how it is mounted: ``ro``, ``rw``, ``size=9m``."""
        subprocess.run(["mount", "-o", f"remount,{options}", self.path], check=True)


@contextmanager
def small_disk(path: Path, megabytes: int) -> Iterator[SmallDisk]:
    """Mount one; skips the test where this user may not."""
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(path)]
    try:
        mounted = subprocess.run(command, capture_output=True, text=True).returncode == 0
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("a small disk cannot be mounted here (mount -t tmpfs needs root)")
    try:
        yield SmallDisk(path)
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


@contextmanager
def as_anybody() -> Iterator[None]:
    """Be a user without rights over others' files, where the tests run as root."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)

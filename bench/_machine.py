"""What a bench runs on, and what is measured of a process."""

import os
import platform
import re
import resource
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import ParamSpec, TypeVar

_Args = ParamSpec("_Args")
_Result = TypeVar("_Result")


def machine() -> dict[str, object]:
    """Processor, cores, load, and versions."""
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    return {
        "processor": model[1] if model else platform.machine(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        **{name: version(name) for name in ("numpy", "scipy", "pyarrow", "av")},
    }


def peak_memory_mb(pid: int | None = None) -> float:
    """The most memory that a process (this one) has held so far (VmHWM)."""
    return _status_mb(pid, "VmHWM")


def private_memory_mb(pid: int) -> float:
    """Memory that a process holds now, without files and shared memory (RssAnon)."""
    return _status_mb(pid, "RssAnon")


def _status_mb(pid: int | None, key: str) -> float:
    text = Path("/proc", "self" if pid is None else str(pid), "status").read_text()
    match = re.search(rf"{key}:\s*(\d+) kB", text)
    assert match is not None
    return int(match[1]) / 1024


def session_cpu_s(leader: int) -> float:
    """Processor time so far of the processes of a session, by the process that leads it."""
    ticks = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        if int(fields[3]) == leader:
            ticks += sum(map(int, fields[11:15]))  # its own, and of those below it that have ended
    return ticks / os.sysconf("SC_CLK_TCK")


def cpu_s() -> float:
    """Processor time of this process, all its threads, and the processes below it that have ended."""
    own, below = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + below.ru_utime + below.ru_stime


def peak_below_mb() -> float:
    """The most memory that any one of the processes below this one has held, of those that have ended."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024


def in_a_process(function: Callable[_Args, _Result], *args: _Args.args, **kwargs: _Args.kwargs) -> _Result:
    """Call ``function`` in a new process, so that its peak memory is its own."""
    with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *args, **kwargs).result()

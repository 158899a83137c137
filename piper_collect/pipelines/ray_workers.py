"""Bags prepared on a Ray cluster, taken in order: bounded, and a job whose worker is lost is run again."""

import logging
import os
import socket
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from types import ModuleType
from typing import Any

from piper_collect.dataset.state import HeldBag
from piper_collect.errors import ConfigError, DatasetError, UsageError
from piper_collect.pipelines.prepare import BagJob, PreparedBag
from piper_collect.pipelines.ray_prepare import AwayJob, Sent, Unfit, prepare_away, received
from piper_collect.pipelines.workers import LOOK_S

TRIES = 4
"""How often a bag is begun at most, where one worker after the other is lost with it."""

OPTIONS: dict[str, Any] = {"max_retries": 0, "scheduling_strategy": "SPREAD"}
"""Of the tasks; they are begun again here and not by Ray, so that it can be said."""

_LOST = ("WorkerCrashedError", "NodeDiedError", "LocalRayletDiedError", "OutOfMemoryError", "ObjectLostError")
_CONNECT_S = 5.0
_ANSWER_S = 15.0
_HERE = ("auto", "local")
_FORMS = (*_HERE, "HOST:PORT", "ray://HOST:PORT")


class RayWorkers:
    """Workers of a cluster; use ``on_ray``.

    Args:
        ray: The library, connected.
        count: Bags that are prepared at the same time; None for as many as there are processors for, each
            bag taking one a camera.
    """

    def __init__(self, ray: Any, count: int | None) -> None:
        self._ray = ray
        self._count = count

    def in_order(
        self, jobs: Iterator[BagJob], *, held: Callable[[], Mapping[str, HeldBag]]
    ) -> Iterator[tuple[BagJob, PreparedBag]]:
        """Each job with its result, in the order of the jobs; what was encoded lies in the job's ``ahead``.

        No more than twice as many are begun and not yet given back as are prepared at the same time.

        Args:
            jobs: What to prepare.
            held: What the dataset holds by content hash; asked once, after the first job was taken.

        Raises:
            DatasetError: A machine of the cluster cannot do the work.
        """
        first = next(jobs, None)
        if first is None:
            return
        count, each = self._room(max(len(first.stager.cameras), 1))
        task = self._ray.remote(prepare_away).options(num_cpus=each, **OPTIONS)
        run = _Run(ray=self._ray, task=task, held=held(), count=count)
        yield from run.in_order(chain([first], jobs))

    def _room(self, cameras: int) -> tuple[int, int]:
        """How many bags to prepare at the same time, and the processors that each takes."""
        nodes = [n for n in self._ray.nodes() if n["Alive"]]
        processors = [int(n["Resources"].get("CPU", 0)) for n in nodes]
        if not any(processors):
            raise DatasetError("no machine of the cluster has a processor to give", where="--ray")
        each = min(cameras, max(processors))
        return self._count or sum(p // each for p in processors), each


@dataclass(slots=True, kw_only=True)
class _Run:
    """One pass over jobs.

    Attributes:
        ray: The library.
        task: What prepares a bag there.
        held: What the dataset holds, by content hash.
        count: Tasks at the same time.
    """

    ray: Any
    task: Any
    held: Mapping[str, HeldBag]
    count: int
    _begun: dict[int, BagJob] = field(default_factory=dict)
    _tries: Counter[int] = field(default_factory=Counter)
    _running: dict[Any, int] = field(default_factory=dict)
    _done: dict[int, PreparedBag] = field(default_factory=dict)

    def in_order(self, jobs: Iterator[BagJob]) -> Iterator[tuple[BagJob, PreparedBag]]:
        number, given = 0, 0
        while True:
            while number - given < 2 * self.count and len(self._running) < self.count:
                job = next(jobs, None)
                if job is None:
                    break
                self._begun[number] = job
                self._begin(number)
                number += 1
            if given in self._done:
                yield self._begun.pop(given), self._done.pop(given)
                given += 1
            elif self._running:
                self._wait()
            else:
                return

    def _begin(self, number: int) -> None:
        self._tries[number] += 1
        self._running[self.task.remote(AwayJob.of(self._begun[number]), self.held)] = number

    def _wait(self) -> None:
        """Take the result of one task, or begin it again where its worker is lost."""
        while not (ready := self.ray.wait(list(self._running), num_returns=1, timeout=LOOK_S)[0]):
            pass
        (task,) = ready
        number = self._running.pop(task)
        try:
            result = self.ray.get(task)
        except tuple(getattr(self.ray.exceptions, name) for name in _LOST) as err:
            if self._tries[number] < TRIES:
                self._begin(number)
            else:
                self._done[number] = PreparedBag(error=_given_up(self._begun[number], err))
            return
        except self.ray.exceptions.RayError as err:
            if isinstance(err, self.ray.exceptions.RayTaskError) and not isinstance(
                err, self.ray.exceptions.RaySystemError
            ):
                raise  # as the work raised it
            raise DatasetError(
                f"the cluster failed: {str(err).strip().splitlines()[-1]}",
                where="--ray",
                hint="every machine needs this version of piper_collect; what is in the dataset stays",
            ) from err
        self._done[number] = self._received(number, result)

    def _received(self, number: int, result: Sent | Unfit) -> PreparedBag:
        job, again = self._begun[number], self._tries.pop(number) - 1
        if isinstance(result, Unfit):
            if not job.path.exists():
                return PreparedBag(error=f"{job.path}: it is not there any more")
            raise DatasetError(result.what, where=f"machine {result.host} of the cluster", hint=result.hint)
        assert job.ahead is not None
        prepared = received(result, job.path, job.ahead)
        if again:
            times = "once" if again == 1 else f"{again} times"
            note = f"begun anew {times}, since the worker that prepared it was lost"
            prepared = replace(prepared, notes=(*prepared.notes, note))
        return prepared


def _given_up(job: BagJob, err: Exception) -> str:
    reason = " ".join(str(err).split())
    return (
        f"{job.path}: begun {TRIES} times, and each time the worker that prepared it was lost "
        f"({type(err).__name__}: {reason[:2000]}) -> run the export again; where memory is short, with fewer "
        "--workers"
    )


@contextmanager
def on_ray(address: str, count: int | None) -> Iterator[RayWorkers]:
    """Workers of the cluster at ``address``.

    Args:
        address: ``auto`` (the cluster that runs here, or the one that RAY_ADDRESS names), ``local`` (one of
            this machine's, gone at the end), HOST:PORT, or ray://HOST:PORT, which needs not be part of it.
        count: See ``RayWorkers``.

    Raises:
        ConfigError: Ray is not installed, or there is no such cluster.
    """
    address = os.environ.get("RAY_ADDRESS", address) if address == "auto" else address
    _check_reachable(address)
    ray, grpc = _libraries()
    _check_answers(grpc, address)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a cluster of ours reports to nobody
    own = {"include_dashboard": False} if address == "local" else {}
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **own)
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as err:
        raise ConfigError(
            f"no Ray cluster could be joined: {err}", where=f"--ray {address}", hint="see docs/performance.md"
        ) from err
    try:
        yield RayWorkers(ray, count)
    finally:
        ray.shutdown()


def _libraries() -> tuple[ModuleType, ModuleType]:
    """Ray, and what its parts talk through."""
    try:
        import grpc
        import ray
        import ray.exceptions
    except ImportError as err:
        raise ConfigError(
            f"{err.name} is not installed", where="--ray", hint="pip install 'piper_collect[ray]'"
        ) from err
    return ray, grpc


def _check_reachable(address: str) -> None:
    """Refuse an address where nobody listens; Ray itself would try for minutes."""
    if address in _HERE:
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise UsageError("not an address of a Ray cluster", where="--ray", got=address, valid=_FORMS)
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_S).close()
    except OSError as err:
        raise ConfigError(
            f"nobody listens there: {err}",
            where=f"--ray {address}",
            hint="start the cluster (ray start --head), or give --ray local for one on this machine",
        ) from err


def _check_answers(grpc: ModuleType, address: str) -> None:
    """Refuse an address where something else than Ray listens, as far as that can be told without keys."""
    if address in _HERE or os.environ.get("RAY_USE_TLS", "0") != "0":
        return
    with grpc.insecure_channel(address.removeprefix("ray://")) as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=_ANSWER_S)
        except grpc.FutureTimeoutError as err:
            raise ConfigError(
                "what listens there is no Ray cluster",
                where=f"--ray {address}",
                hint="give the port that ray start --head says (6379), or ray:// and 10001",
            ) from err

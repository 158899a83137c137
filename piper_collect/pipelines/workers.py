"""Work spread over processes, its results taken in order: bounded, and gone when the caller is."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import connection, get_context, parent_process
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any, Generic, Protocol, TypeVar

_Job = TypeVar("_Job")
_JobIn = TypeVar("_JobIn", contravariant=True)
_Result = TypeVar("_Result")
_ResultOut = TypeVar("_ResultOut", covariant=True)

# Other start methods copy what the threads of this process hold at that moment, locks included.
_CONTEXT = get_context("spawn")
_TELL, _ASK, _DONE = "tell", "ask", "done"
LOOK_S = 0.5
"""A signal that comes in the moment before a wait begins is acted on when the wait ends: none is for ever."""


class Work(Protocol[_JobIn, _ResultOut]):
    """A function at the top of a module: ``work(job, tell, ask)`` in a process of its own.

    ``tell(value)`` says how far it is; ``ask(value)`` gives the caller's answer. The process ends with the
    caller's, whatever it is at.
    """

    def __call__(
        self, job: _JobIn, tell: Callable[[Any], None], ask: Callable[[Any], Any], /
    ) -> _ResultOut: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """In place of a result: the process was ended before it had one.

    Attributes:
        exit_code: Of the process; negative for the signal that ended it.
    """

    exit_code: int | None


@dataclass(slots=True, eq=False)
class _Worker:
    process: SpawnProcess
    pipe: Connection
    job: int | None = None


class Workers(Generic[_Job, _Result]):
    """Processes that do jobs; use ``started``.

    Args:
        work: What they do.
        count: How many there are.
    """

    def __init__(self, work: Work[_Job, _Result], count: int) -> None:
        self._work = work
        self._count = count
        self._workers: list[_Worker] = []

    def in_order(
        self,
        jobs: Iterator[_Job],
        *,
        told: Callable[[int, Any], None] = lambda number, value: None,
        answer: Callable[[Any], Any] = lambda value: None,
    ) -> Iterator[tuple[_Job, _Result | Lost]]:
        """Each job with its result, in the order of the jobs.

        A job is taken when a process is free for it, as long as no more than twice as many are begun and
        not yet given back as there are processes. One whose process is killed is ``Lost``; another process
        takes its place.

        Args:
            jobs: What to do.
            told: Called in this process with the number of a job, from 0, and what its process told.
            answer: Called in this process with what a process asked.

        Raises:
            Exception: As the work raised it.
        """
        begun: dict[int, _Job] = {}
        results: dict[int, _Result | Lost] = {}
        number, given = 0, 0
        while True:
            while number - given < 2 * self._count and (worker := self._free()) is not None:
                try:
                    begun[number] = next(jobs)
                except StopIteration:
                    break
                worker.job = number
                self._send(worker, begun[number])
                number += 1
            if given in results:
                yield begun.pop(given), results.pop(given)
                given += 1
            elif begun:
                results.update(self._wait(told, answer))
            else:
                return

    def stop(self) -> None:
        """End all processes at once."""
        for worker in self._workers:
            worker.process.kill()
        for worker in self._workers:
            worker.process.join()
            worker.pipe.close()
        self._workers.clear()

    def _free(self) -> _Worker | None:
        for worker in [w for w in self._workers if w.job is None]:
            if worker.process.is_alive():
                return worker
            self._buried(worker)
        if len(self._workers) == self._count:
            return None
        ours, theirs = _CONTEXT.Pipe()
        process = _CONTEXT.Process(target=_serve, args=(theirs, self._work), daemon=True)
        process.start()
        theirs.close()
        self._workers.append(_Worker(process, ours))
        return self._workers[-1]

    def _send(self, worker: _Worker, message: object) -> None:
        try:
            worker.pipe.send(message)
        except OSError:  # it was killed; the next look at the pipe tells
            return

    def _wait(
        self, told: Callable[[int, Any], None], answer: Callable[[Any], Any]
    ) -> Iterator[tuple[int, _Result | Lost]]:
        """Take one message of each process that has something to say; the results among them."""
        busy = {w.pipe: w for w in self._workers if w.job is not None}
        while not (ready := connection.wait(list(busy), LOOK_S)):
            pass
        for pipe in ready:
            worker = busy[pipe]  # type: ignore[index]
            number = worker.job
            assert number is not None
            try:
                kind, value = worker.pipe.recv()
            except (EOFError, OSError):
                yield number, self._buried(worker)
                continue
            if kind == _TELL:
                told(number, value)
            elif kind == _ASK:
                self._send(worker, answer(value))
            else:
                worker.job = None
                if isinstance(value, BaseException):
                    raise value
                yield number, value

    def _buried(self, worker: _Worker) -> Lost:
        self._workers.remove(worker)
        worker.process.kill()
        worker.process.join()
        worker.pipe.close()
        return Lost(exit_code=worker.process.exitcode)


@contextmanager
def started(work: Work[_Job, _Result], count: int) -> Iterator[Workers[_Job, _Result]]:
    """Processes that start with the first jobs, and are ended at the end, however it comes."""
    workers = Workers(work, count)
    try:
        yield workers
    finally:
        workers.stop()


def _serve(pipe: Connection, work: Work[Any, Any]) -> None:
    """Do jobs until the other end of the pipe closes."""
    # Ctrl-C reaches every process of a terminal; who started this one decides what becomes of it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()

    def tell(value: Any) -> None:
        pipe.send((_TELL, value))

    def ask(value: Any) -> Any:
        pipe.send((_ASK, value))
        return pipe.recv()

    try:
        while True:
            job = pipe.recv()
            try:
                result = work(job, tell, ask)
            except (EOFError, ConnectionError):
                return
            except Exception as err:
                err.add_note("in a process of its own")
                result = err
            pipe.send((_DONE, result))
    except (EOFError, ConnectionError):
        return


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)

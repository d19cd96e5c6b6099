"""Where work is done: in this process, in worker processes, or (:mod:`manyheads.engines.cluster`) on other machines.

An executor holds an object that is made once in each process, such as the data and the model, and maps a *job* over
tasks. A job is a module-level function, ``job(held, common, task)``; ``common`` is the same for all tasks and sent to
each process only once.
"""

from __future__ import annotations

import multiprocessing
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from manyheads.engines.engine import Engine
from manyheads.engines.starting import hindrance
from manyheads.engines.threads import one_thread
from manyheads.engines.workers import Workers

__all__ = ["Ask", "Asking", "Executor", "InProcess", "Pool", "answered", "working"]

Made: TypeAlias = Callable[[], tuple[Any, ...]]
"""gives the arguments by which each process makes what it holds, once they are needed"""
FORKED, SPAWNED = 0.1, 2.0
"""about the seconds that starting processes takes; a spawned one imports torch"""
H = TypeVar("H")
H_co = TypeVar("H_co", covariant=True)
C = TypeVar("C")
T = TypeVar("T")
R = TypeVar("R")


class Executor(Protocol[H_co]):
    """Maps jobs over tasks."""

    def map(self, job: Callable[[H_co, C, T], R], common: C, tasks: Sequence[T], large: bool = False) -> Iterator[R]:
        """The results of ``job(held, common, task)``, in the order of the tasks; if they are ``large``, few wait."""


class Ask(NamedTuple):
    """Work that somebody else is to do: the arguments of :meth:`Executor.map`."""

    job: Callable[..., Any]
    common: Any
    tasks: Sequence[Any]
    large: bool = False


Asking: TypeAlias = Generator[Sequence[Ask], Sequence[Iterable[Any]], R]
"""a computation that yields what it asks for, one or several at once, and is sent the results of each, in the order of its
tasks; so many computations can go on in turn"""


def answered(asking: Asking[R], executor: Executor[Any]) -> R:
    """What a computation returns, all its work done by one executor."""
    try:
        asks = next(asking)
        while True:
            asks = asking.send([executor.map(*ask) for ask in asks])
    except StopIteration as end:
        result: R = end.value
        return result


class InProcess(Generic[H]):
    """Runs all tasks in this process, one after another."""

    def __init__(self, held: H) -> None:
        self.held = held

    def map(self, job: Callable[[H, C, T], R], common: C, tasks: Sequence[T], large: bool = False) -> Iterator[R]:
        return (job(self.held, common, task) for task in tasks)


class Pool(Generic[H]):
    """Runs each task in the next free worker process; a single task in this process, so that nothing is sent.

    Processes are started by the first call that has work for several and, unless their number was asked for, once this
    process has worked for ``patience`` seconds: a short run ends before they are there. Where they cannot be started
    (:mod:`~.starting`), all is done by this process, and a warning says how to change that; it is an error if they were
    asked for.
    """

    def __init__(
        self,
        here: InProcess[H],
        engine: Engine,
        most: int,
        make: Callable[..., H],
        arguments: Made,
        stack: ExitStack,
        patience: float,
    ) -> None:
        self.here, self._asked, self._method = here, bool(engine.workers), engine.resolved_start_method()
        self._patience = 0.0 if self._asked else patience
        self._most, self._make, self._arguments, self._stack = most, make, arguments, stack
        self._alone = False

    def map(self, job: Callable[[H, C, T], R], common: C, tasks: Sequence[T], large: bool = False) -> Iterator[R]:
        if len(tasks) > 1 and self._patience > 0:
            return self._begun_here(job, common, tasks, large)
        if len(tasks) > 1 and not self._alone and self._can_be_sent((job, common, tasks[0])):
            return self._workers.map(job, common, tasks, large)
        return self.here.map(job, common, tasks, large)

    def _begun_here(self, job: Callable[[H, C, T], R], common: C, tasks: Sequence[T], large: bool) -> Iterator[R]:
        """Do task after task as long as we are patient, and leave the rest to the processes."""
        for done, task in enumerate(tasks):
            if self._patience <= 0:
                yield from self.map(job, common, tasks[done:], large)
                return
            started = time.monotonic()
            result = job(self.here.held, common, task)
            self._patience -= time.monotonic() - started
            yield result

    def _can_be_sent(self, work: Any) -> bool:
        held = None if self._method == "fork" else (self._make, self._made)  # a forked process has it already
        why = hindrance(self._method, "model", held) if "_workers" not in self.__dict__ else None
        why = why or hindrance(self._method, "work", work)
        if why is not None and self._asked:
            raise why
        if why is not None:
            self._alone = True
            warnings.warn(f"{why}. Until then this process does all, with the same results.", stacklevel=4)
        return why is None

    @cached_property
    def _made(self) -> tuple[Any, ...]:
        return self._arguments()

    @cached_property
    def _workers(self) -> Workers[H]:
        context = multiprocessing.get_context(self._method)
        workers: Workers[H] = Workers(self._most, context, self._make, self._made)
        self._stack.callback(workers.close)
        return workers


@contextmanager
def working(
    engine: Engine,
    most: int,
    held: H,
    make: Callable[..., H],
    arguments: Made,
    shared: Path | None = None,
    short: bool = False,
) -> Iterator[Executor[H]]:
    """An executor for at most ``most`` tasks at a time, as the engine's settings say.

    It is this process with ``held``, or workers or actors that each hold ``make(*arguments())``. ``shared`` is the folder
    to which tasks write, if they do. ``short``: tasks may take less time than starting a process does.
    """
    here, count = InProcess(held), min(engine.resolved_workers(), most)
    with one_thread():
        if engine.executor == "ray":
            from manyheads.engines.cluster import on_ray

            with on_ray(engine, most, make, arguments(), shared) as actors:
                yield actors
        elif count <= 1:
            yield here
        else:
            with ExitStack() as stack:
                patience = (FORKED if engine.resolved_start_method() == "fork" else SPAWNED) if short else 0.0
                yield Pool(here, engine, count, make, arguments, stack, patience)

"""Where work is done: in this process, in worker processes, or (:mod:`manyheads.engines.cluster`) on other machines.

An executor holds an object that is made once in each process, such as the data and the model, and maps a *job* over
tasks. A job is a module-level function, ``job(held, common, task)``; ``common`` is the same for all tasks and sent to
each process only once.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

import torch

from manyheads.core.interrupts import held as signals_held
from manyheads.engines.engine import Engine
from manyheads.engines.workers import Workers

__all__ = ["Ask", "Asking", "Executor", "InProcess", "Pool", "answered", "one_thread", "working"]

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
    """Runs each task in the next free worker process; a single task in this process, so that nothing is sent."""

    def __init__(self, here: InProcess[H], workers: Workers[H]) -> None:
        self.here, self.workers = here, workers

    def map(self, job: Callable[[H, C, T], R], common: C, tasks: Sequence[T], large: bool = False) -> Iterator[R]:
        return (self.workers if len(tasks) > 1 else self.here).map(job, common, tasks, large)


@contextmanager
def working(
    engine: Engine,
    most: int,
    held: H,
    make: Callable[..., H],
    arguments: tuple[Any, ...],
    shared: Path | None = None,
) -> Iterator[Executor[H]]:
    """An executor for at most ``most`` tasks at a time, as the engine's settings say.

    It is this process with ``held``, or workers or actors that each hold ``make(*arguments)``. ``shared`` is the folder to
    which tasks write, if they do.
    """
    here, count = InProcess(held), min(engine.resolved_workers(), most)
    with one_thread():
        if engine.executor == "ray":
            from manyheads.engines.cluster import on_ray

            with on_ray(engine, most, make, arguments, shared) as actors:
                yield actors
            return
        if count <= 1:
            yield here
            return
        with ExitStack() as stack:
            with signals_held():  # no started process may escape the cleanup
                workers: Workers[H] = Workers(
                    count, multiprocessing.get_context(engine.resolved_start_method()), make, arguments
                )
                stack.callback(workers.close)
            yield Pool(here, workers)


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use one thread: with more, small operations are up to 20 times slower and differ in the last bit."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)

"""Where work is done: in this process, in worker processes, or (another implementation) on other machines.

An executor holds something that is made once for each place of work, such as the data and the model, and maps a *job*
over tasks: ``job(held, common, task)``, a function of a module, with what all tasks have in common sent to each place
only once.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Generic, Protocol, TypeVar

import torch

from manyheads.core.interrupts import held as signals_held
from manyheads.engines.workers import Workers

__all__ = ["Executor", "InProcess", "Pool", "one_thread", "working"]

H = TypeVar("H")
H_co = TypeVar("H_co", covariant=True)
C = TypeVar("C")
T = TypeVar("T")
R = TypeVar("R")


class Executor(Protocol[H_co]):
    """Maps jobs over tasks."""

    def map(self, job: Callable[[H_co, C, T], R], common: C, tasks: Sequence[T]) -> Iterator[R]:
        """The results of ``job(held, common, task)``, in the order of the tasks."""


class InProcess(Generic[H]):
    """Does everything here, one task after another."""

    def __init__(self, held: H) -> None:
        self.held = held

    def map(self, job: Callable[[H, C, T], R], common: C, tasks: Sequence[T]) -> Iterator[R]:
        return (job(self.held, common, task) for task in tasks)


class Pool(Generic[H]):
    """Does tasks in worker processes as these become free; a single task here, where nothing has to be sent."""

    def __init__(self, here: InProcess[H], workers: Workers[H]) -> None:
        self.here, self.workers = here, workers

    def map(self, job: Callable[[H, C, T], R], common: C, tasks: Sequence[T]) -> Iterator[R]:
        return (self.workers if len(tasks) > 1 else self.here).map(job, common, tasks)


@contextmanager
def working(
    count: int, start_method: str, held: H, make: Callable[..., H], arguments: tuple[Any, ...]
) -> Iterator[Executor[H]]:
    """An executor with ``count`` places of work: this process, which has ``held``, or processes with ``make(*arguments)``."""
    here = InProcess(held)
    with one_thread():
        if count <= 1:
            yield here
            return
        with ExitStack() as stack:
            with signals_held():  # a process that was started is noted, and ended
                workers: Workers[H] = Workers(count, multiprocessing.get_context(start_method), make, arguments)
                stack.callback(workers.close)
            yield Pool(here, workers)


@contextmanager
def one_thread() -> Iterator[None]:
    """Small operations are up to 20 times slower with several threads each, and differ in the last bit."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)

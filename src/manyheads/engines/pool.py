"""Workers: as many processes as asked for, each with one thread, chunks of clients dealt as they become free."""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Annotated, Any, Literal

import numpy as np
import torch
from pydantic import Field

from manyheads.core.contract import Algorithm
from manyheads.core.errors import UserError
from manyheads.core.interrupts import held
from manyheads.core.settings import settings
from manyheads.data import Federation
from manyheads.engines.cohort import STACK_BELOW, Mode
from manyheads.engines.workbench import Keep, Workbench
from manyheads.engines.workers import Workers
from manyheads.models import Model

__all__ = ["Engine", "Pool", "chunked", "one_thread"]


MOMENT = 5_000_000
"""parameters times samples of a cohort below which its steps cost calls, not arithmetic: nothing to divide"""
LEAST_BOUND = 16
"""workers that any machine may have"""


@settings
class Engine:
    """How the work is done. Nothing here but ``mode`` and ``device`` can change a number."""

    mode: Mode = "auto"
    """clients one after another, stacked, or whichever is faster for what is trained"""
    workers: Annotated[int, Field(ge=0)] = 1
    """processes; 1: none but this one; 0: one for each core; more than 16, or 4 a core, are not started"""
    start_method: Literal["auto", "fork", "spawn", "forkserver"] = "auto"
    """how processes are started; auto: fork on Linux, spawn elsewhere"""
    device: str = "auto"
    """cpu, cuda, ...; auto: a GPU if there is one"""

    def resolved_device(self) -> str:
        if self.device == "auto":
            return "cuda" if torch.cuda.is_available() else "cpu"
        if not _can_be_used(self.device):
            found = ["auto", "cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
            raise UserError(
                "there is no such device here", where="engine.device", given=self.device, allowed=", ".join(found)
            )
        return self.device

    def resolved_workers(self) -> int:
        if self.resolved_device() != "cpu":
            return 1
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return min(self.workers or cores, max(LEAST_BOUND, 4 * cores))

    def resolved_start_method(self) -> str:
        return self.start_method if self.start_method != "auto" else "fork" if sys.platform == "linux" else "spawn"


@cache
def _can_be_used(device: str) -> bool:
    """Whether a number can be put there and read back."""
    try:
        return float(torch.ones(1, device=device).sum()) == 1
    except (RuntimeError, AssertionError, NotImplementedError):  # as different devices say it
        return False


def chunked(clients: Sequence[int], sizes: np.ndarray, parameters: int, mode: Mode) -> list[list[int]]:
    """Divide a cohort into chunks of about equal work, the same whatever the number of workers.

    Small models profit from stacking many clients, the smaller the more, and what is over in a moment is one chunk; of
    large ones, a few at a time keep all workers busy. Each chunk carries results the size of the model, so that 32 of them
    are enough, unless they grow too large for memory.
    """
    small = parameters <= STACK_BELOW
    if small:
        least, most = 1 if parameters * sizes.sum() < MOMENT else 2, 1024 if parameters <= 2_000 else 32
    else:
        together = max(4, min(16, 1_600_000 // parameters))  # weights that stay in the cache when stacked
        least, most = min(-(-len(clients) // together), 32), max(4, min(32, 16_000_000 // parameters))
        least = max(least, 4)
    count = len(clients) if mode == "loop" and not small else max(least, -(-len(clients) // most))
    if count > 2:
        count += -count % 4  # two workers, or four, then get equally many
    count = min(count, len(clients))
    if len(set(sizes.tolist())) == 1:  # neighbours, whose samples lie side by side
        return [part.tolist() for part in np.array_split(np.asarray(clients), count)]
    largest_first = np.argsort(-sizes, kind="stable")
    return [sorted(clients[i] for i in largest_first[start::count]) for start in range(count)]


class Pool:
    """Runs methods of a :class:`Workbench`, here or in worker processes. Use as a context manager."""

    def __init__(self, engine: Engine, algorithm: Algorithm, model: Model, federation: Federation, keep: Keep) -> None:
        self._engine, self._federation = engine, federation
        self._bench = Workbench(algorithm, model, federation, engine.mode, engine.resolved_device(), keep)
        self._workers: Workers | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Pool:
        try:
            self._stack.enter_context(one_thread())
            count = min(self._engine.resolved_workers(), len(self._federation))
            if count > 1:
                self._start(count)
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _start(self, count: int) -> None:
        method = self._engine.resolved_start_method()
        bench = self._bench
        source: Federation | str = self._federation
        if method != "fork":  # the data reaches them as files, mapped into memory once for all
            source = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="manyheads-"))
            self._federation.save(source)
        arguments = (bench.algorithm, bench.model, source, bench.mode, str(bench.device), bench.keep)
        with held():
            self._workers = Workers(count, multiprocessing.get_context(method), _workbench, arguments)
            self._stack.callback(self._workers.close)

    def run(self, method: str, common: tuple[Any, ...], tasks: Sequence[tuple[Any, ...]]) -> Iterator[Any]:
        """Results of ``Workbench.method(*common, *task)``, in the order of the tasks; a single one is done here."""
        if self._workers is not None and len(tasks) > 1:
            return self._workers.map(method, tasks, common)
        return (getattr(self._bench, method)(*common, *task) for task in tasks)


def _workbench(
    algorithm: Algorithm, model: Model, source: Federation | str, mode: Mode, device: str, keep: Keep
) -> Workbench:
    federation = Federation.load(source) if isinstance(source, str) else source
    return Workbench(algorithm, model, federation, mode, device, keep)


@contextmanager
def one_thread() -> Iterator[None]:
    """Small operations are up to 20 times slower with several threads each, and differ in the last bit."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)

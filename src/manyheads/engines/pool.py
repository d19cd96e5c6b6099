"""Workers: as many processes as asked for, each with one thread, chunks of clients dealt as they become free."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from typing import Annotated, Any, Literal

import numpy as np
import torch
from pydantic import Field

from manyheads.core.contract import Algorithm
from manyheads.core.errors import UserError
from manyheads.core.settings import settings
from manyheads.data import Federation
from manyheads.engines.cohort import STACK_BELOW, Mode
from manyheads.engines.workbench import Workbench
from manyheads.models import Model

__all__ = ["Engine", "Pool", "chunked"]


@settings
class Engine:
    """How the work is done. Nothing here but ``mode`` and ``device`` can change a number."""

    mode: Mode = "auto"
    """clients one after another, stacked, or whichever is faster for what is trained"""
    workers: Annotated[int, Field(ge=0)] = 1
    """processes; 1: none but this one; 0: one for each core"""
    start_method: Literal["auto", "fork", "spawn", "forkserver"] = "auto"
    """how processes are started; auto: fork on Linux, spawn elsewhere"""
    device: str = "auto"
    """cpu, cuda, ...; auto: a GPU if there is one"""

    def resolved_device(self) -> str:
        if self.device != "auto":
            return self.device
        return "cuda" if torch.cuda.is_available() else "cpu"

    def resolved_workers(self) -> int:
        if self.resolved_device() != "cpu":
            return 1
        return self.workers or len(
            os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
        )

    def resolved_start_method(self) -> str:
        return self.start_method if self.start_method != "auto" else "fork" if sys.platform == "linux" else "spawn"


def chunked(clients: Sequence[int], sizes: np.ndarray, parameters: int, mode: Mode) -> list[list[int]]:
    """Divide a cohort into chunks of about equal work, the same whatever the number of workers.

    Small models profit from stacking many clients; of large ones, a few at a time keep all workers busy.
    """
    small = parameters <= STACK_BELOW
    least = (2 if len(clients) >= 8 else 1) if small else min(4, len(clients))
    most = 32 if small else 4
    count = len(clients) if mode == "loop" and not small else max(least, -(-len(clients) // most))
    largest_first = np.argsort(-sizes, kind="stable")
    return [sorted(clients[i] for i in largest_first[start::count]) for start in range(min(count, len(clients)))]


class Pool:
    """Runs methods of a :class:`Workbench`, here or in worker processes. Use as a context manager."""

    def __init__(
        self, engine: Engine, algorithm: Algorithm, model: Model, federation: Federation, keep_local: bool
    ) -> None:
        self._engine, self._federation = engine, federation
        self._bench = Workbench(algorithm, model, federation, engine.mode, engine.resolved_device(), keep_local)
        self._executor: ProcessPoolExecutor | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Pool:
        self._stack.enter_context(_one_thread())
        workers = self._engine.resolved_workers()
        if workers > 1:
            self._start(workers)
        return self

    def __exit__(self, *_: object) -> None:
        if self._executor is not None:
            processes = list(self._executor._processes.values())
            self._executor.shutdown(wait=False, cancel_futures=True)
            for process in processes:
                process.terminate()
            for process in processes:
                process.join()
        self._stack.close()

    def _start(self, workers: int) -> None:
        method = self._engine.resolved_start_method()
        bench = self._bench
        source: Federation | str = self._federation
        if method != "fork":  # the data reaches them as files, mapped into memory once for all
            source = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="manyheads-"))
            self._federation.save(source)
        arguments = (os.getpid(), bench.algorithm, bench.model, source, bench.mode, str(bench.device), bench.keep_local)
        self._executor = ProcessPoolExecutor(workers, multiprocessing.get_context(method), _begin, arguments)
        wait([self._executor.submit(os.getpid) for _ in range(workers)])

    def run(self, method: str, tasks: Sequence[tuple[Any, ...]]) -> Iterator[Any]:
        """Results of ``Workbench.method(*task)``, in the order of the tasks."""
        if self._executor is None:
            for task in tasks:
                yield getattr(self._bench, method)(*task)
            return
        futures: list[Future[Any]] = [self._executor.submit(_work, method, task) for task in tasks]
        try:
            for future in futures:
                yield future.result()
        except BrokenProcessPool:
            raise UserError(
                "a worker process ended unexpectedly",
                fix="perhaps memory ran out: use fewer --workers; the run can be resumed with --resume",
            ) from None


@contextmanager
def _one_thread() -> Iterator[None]:
    """Small operations are up to 20 times slower with several threads each, and differ in the last bit."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


# -- in the worker process ---------------------------------------------------------------------------------------------

_bench: Workbench | None = None


def _begin(
    parent: int, algorithm: Algorithm, model: Model, source: Federation | str, mode: Mode, device: str, keep_local: bool
) -> None:
    global _bench
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    torch.set_num_threads(1)
    federation = Federation.load(source) if isinstance(source, str) else source
    _bench = Workbench(algorithm, model, federation, mode, device, keep_local)


def _end_with(parent: int) -> None:
    """A parent that was killed cannot tell its workers to stop."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def _work(method: str, task: tuple[Any, ...]) -> Any:
    return getattr(_bench, method)(*task)

"""Worker processes, each with a pipe of its own: one that dies, at whatever instant, is noticed and never waited for."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from queue import SimpleQueue
from typing import Any

import torch

from manyheads.core.errors import UserError

__all__ = ["Workers"]


class Workers:
    """``count`` processes that each hold ``make(*arguments)`` and answer calls of its methods.

    A thread here waits for each of them, so that all are busy while results are being used.
    """

    def __init__(self, count: int, context: BaseContext, make: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self._processes: list[Any] = []
        self._free: SimpleQueue[Connection] = SimpleQueue()
        pipes = []
        for _ in range(count):
            here, there = context.Pipe()
            process: Any = context.Process(  # type: ignore[attr-defined]
                target=_serve, args=(there, os.getpid(), make, arguments), daemon=True
            )
            process.start()
            there.close()  # before the next one is forked: the only copy is the worker's, and ends with it
            self._processes.append(process)
            pipes.append(here)
        for here in pipes:
            self._free.put(here)
        self._threads = ThreadPoolExecutor(count)

    def map(self, method: str, tasks: Sequence[tuple[Any, ...]]) -> Iterator[Any]:
        """Results of ``method(*task)``, in the order of the tasks, each given to the next worker that is free."""
        return self._threads.map(lambda task: self._ask(method, task), tasks)

    def _ask(self, method: str, task: tuple[Any, ...]) -> Any:
        worker = self._free.get()
        try:
            worker.send_bytes(_packed((method, task)))
            error, result = pickle.loads(worker.recv_bytes())
        except (EOFError, OSError):
            raise UserError(
                "a worker process ended unexpectedly",
                fix="perhaps memory ran out: use fewer --workers; the run can be resumed with --resume",
            ) from None
        finally:
            self._free.put(worker)
        if error is not None:
            raise error
        return result

    def close(self) -> None:
        """End the processes, whatever they are doing."""
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.join()
        self._threads.shutdown(cancel_futures=True)


def _packed(value: Any) -> bytes:
    return pickle.dumps(value, protocol=5)  # trees of tensors as plain arrays, see Tree.__getstate__


# -- in the worker process ---------------------------------------------------------------------------------------------


def _serve(parent: Connection, parent_id: int, make: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    threading.Thread(target=_end_with, args=(parent_id,), daemon=True).start()
    torch.set_num_threads(1)
    bench = make(*arguments)
    while True:
        method, task = pickle.loads(parent.recv_bytes())
        try:
            answer = _packed((None, getattr(bench, method)(*task)))
        except Exception as error:
            error.add_note(f"in worker process {os.getpid()}:\n{traceback.format_exc()}")
            answer = _packed((error, None))
        parent.send_bytes(answer)


def _end_with(parent: int) -> None:
    """A parent that was killed cannot tell its workers to stop."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)

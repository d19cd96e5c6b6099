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
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from queue import SimpleQueue
from typing import Any

import numpy as np
import torch

from manyheads.core.errors import UserError

__all__ = ["Workers"]


@dataclass(eq=False)
class _Call:
    """Calls that have their method and first arguments in common, which each worker is told once."""

    common: Packed


@dataclass
class _Worker:
    pipe: Connection
    told: _Call | None = None


class Workers:
    """``count`` processes that each hold ``make(*arguments)`` and answer calls of its methods.

    A thread here waits for each of them, so that all are busy while results are being used.
    """

    def __init__(self, count: int, context: BaseContext, make: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self._processes: list[Any] = []
        self._free: SimpleQueue[_Worker] = SimpleQueue()
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
            self._free.put(_Worker(here))
        self._threads = ThreadPoolExecutor(count)

    def map(self, method: str, tasks: Sequence[tuple[Any, ...]], common: tuple[Any, ...] = ()) -> Iterator[Any]:
        """Results of ``method(*common, *task)``, in the order of the tasks, each given to the next free worker."""
        call = _Call(_packed((method, common)))
        return self._threads.map(lambda task: self._ask(call, task), tasks)

    def _ask(self, call: _Call, task: tuple[Any, ...]) -> Any:
        packed = _packed(task)  # before anything is sent: a worker must not be left with half a question
        worker = self._free.get()
        try:
            news = worker.told is not call
            worker.pipe.send(news)
            if news:
                _send(worker.pipe, call.common)
                worker.told = call
            _send(worker.pipe, packed)
            error, result = _receive(worker.pipe)
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


Packed = tuple[bytes, list[memoryview]]


def _packed(value: Any) -> Packed:
    """A pickle, and the arrays it holds as they lie in memory: no copy of them is made on the way."""
    arrays: list[pickle.PickleBuffer] = []
    rest = pickle.dumps(value, protocol=5, buffer_callback=arrays.append)  # trees of tensors: see Tree.__getstate__
    return rest, [array.raw() for array in arrays]


def _send(connection: Connection, packed: Packed) -> None:
    rest, arrays = packed
    connection.send((rest, [array.nbytes for array in arrays]))
    for array in arrays:
        left = array
        while left.nbytes:
            left = left[os.write(connection.fileno(), left) :]


def _receive(connection: Connection) -> Any:
    rest, sizes = connection.recv()
    arrays = [np.empty(size, np.uint8) for size in sizes]
    for array in arrays:
        view = array.data
        while view.nbytes:
            read = os.readv(connection.fileno(), [view])
            if not read:
                raise EOFError
            view = view[read:]
    return pickle.loads(rest, buffers=arrays)


# -- in the worker process ---------------------------------------------------------------------------------------------


def _serve(parent: Connection, parent_id: int, make: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    threading.Thread(target=_end_with, args=(parent_id,), daemon=True).start()
    torch.set_num_threads(1)
    bench = make(*arguments)
    method, common = "", ()
    while True:
        if parent.recv():
            method, common = _receive(parent)
        task = _receive(parent)
        try:
            answer = _packed((None, getattr(bench, method)(*common, *task)))
        except Exception as error:
            error.add_note(f"in worker process {os.getpid()}:\n{traceback.format_exc()}")
            answer = _packed((error, None))
        _send(parent, answer)


def _end_with(parent: int) -> None:
    """A parent that was killed cannot tell its workers to stop."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)

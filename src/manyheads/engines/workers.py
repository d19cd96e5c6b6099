"""Worker processes, each with a pipe of its own: one that dies, at whatever instant, is noticed and never waited for."""

from __future__ import annotations

import gc
import os
import pickle
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

import torch

from manyheads.core.errors import UserError
from manyheads.core.interrupts import held, leave_to_parent

__all__ = ["Workers"]

H = TypeVar("H")
C = TypeVar("C")
T = TypeVar("T")
R = TypeVar("R")


@dataclass(eq=False)
class _Call:
    """One map: the job and what its tasks have in common, which each worker is told once."""

    common: Packed


@dataclass
class _Worker:
    pipe: Connection
    told: _Call | None = None


class Workers(Generic[H]):
    """``count`` processes that each hold ``make(*arguments)`` and do jobs with it.

    A thread here waits for each of them, so that all are busy while results are being used.
    """

    def __init__(self, count: int, context: BaseContext, make: Callable[..., H], arguments: tuple[Any, ...]) -> None:
        self._processes: list[Any] = []
        self._free: SimpleQueue[_Worker] = SimpleQueue()
        self._threads = ThreadPoolExecutor(count)
        if context.get_start_method() != "fork":
            resource_tracker.ensure_running()  # would let signals through when it is started with the first worker
        try:
            with held():
                for _ in range(count):
                    self._start(context, make, arguments)
        except OSError as error:
            self.close()
            raise UserError(
                f"cannot start {count} worker processes: {error.strerror}",
                fix="use fewer --workers, or allow more processes and open files (ulimit -u, -n)",
            ) from error
        except BaseException:
            self.close()
            raise

    def _start(self, context: BaseContext, make: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        here, there = context.Pipe()
        process: Any = context.Process(  # type: ignore[attr-defined]
            target=_serve, args=(there, os.getpid(), make, arguments), daemon=True
        )
        process.start()
        there.close()  # before the next one is forked: the only copy is the worker's, and ends with it
        self._processes.append(process)
        self._free.put(_Worker(here))

    def map(self, job: Callable[[H, C, T], R], common: C, tasks: Sequence[T]) -> Iterator[R]:
        """The results of ``job(held, common, task)``, in the order of the tasks, each given to the next free worker."""
        call = _Call(_packed((job, common)))
        return self._threads.map(lambda task: self._ask(call, task), tasks)

    def _ask(self, call: _Call, task: Any) -> Any:
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
        with held():
            for process in self._processes:
                process.kill()
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
    arrays = [torch.empty(size, dtype=torch.uint8).numpy() for size in sizes]  # see core.trees.aligned
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
    gc.freeze()  # what the parent left is not ours to tidy up: its threads, which that may wait for, are not here
    leave_to_parent()
    threading.Thread(target=_end_with, args=(parent_id,), daemon=True).start()
    torch.set_num_threads(1)
    held: Any = None
    job: Any = None
    common: Any = None
    failure: Exception | None = None
    try:
        held = make(*arguments)
    except Exception as error:
        failure = error  # told when something is asked
    with suppress(EOFError, ConnectionError):  # the parent is gone
        while True:
            if parent.recv():
                job, common = _receive(parent)
            task = _receive(parent)
            try:
                if failure is not None:
                    raise failure
                answer = _packed((None, job(held, common, task)))
            except Exception as error:
                answer = _packed((_portable(error), None))
            _send(parent, answer)


def _portable(error: Exception) -> Exception:
    """The error with its traceback as a note; as plain words if it cannot be sent as it is."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        error = RuntimeError("".join(traceback.format_exception_only(error)).strip()).with_traceback(
            error.__traceback__
        )
    error.add_note(f"in worker process {os.getpid()}:\n{''.join(traceback.format_exception(error))}")
    return error


def _end_with(parent: int) -> None:
    """A parent that was killed cannot tell its workers to stop."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)

"""Worker processes, each with its own pipe, so that the death of one is noticed at once and never waited for."""

from __future__ import annotations

import gc
import itertools
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
from manyheads.engines.ordered import in_order

__all__ = ["Workers", "portable"]

H = TypeVar("H")
C = TypeVar("C")
T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class _Call:
    """One call of ``map``: its job and the argument common to its tasks, pickled, which each worker receives once."""

    number: int
    common: Packed


@dataclass
class _Worker:
    pipe: Connection
    told: int = -1
    """number of the call whose common argument it has"""


class Workers(Generic[H]):
    """Up to ``most`` processes that each hold ``make(*arguments)`` and run jobs with it; started as tasks need them.

    A thread of this process waits for each of them, so that all stay busy while the caller uses earlier results.
    """

    def __init__(self, most: int, context: BaseContext, make: Callable[..., H], arguments: tuple[Any, ...]) -> None:
        self._most, self._context, self._made = most, context, (make, arguments)
        self._processes: list[Any] = []
        self._free: SimpleQueue[_Worker] = SimpleQueue()
        self._threads = ThreadPoolExecutor(most)
        self._numbers = itertools.count()

    def _start_for(self, tasks: int) -> None:
        """Start processes until there is one for each task, or as many as there may be."""
        wanted = min(tasks, self._most)
        if len(self._processes) >= wanted:
            return
        if self._context.get_start_method() != "fork":
            resource_tracker.ensure_running()  # if started with the first worker, it would unblock signals
        try:
            with held():  # no started process may escape close()
                while len(self._processes) < wanted:
                    self._start()
        except OSError as error:
            self.close()
            raise UserError(
                f"cannot start {wanted} worker processes: {error.strerror}",
                fix="use fewer --workers, or allow more processes and open files (ulimit -u, -n)",
            ) from error
        except BaseException:
            self.close()
            raise

    def _start(self) -> None:
        here, there = self._context.Pipe()
        process: Any = self._context.Process(  # type: ignore[attr-defined]
            target=_serve, args=(there, os.getpid(), *self._made), daemon=True
        )
        process.start()
        there.close()  # before the next fork, so that only this worker holds its end and its death closes it
        self._processes.append(process)
        self._free.put(_Worker(here))

    def map(self, job: Callable[[H, C, T], R], common: C, tasks: Sequence[T], large: bool = False) -> Iterator[R]:
        """The results of ``job(held, common, task)``, in the order of the tasks, each given to the next free worker."""
        call = _Call(next(self._numbers), _packed((job, common)))
        self._start_for(len(tasks))
        ahead = 2 * len(self._processes) if large else None
        return in_order(lambda task: self._threads.submit(self._ask, call, task), tasks, ahead)

    def _ask(self, call: _Call, task: Any) -> Any:
        packed = _packed(task)  # may fail, so before anything is sent: a worker must not wait for the rest
        worker = self._free.get()
        try:
            news = worker.told != call.number
            worker.pipe.send(news)
            if news:
                _send(worker.pipe, call.common)
                worker.told = call.number  # not the call itself, which holds the server's state
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
        """Kill the processes, whatever they are doing."""
        with held():
            for process in self._processes:
                process.kill()
            for process in self._processes:
                process.join()
            self._threads.shutdown(cancel_futures=True)


Packed = tuple[bytes, list[memoryview]]


def _packed(value: Any) -> Packed:
    """The pickle of a value, with its arrays as separate buffers, so that they are sent without being copied."""
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
    gc.freeze()  # never collect the parent's objects: that may wait for its threads, which do not exist here
    leave_to_parent()
    threading.Thread(target=_end_with, args=(parent_id,), daemon=True).start()
    torch.set_num_threads(1)
    held: Any = None
    job: Any = None
    common: Any = None
    failure: Exception | None = None
    try:
        held = make(*arguments)
        if os.getppid() != parent_id:  # what was made may have hold of files, too late for a run that goes on with them
            return
    except Exception as error:
        failure = error  # sent in reply to the first task
    with suppress(EOFError, ConnectionError):  # the parent is gone
        while True:
            if parent.recv():
                job = common = None  # let go of before the next one takes memory; so are task and answer below
                job, common = _receive(parent)
            task = _receive(parent)
            try:
                if failure is not None:
                    raise failure
                answer = _packed((None, job(held, common, task)))
            except Exception as error:
                answer = _packed((portable(error, f"worker process {os.getpid()}"), None))
            _send(parent, answer)
            del task, answer


def portable(error: Exception, where: str) -> Exception:
    """The error with its traceback as a note; a RuntimeError with its message if it cannot be pickled."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        error = RuntimeError("".join(traceback.format_exception_only(error)).strip()).with_traceback(
            error.__traceback__
        )
    error.add_note(f"in {where}:\n{''.join(traceback.format_exception(error))}")
    return error


def _end_with(parent: int) -> None:
    """Exit when the parent process is gone: if killed, it cannot stop its workers."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)

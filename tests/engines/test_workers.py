"""Worker processes that fail, die and are ended in the middle of an answer."""

from __future__ import annotations

import gc
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from pickle import PicklingError

import pytest
import torch

from manyheads.core.errors import UserError
from manyheads.core.trees import Tree
from manyheads.engines.workers import Workers


class Told:
    """Something that all tasks of a call have in common."""

    sent = 0

    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self) -> tuple[type, tuple[int]]:
        Told.sent += 1
        return Told, (self.number,)


class Bench:
    """What the workers hold in these tests."""

    def __init__(self, base: int) -> None:
        self.base = base


def add(bench: Bench, common: None, task: tuple[int, float] | int) -> int:
    value, seconds = task if isinstance(task, tuple) else (task, 0)
    time.sleep(seconds)
    return bench.base + value


def double(bench: Bench, common: None, values: Tree) -> Tree:
    return 2 * values


def told(bench: Bench, common: Told, value: int) -> tuple[int, int]:
    return id(common), common.number + value


def zeros(bench: Bench, common: None, size: int) -> torch.Tensor:
    return torch.zeros(size)


def tidy_up(bench: Bench, common: None, task: None) -> int:
    return gc.collect()


def fail(bench: Bench, common: None, error: Exception) -> None:
    raise error


def fail_with(bench: Bench, common: None, words: tuple[str, str]) -> None:
    raise Unpicklable(*words)


def die(bench: Bench, common: None, task: None) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture(params=["fork", "spawn"])
def workers(request):
    workers = Workers(2, multiprocessing.get_context(request.param), Bench, (10,))
    yield workers
    workers.close()


def test_results_come_in_the_order_of_the_tasks(workers):
    tasks = [(i, 0.05 if i == 0 else 0) for i in range(20)]
    assert list(workers.map(add, None, tasks)) == [10 + i for i in range(20)]


def test_no_more_processes_are_started_than_there_are_tasks():
    workers = Workers(3, multiprocessing.get_context("fork"), Bench, (10,))
    counts = [len(workers._processes)]
    for tasks in ([1], [1, 2], [1], range(20)):
        assert list(workers.map(add, None, tasks)) == [10 + task for task in tasks]
        counts.append(len(workers._processes))
    workers.close()
    assert counts == [0, 1, 2, 2, 3]


def test_of_large_results_few_wait_for_the_first(workers):
    """While the first task takes its time, the other worker goes on, but not to the end of the list."""
    begun = []

    class Noted(list):
        def __iter__(self):
            for task in super().__iter__():
                begun.append(task)
                yield task

    tasks = Noted([(i, 0.5 if i == 0 else 0) for i in range(20)])
    results = workers.map(add, None, tasks, large=True)
    assert [value for value, _ in begun] == [0, 1, 2, 3]
    assert [next(results), next(results)] == [10, 11]
    assert len(begun) == 5
    assert list(results) == [10 + i for i in range(2, 20)]


def test_what_all_tasks_have_in_common_is_packed_once_and_held_by_each_worker(workers):
    for number in (100, 200):
        before = Told.sent
        found = list(workers.map(told, Told(number), range(12)))
        assert [value for _, value in found] == [number + i for i in range(12)]
        assert Told.sent == before + 1
        assert len({place for place, _ in found}) <= 2


def test_trees_travel_whatever_their_strides_and_can_be_written_to(workers):
    given = [torch.arange(6.0).reshape(2, 3).T, torch.ones(1).expand(4), torch.tensor(1.5)]
    for value, result in zip(given, workers.map(double, None, [Tree({"w": v}) for v in given]), strict=True):
        assert torch.equal(result["w"], 2 * value)
        result["w"].add_(1)


def test_an_error_in_a_worker_is_raised_here_with_its_traceback_and_the_worker_goes_on(workers):
    with pytest.raises(UserError, match="no such thing"):
        list(workers.map(fail, None, [UserError("no such thing")]))
    with pytest.raises(KeyError) as caught:
        list(workers.map(fail, None, [KeyError("x")]))
    assert "in fail" in caught.value.__notes__[0]
    assert list(workers.map(add, None, [1, 2, 3])) == [11, 12, 13]


def test_a_task_that_cannot_be_sent_leaves_the_workers_ready(workers):
    for _ in range(4):
        with pytest.raises((AttributeError, TypeError, PicklingError)):
            list(workers.map(add, None, [lambda: 1]))
    assert list(workers.map(add, None, [1, 2, 3])) == [11, 12, 13]


def test_a_worker_that_dies_is_one_clear_line(workers):
    with pytest.raises(UserError, match="a worker process ended unexpectedly.*--resume"):
        list(workers.map(die, None, [None]))


ENDED_IN_THE_MIDDLE = """
import multiprocessing, random, sys, time
from test_workers import Bench, Workers, zeros

draws = random.Random(0)
for _ in range(20):
    workers = Workers(2, multiprocessing.get_context("fork"), Bench, (0,))
    results = workers.map(zeros, None, [5_000_000] * 8)
    next(results)
    time.sleep(draws.random() / 50)
    workers.close()
print("ended")
"""


def test_ended_while_a_large_result_is_on_its_way():
    """A worker that is ended leaves half a message behind; nobody may wait for the other half."""
    here = Path(__file__).parent
    done = subprocess.run([sys.executable, "-c", ENDED_IN_THE_MIDDLE], cwd=here, capture_output=True, text=True)
    assert done.stdout == "ended\n", done.stderr


INTERRUPTED = """
import multiprocessing, os, signal
from test_workers import Bench, Workers, add

todo = [lambda: os.kill(os.getpid(), signal.SIGINT)]
os.register_at_fork(after_in_parent=lambda: todo and todo.pop()())
try:
    Workers(3, multiprocessing.get_context("fork"), Bench, (0,)).map(add, None, [1, 2, 3])
    print("went on")
except KeyboardInterrupt:
    print("stopped,", len(multiprocessing.active_children()), "left")
"""


def test_an_interrupt_while_they_are_started_stops_and_leaves_none():
    """What is raised while a process is being forked would only be printed."""
    here = Path(__file__).parent
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], cwd=here, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("stopped, 0 left\n", "")


def test_workers_leave_stops_to_their_parent(workers):
    """Ctrl-C, a hangup of the terminal and a polite kill may reach all processes of a group."""
    list(workers.map(add, None, [1, 2]))
    assert len(workers._processes) == 2
    for process in workers._processes:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(process.pid, number)
    assert list(workers.map(add, None, range(6))) == [10 + i for i in range(6)]


class Unpicklable(Exception):
    def __init__(self, one: str, two: str) -> None:
        super().__init__(f"{one} and {two}")


def test_an_error_that_cannot_be_sent_is_told_in_words(workers):
    with pytest.raises(RuntimeError, match="this and that"):
        list(workers.map(fail_with, None, [("this", "that")]))


def broken(_: int) -> None:
    raise MemoryError


def test_a_worker_that_cannot_be_made_says_why():
    workers = Workers(2, multiprocessing.get_context("fork"), broken, (0,))
    with pytest.raises(MemoryError):
        list(workers.map(add, None, [1, 2]))
    workers.close()


def test_too_few_file_handles_are_one_clear_line_and_leave_no_process():
    before, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(os.listdir("/dev/fd"))  # noqa: PTH208
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 20, hard))
    try:
        with pytest.raises(
            UserError, match="cannot start 60 worker processes: Too many open files; use fewer --workers"
        ):
            Workers(60, multiprocessing.get_context("fork"), Bench, (0,)).map(add, None, range(60))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (before, hard))
    assert multiprocessing.active_children() == []


class Owned:
    """Something that must not be finalized by another process, as a pool of threads."""

    def __init__(self, log: Path) -> None:
        self.log, self.owner, self.itself = log, os.getpid(), self

    def __del__(self) -> None:
        if os.getpid() != self.owner:
            self.log.write_text("finalized elsewhere")


def test_garbage_of_the_parent_is_left_alone(tmp_path):
    gc.collect()
    gc.disable()  # so that it is still there when the worker is forked
    try:
        Owned(tmp_path / "log")
        workers = Workers(1, multiprocessing.get_context("fork"), Bench, (0,))
        assert list(workers.map(tidy_up, None, [None])) != []
        workers.close()
    finally:
        gc.enable()
    assert not (tmp_path / "log").exists()

"""One engine on one workload, in a process of its own: a timing for every line on its standard input.

``python benchmarks/child.py ENGINE WORKLOAD``, where ENGINE is plain, ours (both also as plain-1, ours-1), api,
compare-ROUNDS, peak or memory; the answer to a line is the seconds of one round (or one evaluation), and
the seconds of processor time that this process spent on it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import torch
from plain import Plain
from workloads import WORKLOADS, Workload

from manyheads import Engine, compare, simulate
from manyheads.core.round_end import RoundEnd
from manyheads.engines.executor import InProcess
from manyheads.engines.jobs import train_chunk

API_ROUNDS = 5
COMPARED = {"seeds": 1, "folds": 2, "rates": (0.03, 0.1), "baselines": ("majority",), "pooled": False}
"""a small comparison"""


def main(engine: str, name: str) -> None:
    workload = WORKLOADS[name]
    kind, _, count = engine.partition("-")
    if kind == "ours":
        time_ours(workload, workers=int(count or 0))
        return
    if count and kind == "plain":
        torch.set_num_threads(int(count))
    kinds = {"peak": time_peak, "memory": lambda: time_memory(workload), "api": lambda: time_api(workload)}
    kinds["compare"] = lambda: time_compare(workload, int(count))
    rounds = kinds.get(kind, lambda: time_plain(workload))()
    spent = time.process_time()
    for _, seconds in zip(sys.stdin, rounds, strict=False):
        print(seconds, (time.process_time() - spent) / workload.rounds, flush=True)
        spent = time.process_time()


def time_plain(workload: Workload) -> Iterator[float]:
    plain = Plain(workload)
    while True:
        start = time.perf_counter()
        for _ in range(workload.rounds):
            if workload.evaluation:
                plain.evaluate()
            else:
                plain.round()
        yield (time.perf_counter() - start) / workload.rounds


def time_ours(workload: Workload, workers: int) -> None:
    """Rounds of an ordinary run; between two timings it waits where a user's own code would be called."""
    timed: list[float] = []
    sys.stdin.readline()
    left, spent = time.perf_counter(), time.process_time()

    def on_round(end: RoundEnd) -> None:
        nonlocal left, spent
        whole = time.perf_counter() - left
        seconds = end.record["seconds"]
        timed.append(whole - seconds if workload.evaluation else seconds)
        if len(timed) == workload.rounds:
            print(sum(timed) / len(timed), (time.process_time() - spent) / len(timed), flush=True)
            timed.clear()
            if not sys.stdin.readline():
                raise SystemExit
            spent = time.process_time()
        left = time.perf_counter()

    workload.run(workers, on_round)


def time_api(workload: Workload) -> Iterator[float]:
    """A round of a short run as a user starts it, with nothing said about speed: processes, files and evaluations included."""
    model, federation = workload.model(), workload.federation()
    while True:
        start = time.perf_counter()
        simulate(workload.algorithm, model, federation, rounds=API_ROUNDS * workload.rounds)
        yield (time.perf_counter() - start) / (API_ROUNDS * workload.rounds)


def time_compare(workload: Workload, rounds: int) -> Iterator[float]:
    """A comparison of the method with training alone, and with nothing said about speed: its seconds, over the number of
    the workload's rounds that have as many local steps as all that it trains."""
    model, federation = workload.model(), workload.federation()
    batch, steps = workload.algorithm.batch, 0

    def steps_of(sizes: Any) -> int:
        return int((-(-sizes // batch)).sum())

    def counted(
        self: Any, job: Callable[..., Any], common: Any, tasks: Sequence[Any], large: bool = False
    ) -> Iterator[Any]:
        nonlocal steps
        for task in tasks:
            if job is train_chunk:
                steps += steps_of(self.held.federation.train.sizes[task.members.rows])
            yield job(self.held, common, task)

    settings = {"methods": [workload.algorithm], "rounds": rounds, "local_rounds": rounds, **COMPARED}
    with mock.patch.object(InProcess, "map", counted):
        compare(federation, model, engine=Engine(workers=1), **settings)
    whole = steps / steps_of(federation.train.sizes)
    while True:
        start = time.perf_counter()
        compare(federation, model, **settings)
        yield (time.perf_counter() - start) / whole


def time_peak(size: int = 2048) -> Iterator[float]:
    """Seconds per floating-point operation of a large matrix product in single precision."""
    a = torch.rand(size, size)
    while True:
        start = time.perf_counter()
        for _ in range(4):
            a @ a
        yield (time.perf_counter() - start) / (4 * 2 * size**3)


def time_memory(workload: Workload, repeats: int = 50) -> Iterator[float]:
    """Seconds per byte of adding one array to another, each as large as a model of the workload, if all cores could do
    that at the speed of one: several threads on so small an array would wait for each other."""
    cores = torch.get_num_threads()
    torch.set_num_threads(1)
    a = torch.rand(workload.model().params.all.numel)
    b = torch.rand(len(a))
    while True:
        start = time.perf_counter()
        for _ in range(repeats):
            a.add_(b)
        yield (time.perf_counter() - start) / (repeats * 3 * a.nbytes * cores)


if __name__ == "__main__":
    main(*sys.argv[1:])

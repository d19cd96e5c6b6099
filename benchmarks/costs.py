"""Where one way of training clients becomes faster than another: ``python benchmarks/costs.py [--turns N]``.

The constants of ``src/manyheads/engines/ways.py`` stand beside what is measured here: the size of a model from which on
stacking its clients no longer pays, the number of clients in a stack that is fastest, and the work from which on a second
worker pays. Ways take turns, on one thread; processor time counts, except for workers, where seconds do. Ratios are those of
a turn, with quartiles. Writes benchmarks/results/costs.json.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

from torch import nn
from workloads import Workload, classified

from manyheads import SGD, FedAvg, Model
from manyheads.core.contract import Round
from manyheads.core.machine import machine_facts
from manyheads.engines import chunks, ways
from manyheads.engines.client_data import ClientData
from manyheads.engines.cohort import LocalCohort
from manyheads.engines.executor import one_thread
from manyheads.models import TriedModel

RESULT = Path(__file__).parent / "results" / "costs.json"
CLIENTS, SAMPLES, INPUTS = 8, 30, 100
OPT = SGD(lr=0.01, momentum=0.5)


def net(width: int, activation: type[nn.Module]) -> Model:
    """Two hidden layers; with GELU they are trained by autograd, with ReLU by hand."""
    layers = nn.Linear(INPUTS, width), activation(), nn.Linear(width, width), activation(), nn.Linear(width, 10)
    return Model(nn.Sequential(*layers), head="4")


def cohort_of(clients: int, model: Model) -> tuple[TriedModel, ClientData]:
    federation = classified(clients, SAMPLES, (INPUTS,))
    data = ClientData.of(federation.train, federation.task, next(iter(model.params.all.values())))
    return model.tried(data.x[:2], federation.task, federation.outputs), data


def trained(tried: TriedModel, data: ClientData, mode: ways.Mode) -> float:
    """Processor seconds of one epoch of all clients."""
    count = len(data.sizes)
    begin = time.process_time()
    cohort = LocalCohort(tried, data, range(count), Round(1, 0, count, count), mode)
    cohort.sgd(tried.params.all, opt=OPT, batch=10, epochs=1)
    return time.process_time() - begin


def turns_of(count: int, first: Callable[[], float], second: Callable[[], float]) -> list[float]:
    """The ratio of two timings in each of so many turns, after one to warm up."""
    found = []
    for turn in range(count + 1):
        if turn % 2:
            a = first()
            b = second()
        else:
            b = second()
            a = first()
        found.append(a / b)
    return found[1:]


def stacking(activation: type[nn.Module], widths: list[int], turns: int) -> list[dict[str, Any]]:
    """Clients one after another over the same clients stacked, by the number of parameters."""
    rows = []
    for width in widths:
        tried, data = cohort_of(CLIENTS, net(width, activation))
        ratios = turns_of(turns, lambda: trained(tried, data, "loop"), lambda: trained(tried, data, "stacked"))  # noqa: B023
        rows.append({"parameters": tried.params.all.numel, "ratios": ratios})
        print(f"  {rows[-1]['parameters']:>10,} parameters: {told(ratios)}", flush=True)
    return rows


def stack_sizes(widths: list[int], sizes: list[int], turns: int) -> list[dict[str, Any]]:
    """Seconds a client in stacks of so many clients over those in a stack of four, by the number of parameters."""
    rows = []
    for width in widths:
        model = net(width, nn.ReLU)
        four = cohort_of(4, model)
        for size in sizes:
            tried, data = cohort_of(size, model)
            ratios = turns_of(
                turns,
                lambda: trained(tried, data, "stacked") / size,  # noqa: B023
                lambda: trained(*four, "stacked") / 4,  # noqa: B023
            )
            rows.append({"parameters": model.params.all.numel, "clients": size, "ratios": ratios})
            print(f"  {model.params.all.numel:>10,} parameters, {size:>4} clients: {told(ratios)}", flush=True)
    return rows


def dividing(widths: list[int], turns: int) -> list[dict[str, Any]]:
    """Seconds of a round as one chunk over those as two, with two workers, by parameters times samples."""
    rows = []
    for width in widths:
        model = net(width, nn.ReLU)
        work = Workload(
            "", "", FedAvg(epochs=1, batch=10), lambda model=model: model, lambda: classified(20, SAMPLES, (INPUTS,)), 0
        )
        ratios = one_over_two_chunks(work, turns)
        rows.append({"work": model.params.all.numel * 20 * SAMPLES, "ratios": ratios})
        print(f"  {rows[-1]['work']:>12,} parameters x samples: {told(ratios)}", flush=True)
    return rows


class Done(Exception):
    """Enough turns."""


def one_over_two_chunks(work: Workload, turns: int) -> list[float]:
    seconds: dict[float, list[float]] = {math.inf: [], 0: []}
    border, began = math.inf, 0.0

    def on_round(*_: Any) -> None:
        nonlocal border, began, patch
        if began:
            seconds[border].append(time.perf_counter() - began)
            patch.stop()
        if len(seconds[0]) > turns:
            raise Done
        border = 0 if began and border else math.inf
        patch = mock.patch.object(chunks, "DIVIDED_ABOVE", border)
        patch.start()
        began = time.perf_counter()

    patch: Any = None
    with suppress(Done):
        work.run(2, on_round)
    return [one / two for one, two in zip(seconds[math.inf], seconds[0], strict=True)][1:]


def told(ratios: list[float]) -> str:
    low, middle, high = statistics.quantiles(ratios, n=4)
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


def crossing(rows: list[dict[str, Any]], key: str) -> float | None:
    """Where the median ratio crosses 1, between two sizes; None if it does not."""
    points = [(math.log(row[key]), math.log(statistics.median(row["ratios"]))) for row in rows]
    for (x, y), (above, over) in pairwise(points):
        if (y > 0) != (over > 0):
            return math.exp(x + (above - x) * y / (y - over))
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=11)
    turns = parser.parse_args().turns
    found: dict[str, Any] = {}
    with one_thread():
        print("loop over stacked, by autograd:")
        found["STACK_BELOW"] = stacking(nn.GELU, [32, 64, 128, 256, 512], turns)
        print("loop over stacked, chains by hand:")
        found["CHAIN_STACK_BELOW"] = stacking(nn.ReLU, [128, 256, 512, 900, 1400], turns)
        print("seconds a client, over those in stacks of four:")
        found["STACKED_WEIGHTS"] = stack_sizes([16, 128, 512], [1, 2, 8, 16, 32], turns)
    print("one chunk over two, with two workers:")
    found["DIVIDED_ABOVE"] = dividing([8, 32, 64, 128], turns)
    constants = {}
    for name, key in (("STACK_BELOW", "parameters"), ("CHAIN_STACK_BELOW", "parameters"), ("DIVIDED_ABOVE", "work")):
        at = crossing(found[name], key)
        constants[name] = {"used": getattr(ways, name), "crossing": at}
        print(f"{name}: {getattr(ways, name):,}; measured: {'no crossing' if at is None else f'{at:,.0f}'}")
    facts = {"constants": constants, "rows": found, "load": os.getloadavg()[0], "machine": machine_facts()}
    RESULT.write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()

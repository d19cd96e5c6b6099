"""Where one way of training clients becomes faster than another: ``python benchmarks/costs.py [--turns N] [--only NAME ...]``.

The constants of ``src/manyheads/engines/ways.py`` stand beside what is measured here: the size of a model, and the work of
its convolutions, from which on stacking its clients no longer pays, the number of clients in a stack that is fastest, and the work from which on a second
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
from contextlib import nullcontext, suppress
from itertools import pairwise, product
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
from manyheads.engines.threads import one_thread
from manyheads.models import TriedModel

RESULT = Path(__file__).parent / "results" / "costs.json"
CLIENTS, SAMPLES, INPUTS = 8, 30, 100
OPT = SGD(lr=0.01, momentum=0.5)


def net(width: int, activation: type[nn.Module]) -> Model:
    """Two hidden layers; with GELU they are trained by autograd, with ReLU by hand."""
    layers = nn.Linear(INPUTS, width), activation(), nn.Linear(width, width), activation(), nn.Linear(width, 10)
    return Model(nn.Sequential(*layers), head="4")


def convolutional(channels: int) -> Model:
    """Two 5x5 convolutions and two linear layers, on images of 28 x 28 pixels."""
    convolutions = [nn.Conv2d(1, channels, 5), nn.ReLU(), nn.MaxPool2d(2)]
    convolutions += [nn.Conv2d(channels, 2 * channels, 5), nn.ReLU(), nn.MaxPool2d(2)]
    return Model(nn.Sequential(*convolutions, nn.Flatten(), nn.Linear(32 * channels, 32), nn.ReLU(), nn.Linear(32, 10)))


def cohort_of(
    clients: int, model: Model, shape: tuple[int, ...] = (INPUTS,), samples: int = SAMPLES
) -> tuple[TriedModel, ClientData]:
    federation = classified(clients, samples, shape)
    data = ClientData.of(federation.train, federation.task, next(iter(model.params.all.values())))
    return model.tried(data.x[:2], federation.task, federation.outputs), data


def trained(tried: TriedModel, data: ClientData, mode: ways.Mode, batch: int = 10) -> float:
    """Processor seconds of one epoch of all clients."""
    count = len(data.sizes)
    begin = time.process_time()
    cohort = LocalCohort(tried, data, range(count), Round(1, 0, count, count), mode)
    cohort.sgd(tried.params.all, opt=OPT, batch=batch, epochs=1)
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


def convolving(channels: list[int], batches: list[int], turns: int) -> list[dict[str, Any]]:
    """Clients one after another over the same clients stacked, by the convolutions of a forward pass, per layer."""
    rows = []
    for count, batch in product(channels, batches):
        tried, data = cohort_of(CLIENTS, convolutional(count), (1, 28, 28), 3 * batch)
        ratios = turns_of(
            turns,
            lambda: trained(tried, data, "loop", batch),  # noqa: B023
            lambda: trained(tried, data, "stacked", batch),  # noqa: B023
        )
        rows.append({"operations": tried.convolved * batch, "batch": batch, "ratios": ratios})
    rows.sort(key=lambda row: row["operations"])
    for row in rows:
        print(f"  {row['operations']:>12,.0f} operations, batch {row['batch']}: {told(row['ratios'])}", flush=True)
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


MEASURED: dict[str, tuple[str, str, Callable[[int], list[dict[str, Any]]]]] = {
    "STACK_BELOW": (
        "loop over stacked, by autograd",
        "parameters",
        lambda turns: stacking(nn.GELU, [32, 64, 128, 256, 512], turns),
    ),
    "CHAIN_STACK_BELOW": (
        "loop over stacked, chains by hand",
        "parameters",
        lambda turns: stacking(nn.ReLU, [128, 256, 512, 900, 1400], turns),
    ),
    "CONVOLVED_STACK_BELOW": (
        "loop over stacked, convolutions",
        "operations",
        lambda turns: convolving([2, 4, 8, 16], [10, 50], turns),
    ),
    "STACKED_WEIGHTS": (
        "seconds a client, over those in stacks of four",
        "parameters",
        lambda turns: stack_sizes([16, 128, 512], [1, 2, 8, 16, 32], turns),
    ),
    "DIVIDED_ABOVE": (
        "one chunk over two, with two workers",
        "work",
        lambda turns: dividing([8, 32, 64, 128], turns),
    ),
}
"""what is measured for each constant, and by what it is given; of STACKED_WEIGHTS there is no constant"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=11)
    parser.add_argument("--only", nargs="*", choices=list(MEASURED), default=list(MEASURED), help="constants")
    options = parser.parse_args()
    before = json.loads(RESULT.read_text()) if RESULT.exists() else {"rows": {}, "constants": {}}
    found, constants = before["rows"], before["constants"]
    for name in options.only:
        words, key, measure = MEASURED[name]
        print(f"{words}:")
        with one_thread() if name != "DIVIDED_ABOVE" else nullcontext():
            found[name] = measure(options.turns)
        if hasattr(ways, name):
            at = crossing(found[name], key)
            constants[name] = {"used": getattr(ways, name), "crossing": at}
            print(f"{name}: {getattr(ways, name):,}; measured: {'no crossing' if at is None else f'{at:,.0f}'}")
    facts = {
        "constants": {name: constants[name] for name in MEASURED if name in constants},
        "rows": {name: found[name] for name in MEASURED if name in found},
        "load": os.getloadavg()[0],
        "machine": machine_facts(),
    }
    RESULT.write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()

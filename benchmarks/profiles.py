"""Where the time of a round goes, with one worker: ``python benchmarks/profiles.py [WORKLOAD ...]``.

By torch's profiler, over about three seconds of rounds of each workload. What no operation of torch accounts for is
Python, and what the profiler itself costs. Writes benchmarks/results/profiles.json.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from torch.profiler import ProfilerActivity, profile
from workloads import WORKLOADS, Workload, known

from manyheads.core.machine import machine_facts
from manyheads.core.round_end import RoundEnd

RESULT = Path(__file__).parent / "results" / "profiles.json"
SECONDS = 3.0
KINDS = {
    "products": ("mm", "addmm", "bmm", "baddbmm", "linear", "einsum"),
    "convolutions": ("mkldnn_convolution", "convolution_backward"),
    "LSTM": ("mkldnn_rnn", "lstm"),
    "activations, pooling, loss": ("relu", "clamp_min", "threshold", "elu", "pool", "softmax", "nll", "exp", "scatter", "gather"),
    "updates": ("add", "mul", "sub", "div", "foreach", "lerp"),
    "copies and gathering of samples": ("copy", "index", "cat", "fill", "zero", "clone", "contiguous", "embedding"),
    "factorisations": ("linalg", "cholesky"),
}  # fmt: skip
OTHER, PYTHON = "other operations", "Python"


class Done(Exception):
    """Enough was seen."""


def kind_of(operation: str) -> str:
    """The kind of an operation of torch; the first whose words begin its name (or, for long ones, are in it)."""
    name = operation.removeprefix("aten::").strip("_")
    for kind, words in KINDS.items():
        if any(name == w or name.startswith(w + "_") or (len(w) > 3 and w in name) for w in words):
            return kind
    return OTHER


def shares(workload: Workload) -> dict[str, float]:
    """The part of the time of each kind of operation."""
    watch = profile(activities=[ProfilerActivity.CPU])
    started = 0.0

    def on_round(end: RoundEnd) -> None:
        nonlocal started
        if end.record["round"] == 2:  # after a warm-up
            watch.__enter__()
            started = time.perf_counter()
        elif end.record["round"] > 2 and time.perf_counter() - started >= SECONDS:
            raise Done

    try:
        workload.run(1, on_round)
    except Done:
        seconds = time.perf_counter() - started
        watch.__exit__(None, None, None)
    spent = dict.fromkeys([*KINDS, OTHER], 0.0)
    for event in watch.key_averages():
        spent[kind_of(event.key)] += event.self_cpu_time_total / 1e6
    found = {kind: value / seconds for kind, value in spent.items()}
    return found | {PYTHON: max(0.0, 1 - sum(found.values()))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workloads", nargs="*", type=known, default=list(WORKLOADS))
    options = parser.parse_args()
    rows = json.loads(RESULT.read_text())["rows"] if RESULT.exists() else {}
    for name in options.workloads:
        rows[name] = shares(WORKLOADS[name])
        print(name, ", ".join(f"{kind} {100 * v:.0f} %" for kind, v in rows[name].items() if v >= 0.005), flush=True)
    ordered = {name: rows[name] for name in WORKLOADS if name in rows}
    RESULT.write_text(json.dumps({"rows": ordered, "machine": machine_facts()}, indent=2) + "\n")


if __name__ == "__main__":
    main()

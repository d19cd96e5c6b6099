"""What Ray costs: two actors of an instance on this machine against two worker processes. ``python benchmarks/cluster.py``.

Each runs in a process of its own; both are interleaved and repeated, and the ratio is that of neighbours. Start-up is what
a run of a few rounds takes beyond these rounds, with imports of Ray, torch and this package in the actors. Writes
benchmarks/results/cluster.json.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
ROUNDS = 12
SIZES = {10_000: 200, 100_000: 200, 1_000_000: 40, 10_000_000: 10}
"""parameters of the model, and samples of each of the 16 clients"""
EXECUTORS = ("local", "ray")


def measure(executor: str, parameters: int) -> dict[str, float]:
    """FedAvg, one epoch at batch 10, with two workers or actors."""
    from workloads import classified, mlp_of

    from manyheads import Engine, Evaluate, FedAvg, simulate
    from manyheads.engines.chunks import chunked

    federation, model = classified(16, SIZES[parameters], (100,)), mlp_of(parameters)
    begun = time.perf_counter()
    run = simulate(
        FedAvg(),
        model,
        federation,
        rounds=ROUNDS,
        evaluate=Evaluate(every=ROUNDS),
        engine=Engine(workers=2, executor=executor),
    )
    whole = time.perf_counter() - begun
    seconds = [s for _, s in run.history.column("seconds")]
    usual = statistics.median(seconds[1:-1])  # the first waits for actors, the last evaluates
    chunks = len(chunked(range(16), federation.train.sizes, model.params.all.numel, "auto"))
    return {"seconds": usual, "startup": whole - sum(seconds[1:]) - usual, "chunks": chunks}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one[0], int(options.one[1]))))
        return
    from manyheads.core.machine import machine_facts

    rows = []
    for parameters in SIZES:
        found: dict[str, list[dict[str, float]]] = {executor: [] for executor in EXECUTORS}
        for _ in range(options.repeats):
            for executor in EXECUTORS:
                command = [sys.executable, __file__, "--one", executor, str(parameters)]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                found[executor].append(json.loads(done.stdout))
                print(".", end="", file=sys.stderr, flush=True)
        pairs = zip(found["ray"], found["local"], strict=True)
        row = {"parameters": parameters, "samples": SIZES[parameters], "chunks": found["local"][0]["chunks"]}
        row |= {"ratios": [ray["seconds"] / local["seconds"] for ray, local in pairs]}
        row |= {f"{e}_{k}": [f[k] for f in found[e]] for e in EXECUTORS for k in ("seconds", "startup")}
        rows.append(row)
        middle = {k: statistics.median(v) for k, v in row.items() if isinstance(v, list)}
        print(f"{parameters:>12,}", {k: round(v, 3) for k, v in middle.items()})
    facts = {"rows": rows, "repeats": options.repeats, "load": os.getloadavg()[0], "machine": machine_facts()}
    (RESULTS / "cluster.json").write_text(json.dumps(facts, indent=2) + "\n")


if __name__ == "__main__":
    main()

"""Cost against the size of the population: FedRep with personal heads, 100 clients a round, 1,000 to 1,000,000 in all.

Each population runs in a process of its own, so that its peak memory is its own; sizes are interleaved and repeated.
Prints a table and writes benchmarks/results/population.json.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROUNDS, COHORT = 5, 100
RESULT = Path(__file__).parent / "results" / "population.json"


def measure(population: int, workers: int) -> dict[str, float]:
    """One run in this process."""
    from manyheads import SGD, Engine, Evaluate, FedRep, simulate
    from manyheads.data import LinearTasks

    federation = LinearTasks(clients=population, dim=10, rank=3, samples=5, test_samples=3, classes=3).federation(
        seed=0
    )
    with tempfile.TemporaryDirectory() as folder:
        run = simulate(
            FedRep(head_epochs=5, sgd=SGD(lr=0.1)),
            "mlp",
            federation,
            rounds=ROUNDS,
            cohort=COHORT,
            evaluate=Evaluate(who="sampled"),
            engine=Engine(workers=workers),
            out=Path(folder) / "run",
        )
        store = Path(folder) / "run" / "checkpoint" / "personal.safetensors"
        seconds = [s for _, s in run.history.column("seconds")]
        return {
            "population": population,
            "seconds_per_round": statistics.median(seconds),
            "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            "store_logical_mb": store.stat().st_size / 1e6,
            "store_on_disk_mb": store.stat().st_blocks * 512 / 1e6,
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--populations", default="1000,10000,100000,1000000")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one, workers=1)))
        return
    from manyheads.core.machine import machine_facts

    populations = [int(p) for p in options.populations.split(",")]
    runs: dict[int, list[dict[str, float]]] = {p: [] for p in populations}
    for _ in range(options.repeats):
        for population in populations:
            done = subprocess.run(
                [sys.executable, __file__, "--one", str(population)], capture_output=True, text=True, check=True
            )
            runs[population].append(json.loads(done.stdout))
            print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    rows = []
    for population, results in runs.items():
        middle = {k: statistics.median(r[k] for r in results) for k in results[0]}
        spread = [r["seconds_per_round"] for r in results]
        rows.append(middle | {"population": population, "seconds_min": min(spread), "seconds_max": max(spread)})
    first = rows[0]
    print(f"FedRep, {COHORT} clients a round, {ROUNDS} rounds, median of {options.repeats} processes")
    print(f"{'population':>10} {'s/round':>9} {'ratio':>6} {'peak MB':>8} {'grown by':>9} {'store on disk':>14}")
    for row in rows:
        row["ratio"] = row["seconds_per_round"] / first["seconds_per_round"]
        row["grown_mb"] = row["peak_mb"] - first["peak_mb"]
        print(
            f"{row['population']:>10,} {row['seconds_per_round']:>9.4f} {row['ratio']:>6.2f} {row['peak_mb']:>8.0f} "
            f"{row['grown_mb']:>9.0f} {row['store_on_disk_mb']:>11.1f} MB"
        )
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(
        json.dumps({"rows": rows, "repeats": options.repeats, "machine": machine_facts()}, indent=2) + "\n"
    )


if __name__ == "__main__":
    main()

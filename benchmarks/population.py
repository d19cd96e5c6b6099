"""Cost against the size of the population: FedRep with personal heads, 100 clients a round, 1,000 to 1,000,000 in all.

Each population runs in a process of its own, so that its peak memory is its own; sizes are interleaved and repeated.
Prints a table and writes benchmarks/results/population.json.
"""

from __future__ import annotations

import resource
import statistics
import tempfile
from pathlib import Path

from apart import parsed, parser_of, repeated, write

ROUNDS, COHORT = 5, 100
RESULT = Path(__file__).parent / "results" / "population.json"


def measure(what: str, population: int) -> dict[str, float]:
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
            engine=Engine(workers=1),
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
    parser = parser_of(__doc__, 3)
    parser.add_argument("--populations", default="1000,10000,100000,1000000")
    options = parsed(parser, measure)
    runs = repeated(__file__, [("population", int(p)) for p in options.populations.split(",")], options.repeats)
    rows = []
    for (_, population), results in runs.items():
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
    write(RESULT, rows, options.repeats)


if __name__ == "__main__":
    main()

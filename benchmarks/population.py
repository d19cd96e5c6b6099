"""Cost against the size of the population: FedRep with personal heads, 100 clients a round, 1,000 to 1,000,000 in all.

Then the evaluation of all of 100,000 clients, each with its own head and three test samples, with the default engine.
Each population runs in a process of its own, so that its peak memory is its own; sizes are interleaved and repeated.
Prints a table and writes benchmarks/results/population.json.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import tempfile
import time
from pathlib import Path

from apart import parsed, parser_of, repeated, write

ROUNDS, COHORT = 5, 100
EVALUATED = 100_000
RESULT = Path(__file__).parent / "results" / "population.json"


def measure(what: str, population: int) -> dict[str, float]:
    """One run in this process; of evaluations, the seconds that a round takes beyond its training."""
    from manyheads import SGD, Engine, Evaluate, FedRep, simulate
    from manyheads.core.round_end import RoundEnd
    from manyheads.data import LinearTasks

    federation = LinearTasks(clients=population, dim=10, rank=3, samples=5, test_samples=3, classes=3).federation(
        seed=0
    )
    method = FedRep(head_epochs=5, sgd=SGD(lr=0.1))
    if what == "evaluation":
        spent, left = list[float](), time.perf_counter()

        def on_round(end: RoundEnd) -> None:
            nonlocal left
            spent.append(time.perf_counter() - left - end.record["seconds"])
            left = time.perf_counter()

        simulate(
            method, "mlp", federation, rounds=ROUNDS, cohort=COHORT, evaluate=Evaluate(every=1), on_round=on_round
        )  # fmt: skip
        return {"evaluation_seconds": statistics.median(spent[1:])}
    with tempfile.TemporaryDirectory() as folder:
        run = simulate(
            method,
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
    parser.add_argument("--populations", default="1000,10000,100000,1000000", help="'': only the evaluation")
    options = parsed(parser, measure)
    cases = [("population", int(p)) for p in options.populations.split(",") if p]
    runs = repeated(__file__, [*cases, ("evaluation", EVALUATED)], options.repeats)
    seconds = [run["evaluation_seconds"] for run in runs.pop(("evaluation", EVALUATED))]
    evaluation = {"clients": EVALUATED, "seconds": seconds, "load": os.getloadavg()[0]}
    print(f"\nan evaluation of {EVALUATED:,} clients: {statistics.median(seconds):.2f} s")
    if not cases:
        found = json.loads(RESULT.read_text()) | {"evaluation": evaluation}
        RESULT.write_text(json.dumps(found, indent=2) + "\n")
        return
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
    write(RESULT, rows, options.repeats, evaluation=evaluation)


if __name__ == "__main__":
    main()

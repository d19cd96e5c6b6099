"""What Ray costs: two actors of an instance on this machine against two worker processes. ``python benchmarks/cluster.py``.

Each runs in a process of its own; both are interleaved and repeated, and the ratio is that of neighbours. Start-up is what
a run of a few rounds takes beyond these rounds, with imports of Ray, torch and this package in the actors. Writes
benchmarks/results/cluster.json.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path

from apart import parsed, parser_of, repeated, write

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
    repeats, rows = parsed(parser_of(__doc__, 5), measure).repeats, []
    for parameters in SIZES:
        measured = repeated(__file__, [(executor, parameters) for executor in EXECUTORS], repeats)
        found = {executor: each for (executor, _), each in measured.items()}
        pairs = zip(found["ray"], found["local"], strict=True)
        row = {"parameters": parameters, "samples": SIZES[parameters], "chunks": found["local"][0]["chunks"]}
        row |= {"ratios": [ray["seconds"] / local["seconds"] for ray, local in pairs]}
        row |= {f"{e}_{k}": [f[k] for f in found[e]] for e in EXECUTORS for k in ("seconds", "startup")}
        rows.append(row)
        middle = {k: statistics.median(v) for k, v in row.items() if isinstance(v, list)}
        print(f"{parameters:>12,}", {k: round(v, 3) for k, v in middle.items()})
    write(RESULTS / "cluster.json", rows, repeats)


if __name__ == "__main__":
    main()

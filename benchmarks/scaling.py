"""Cost against size: clients a round, parameters of the model, workers. ``python benchmarks/scaling.py``.

Each size runs in a process of its own, so that its peak memory is its own; sizes are interleaved and repeated. Writes
benchmarks/results/scaling.json and, with what population.py found, the figure docs/img/scaling.svg.
"""

from __future__ import annotations

import json
import resource
import statistics
from pathlib import Path
from typing import Any

from apart import parsed, parser_of, repeated, write

HERE = Path(__file__).parent
RESULTS = HERE / "results"
ROUNDS = 6
SIZES: dict[str, list[int]] = {
    "clients a round": [10, 30, 100, 300, 1000],
    "parameters": [10_000, 100_000, 1_000_000, 10_000_000],
    "workers": [1, 2, 3, 4],
}


def measure(what: str, size: int) -> dict[str, float]:
    """FedAvg, one epoch at batch 10, in this process."""
    from workloads import classified, mlp_of

    from manyheads import Engine, Evaluate, FedAvg, simulate

    clients = size if what == "clients a round" else 16
    parameters = size if what == "parameters" else 100_000 if what == "workers" else 10_000
    federation = classified(clients, 200 if what == "workers" else 20, (100,))
    model = mlp_of(parameters)
    run = simulate(
        FedAvg(),
        model,
        federation,
        rounds=ROUNDS,
        evaluate=Evaluate(every=ROUNDS),
        engine=Engine(workers=size if what == "workers" else 1),
    )
    own, workers = (resource.getrusage(w).ru_maxrss / 1024 for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    seconds = [s for _, s in run.history.column("seconds")][1:]
    return {"seconds": statistics.median(seconds), "peak_mb": own, "worker_peak_mb": workers}


def figure(rows: list[dict[str, Any]], population: list[dict[str, Any]]) -> Any:
    """Rounds a second and peak memory against each size, on logarithmic axes."""
    import altair as alt

    points = [
        {"what": r["what"], "size": r["size"], "rounds a second": 1 / r["seconds"], "peak memory, MB": r["peak_mb"]}
        for r in rows
    ] + [
        {
            "what": "population",
            "size": r["population"],
            "rounds a second": 1 / r["seconds_per_round"],
            "peak memory, MB": r["peak_mb"],
        }
        for r in population
    ]
    panels = []
    for value in ("rounds a second", "peak memory, MB"):
        line = []
        for what in ("clients a round", "population", "parameters", "workers"):
            scale = alt.Scale(type="linear", nice=True) if what == "workers" else alt.Scale(type="log")
            ticks = alt.Axis(format="~s", tickCount=4, grid=False)
            base = alt.Chart(alt.Data(values=[p for p in points if p["what"] == what]), width=170, height=150)
            line.append(
                base.mark_line(point=True).encode(
                    x=alt.X("size:Q", title=what, scale=scale, axis=ticks),
                    y=alt.Y(f"{value}:Q", scale=alt.Scale(type="log"), axis=alt.Axis(format="~g", tickCount=4)),
                )
            )
        panels.append(alt.hconcat(*line))
    return alt.vconcat(*panels)


def main() -> None:
    repeats, rows = parsed(parser_of(__doc__, 3), measure).repeats, []
    runs = repeated(__file__, [(what, size) for what, sizes in SIZES.items() for size in sizes], repeats)
    for (what, size), found in runs.items():
        spread = [f["seconds"] for f in found]
        middle = {k: statistics.median(f[k] for f in found) for k in found[0]}
        rows.append({"what": what, "size": size, **middle, "seconds_min": min(spread), "seconds_max": max(spread)})
        print(f"{what:>16} {size:>10,} {middle['seconds']:9.4f} s {middle['peak_mb']:7.0f} MB")
    write(RESULTS / "scaling.json", rows, repeats)
    population = json.loads((RESULTS / "population.json").read_text())["rows"]
    figure(rows, population).save(HERE.parent / "docs" / "img" / "scaling.svg")


if __name__ == "__main__":
    main()

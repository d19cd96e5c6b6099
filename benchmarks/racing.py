"""What it saves that step sizes which cannot win are not trained on: ``python benchmarks/racing.py``.

The comparison of ``make demo``, with early stopping of step sizes and without: the rounds that tuning trains, in all methods,
folds and seeds, the seconds of the whole comparison, and whether the same step sizes are chosen. Writes
benchmarks/results/racing.json.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

from manyheads import compare
from manyheads.core.machine import machine_facts
from manyheads.data.public.hospitals import Heart

RESULT = Path(__file__).parent / "results" / "racing.json"
METHODS = "fedavg,fedavg+ft,fedprox,fedper,fedrep,ditto"
WAYS = {"with early stopping": True, "without": False}


def measure(stop: bool, methods: list[str], rounds: int, seeds: int, folds: int) -> dict[str, Any]:
    """One comparison: what its tuning trained and chose."""
    federation = Heart().federation(seed=0)
    started, used = time.perf_counter(), os.times()
    found = compare(
        federation, methods=methods, rates=(0.01, 0.03, 0.1), batch=32, seeds=seeds, rounds=rounds, folds=folds, stop=stop,
    )  # fmt: skip
    seconds, now = time.perf_counter() - started, os.times()
    tried = {name: [one.rounds for one in method.rates] for name, method in found.methods.items() if method.rates}
    return {
        "seconds": seconds,
        "processor": sum(now[:4]) - sum(used[:4]),
        "tuning_rounds": sum(map(sum, tried.values())),
        "by_method": tried,
        "rates": {name: [choice.rate for choice in found[name].choices] for name in tried},
        "scores": {name: found[name].score for name in tried},
        "load": os.getloadavg()[0],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100, help="at most")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--folds", type=int, default=0, help="0: as many as is usual")
    parser.add_argument("--methods", default=METHODS)
    options = parser.parse_args()
    settings = {"methods": options.methods.split(","), "rounds": options.rounds}
    settings |= {"seeds": options.seeds, "folds": options.folds}
    rows = {words: measure(stop, **settings) for words, stop in WAYS.items()}
    first, second = rows.values()
    chosen = [
        a == b for name in second["rates"] for a, b in zip(first["rates"][name], second["rates"][name], strict=True)
    ]
    for words, row in rows.items():
        print(f"{words}: {row['tuning_rounds']:,} rounds of tuning, {row['seconds']:.1f} s in all")
    print(f"the same step size in {sum(chosen)} of {len(chosen)} choices")
    facts = {
        "rows": rows,
        "same": sum(chosen),
        "choices": len(chosen),
        "rounds": options.rounds,
        "seeds": options.seeds,
    }
    RESULT.write_text(json.dumps(facts | {"machine": machine_facts()}, indent=2) + "\n")


if __name__ == "__main__":
    main()

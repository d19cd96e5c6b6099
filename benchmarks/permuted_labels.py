"""Whole comparisons on permuted labels: how often is something found where there is nothing to find?

Labels are permuted within each site, so that no input explains them and no method can gain anything; then the whole
comparison is made, with its folds, tuning and choices. Writes results/permuted-labels.json after each one, and goes on
where it stopped::

    python benchmarks/permuted_labels.py --repetitions 200
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from manyheads import Federation, compare
from manyheads.data import source_of
from manyheads.models.mlp import MLP

RESULTS = Path(__file__).parent.parent / "results" / "permuted-labels.json"
SETTINGS: dict[str, Any] = {
    "methods": ["fedavg", "fedrep", "ditto"],
    "rounds": 10,
    "seeds": 1,
    "folds": 5,
    "rates": [0.1],
    "batch": 32,
    "baselines": ["majority", "linear"],
    "pooled": False,
}


def permuted(seed: int) -> Federation:
    """The four hospitals with the labels of each in a random order; as arrays, which are divided as they are."""
    federation = source_of({"name": "heart"}).federation(0)
    rng = np.random.default_rng(seed)
    clients = []
    for site in range(len(federation)):
        parts = [split.client(site) for split in (federation.train, federation.test)]
        x, y = (np.concatenate(each) for each in zip(*parts, strict=True))
        clients.append((x, rng.permutation(y)))
    names = federation.client_names
    return Federation.from_clients(clients, name="permuted", outputs=2, client_names=names, task="classification")


def outcome(seed: int) -> dict[str, Any]:
    """What a comparison finds; training that is called too short is taken as if it were long enough."""
    found = compare(permuted(seed), MLP(hidden=(16,)), seed=seed, **SETTINGS)
    gain = found.recommendation.gain
    methods = [found[name] for name in found.others]
    return {
        "seed": seed,
        "evidence": found.recommendation.evidence,
        "recommended": bool(gain and gain.interval and gain.interval[0] > 0),
        "gain": gain.gain if gain else None,
        "covers": bool(gain and gain.interval and gain.interval[0] <= 0 <= gain.interval[1]),
        "discoveries": [sum(row.verdict != "unclear" for row in method.gains) for method in methods],
        "sites_cover": [
            sum(bool(row.interval and row.interval[0] <= 0 <= row.interval[1]) for row in method.gains)
            for method in methods
        ],
        "sites": len(methods[0].gains),
    }


def done() -> list[dict[str, Any]]:
    return json.loads(RESULTS.read_text())["comparisons"] if RESULTS.exists() else []


def made(seeds: list[int], workers: int) -> Iterator[dict[str, Any]]:
    with get_context("spawn").Pool(workers) as pool:
        yield from pool.imap_unordered(outcome, seeds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    found = done()
    left = sorted(set(range(given.repetitions)) - {each["seed"] for each in found})
    for each in made(left, given.workers):
        found.append(each)
        table = {"settings": SETTINGS, "comparisons": sorted(found, key=lambda one: one["seed"])}
        RESULTS.write_text(json.dumps(table, indent=1) + "\n")
        print(len(found), each)


if __name__ == "__main__":
    main()

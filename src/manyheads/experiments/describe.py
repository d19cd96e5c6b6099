"""A federation in numbers: sizes, labels, and how far clients are from all together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from manyheads.core.randomness import Purpose, generator
from manyheads.data import Federation
from manyheads.metrics import total_variation, wasserstein1
from manyheads.metrics.heterogeneity import EXACT_POINTS

__all__ = ["federation_facts"]

CLIENT_POINTS, POOL_POINTS, PROJECTIONS = 500, 1000, 50
"""samples and directions with which distances of inputs are estimated"""


def federation_facts(federation: Federation, seed: int) -> dict[str, Any]:
    """Sizes, labels and distances of all clients, as plain values."""
    facts = {
        "data": federation.name,
        "task": federation.task,
        "outputs": federation.outputs,
        "label_names": list(federation.label_names),
        "sample_shape": list(federation.sample_shape),
        "clients": len(federation),
        "warnings": list(federation.warnings),
        "samples": {"train": len(federation.train.y), "test": len(federation.test.y)},
        **_differences(federation, federation, seed),
    }
    if federation.new:
        facts["new"] = {"clients": len(federation.new), **_differences(federation.new, federation, seed)}
    return facts


def _differences(federation: Federation, all_: Federation, seed: int) -> dict[str, Any]:
    """Sizes of the clients and their distances from ``all_`` clients that train."""
    clients = range(len(federation))
    facts: dict[str, Any] = {
        "names": [federation.client_name(i) for i in clients],
        "sizes": {"train": _sizes(federation.train.sizes), "test": _sizes(federation.test.sizes)},
    }
    targets = [federation.train.client(i)[1] for i in clients]
    if federation.task == "classification":
        classes = max(federation.outputs, all_.outputs)
        counts = np.array([np.bincount(y, minlength=classes) for y in targets])
        mixture = np.bincount(all_.train.y, minlength=classes)
        distances = [total_variation(c / c.sum(), mixture / mixture.sum()) for c in counts]
        facts |= {"labels": counts.tolist(), "total_variation": _summary(distances)}
    else:
        facts["targets"] = [{"mean": float(y.mean()), "std": float(y.std())} for y in targets]
        facts["target_wasserstein"] = _summary([wasserstein1(y, all_.train.y) for y in targets])
    facts["input_wasserstein"] = _input_distances(federation, all_, seed)
    return facts


def _input_distances(federation: Federation, all_: Federation, seed: int) -> dict[str, Any] | None:
    """Of each client's inputs from all; None for words and other codes, between which there is no distance."""
    if not (np.issubdtype(all_.train.x.dtype, np.floating) or all_.scaling):
        return None
    if federation.sample_shape != all_.sample_shape:
        return None
    pool = all_.train.x[_some(len(all_.train.x), POOL_POINTS, seed, 0)]
    largest = max(len(pool), int(federation.train.sizes.max()))
    # one way for all clients: exact and sliced distances are not comparable
    method = "exact" if largest <= EXACT_POINTS or pool[0].size == 1 else "sliced"
    pool = _vectors(all_, pool)
    distances = []
    for i in range(len(federation)):
        x, _ = federation.train.client(i)
        own = _vectors(federation, x[_some(len(x), CLIENT_POINTS, seed, 1, i)])
        distances.append(wasserstein1(own, pool, method=method, projections=PROJECTIONS, seed=seed))  # type: ignore[arg-type]
    return {"method": method, **_summary(distances)}


def _some(rows: int, most: int, seed: int, *address: int) -> np.ndarray:
    if rows <= most:
        return np.arange(rows)
    return np.sort(generator(seed, Purpose.SAMPLING, *address).choice(rows, most, replace=False))


def _vectors(federation: Federation, x: np.ndarray) -> np.ndarray:
    """Inputs as the model sees them."""
    if federation.scaling:
        axes = (-1, *[1] * (x.ndim - 2))
        mean, std = (np.reshape(v, axes) for v in (federation.scaling.mean, federation.scaling.std))
        x = (x / 255 - mean) / std
    return x.reshape(len(x), -1)


def _sizes(sizes: np.ndarray) -> dict[str, float]:
    return {"min": int(sizes.min()), "median": float(np.median(sizes)), "max": int(sizes.max())}


def _summary(distances: Sequence[float]) -> dict[str, Any]:
    return {"mean": float(np.mean(distances)), "max": float(np.max(distances)), "per_client": list(distances)}

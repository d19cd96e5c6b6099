"""Where data comes from: named sources, pooled (to be partitioned) or already divided into clients."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from manyheads.core.errors import UserError, one_of
from manyheads.core.randomness import Purpose, generator
from manyheads.core.settings import settings
from manyheads.data.federation import Federation, Samples, Scaling
from manyheads.data.partitioners import Key, partition
from manyheads.data.synthetic import LinearTasks

__all__ = ["SOURCES", "Digits", "Pool", "federate", "source_named"]


@dataclass(frozen=True)
class Pool:
    """Labelled samples of no client yet, with a test part of its own."""

    name: str
    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    classes: int
    keys: dict[str, np.ndarray] = field(default_factory=dict)
    """natural clients: the owner of every training, then of every test sample"""
    scaling: Scaling | None = None
    """of inputs stored as bytes"""


@settings
class Digits:
    """scikit-learn's 1,797 handwritten digits of 8x8 pixels; comes with the package, needs no download."""

    name: ClassVar[str] = "digits"
    model: ClassVar[str] = "mlp"
    """the model that goes with the data, unless another is asked for"""
    test_fraction: Annotated[float, Field(gt=0, lt=1)] = 0.2
    """part of every class that is kept for the clients' tests"""

    def pool(self, seed: int) -> Pool:
        from sklearn.datasets import load_digits

        digits = load_digits()
        x, y = (digits.data / 16).astype(np.float32), digits.target.astype(np.int64)
        test = np.zeros(len(y), bool)
        for label in range(10):
            rows = generator(seed, Purpose.SPLIT, label).permutation(np.flatnonzero(y == label))
            test[rows[: round(self.test_fraction * len(rows))]] = True
        return Pool("digits", x[~test], y[~test], x[test], y[test], 10)


SOURCES: dict[str, type[Any]] = {s.name: s for s in (Digits, LinearTasks)}


def source_named(name: str) -> type[Any]:
    if name not in SOURCES:
        raise one_of("data", name, SOURCES)
    return SOURCES[name]


def federate(pool: Pool, spec: Any, *, clients: int, seed: int) -> Federation:
    """Divide a pool into clients."""
    if isinstance(spec, Key):
        return _by_key(pool, spec, seed)
    train, test = partition(spec, pool.y, pool.y_test, clients=clients, seed=seed, classes=pool.classes)
    return Federation(
        pool.name,
        Samples.deal(pool.x, pool.y, train),
        Samples.deal(pool.x_test, pool.y_test, test),
        "classification",
        pool.classes,
        scaling=pool.scaling,
    )


def _by_key(pool: Pool, spec: Key, seed: int) -> Federation:
    if (len(pool.keys) > 1 and not spec.key) or (spec.key and spec.key not in pool.keys) or not pool.keys:
        raise UserError(
            f"{pool.name} cannot be divided by that key",
            where="partition key",
            given=spec.key or "no key",
            allowed=", ".join(pool.keys) or "none, it has no natural clients",
        )
    keys = pool.keys[spec.key or next(iter(pool.keys))]
    if len(keys) != len(pool.y) + len(pool.y_test):
        raise UserError(
            f"{pool.name}: keys are needed for all training and test samples",
            where="partition key",
            given=len(keys),
            allowed=str(len(pool.y) + len(pool.y_test)),
        )
    x, y = np.concatenate([pool.x, pool.x_test]), np.concatenate([pool.y, pool.y_test])
    names, parts = spec.groups(keys)
    federation = Federation.from_clients([(x[p], y[p]) for p in parts], name=pool.name, outputs=pool.classes, seed=seed)
    return replace(federation, client_names=tuple(names), scaling=pool.scaling)

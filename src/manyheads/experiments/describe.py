"""Statistics of a federation: sizes, labels, and distances of the clients' data from the pooled data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from manyheads.core.randomness import Purpose, generator
from manyheads.core.records import Real
from manyheads.core.tasks import task_named
from manyheads.data import Federation
from manyheads.metrics import total_variation, wasserstein1
from manyheads.metrics.heterogeneity import EXACT_POINTS

__all__ = ["DISTANCES", "ClientFacts", "Distances", "FederationFacts", "federation_facts"]

CLIENT_POINTS, POOL_POINTS, PROJECTIONS = 500, 1000, 50
"""samples of a client, samples of the pooled data, and random projections used to estimate input distances"""
DISTANCES = {
    "total_variation": "label distance (total variation)",
    "target_wasserstein": "target distance (1-Wasserstein)",
    "input_wasserstein": "input distance (1-Wasserstein)",
}
"""distances of each client from all clients together: the field of :class:`ClientFacts`, and its title in charts"""


@dataclass(frozen=True)
class Samples:
    """Numbers of samples of all clients together."""

    train: int
    test: int


@dataclass(frozen=True)
class Range:
    """Range of the number of samples per client."""

    min: int
    median: float
    max: int


@dataclass(frozen=True)
class Sizes:
    train: Range
    test: Range


@dataclass(frozen=True)
class Targets:
    """Mean and standard deviation of the targets of a client's training samples, in a regression."""

    mean: Real
    std: Real


@dataclass(frozen=True)
class Followed:
    """How many of a client's training samples had the event, and how long they were followed, in survival data."""

    samples: int
    events: int
    median: Real
    """median time until the event or the end of observation"""


@dataclass(frozen=True)
class Distances:
    """Distances of each client's training samples from those of all clients."""

    mean: Real
    max: Real
    per_client: tuple[Real, ...]
    method: Literal["exact", "sliced"] | None = None


@dataclass(frozen=True, kw_only=True)
class ClientFacts:
    """Sizes, labels and distances of some clients; distances are from all training clients together."""

    clients: int
    names: tuple[str, ...]
    sizes: Sizes
    input_wasserstein: Distances | None
    labels: tuple[tuple[int, ...], ...] | None = None
    """[clients, labels]: numbers of training samples; None without classes"""
    targets: tuple[Targets, ...] | None = None
    followed: tuple[Followed, ...] | None = None
    total_variation: Distances | None = None
    target_wasserstein: Distances | None = None

    @property
    def distances(self) -> dict[str, Distances]:
        """The distances of :data:`DISTANCES` that are defined for these clients, by name."""
        return {name: found for name in DISTANCES if (found := getattr(self, name))}


@dataclass(frozen=True, kw_only=True)
class FederationFacts(ClientFacts):
    """Facts of a whole federation; ``clients`` counts the training clients, ``new`` describes held-out ones."""

    data: str
    task: str
    outputs: int
    label_names: tuple[str, ...]
    sample_shape: tuple[int, ...]
    warnings: tuple[str, ...]
    samples: Samples
    new: ClientFacts | None = None


def federation_facts(federation: Federation, seed: int, *, blank: bool = False) -> FederationFacts:
    """Return sizes, labels and distances of all clients; no more than sizes and labels of samples that are ``blank``."""
    return FederationFacts(
        data=federation.name,
        task=federation.task,
        outputs=federation.outputs,
        label_names=tuple(federation.label_names),
        sample_shape=tuple(federation.sample_shape),
        warnings=tuple(federation.warnings),
        samples=Samples(len(federation.train.y), len(federation.test.y)),
        new=ClientFacts(**_differences(federation.new, federation, seed, blank)) if federation.new else None,
        **_differences(federation, federation, seed, blank),
    )


def _differences(federation: Federation, all_: Federation, seed: int, blank: bool) -> dict[str, Any]:
    """Return the fields of :class:`ClientFacts`: sizes, labels and distances from the training clients ``all_``."""
    clients = range(len(federation))
    facts: dict[str, Any] = {
        "clients": len(federation),
        "names": tuple(federation.client_name(i) for i in clients),
        "sizes": Sizes(_range(federation.train.sizes), _range(federation.test.sizes)),
        "input_wasserstein": None if blank else _input_distances(federation, all_, seed),
    }
    targets = [federation.train.client(i)[1] for i in clients]
    if task_named(federation.task).classes:
        classes = max(federation.outputs, all_.outputs)
        counts = np.array([np.bincount(y, minlength=classes) for y in targets])
        mixture = np.bincount(all_.train.y, minlength=classes)
        distances = [total_variation(c / c.sum(), mixture / mixture.sum()) for c in counts]
        return facts | {"labels": tuple(map(tuple, counts.tolist())), "total_variation": _summary(distances)}
    if blank:
        return facts
    if federation.task == "survival":
        followed = (Followed(len(y), int(y[:, 1].sum()), float(np.median(y[:, 0]))) for y in targets)
        return facts | {"followed": tuple(followed)}
    facts["targets"] = tuple(Targets(float(y.mean()), float(y.std())) for y in targets)
    return facts | {"target_wasserstein": _summary([wasserstein1(y, all_.train.y) for y in targets])}


def _input_distances(federation: Federation, all_: Federation, seed: int) -> Distances | None:
    """Return the distance of each client's inputs from all inputs; None for token codes, which have no distance."""
    if not (np.issubdtype(all_.train.x.dtype, np.floating) or all_.scaling):
        return None
    if federation.sample_shape != all_.sample_shape:
        return None
    pool = all_.train.x[_some(len(all_.train.x), POOL_POINTS, seed, 0)]
    largest = max(len(pool), int(federation.train.sizes.max()))
    # the same method for all clients: exact and sliced distances are not comparable
    method: Literal["exact", "sliced"] = "exact" if largest <= EXACT_POINTS or pool[0].size == 1 else "sliced"
    pool = _vectors(all_, pool)
    distances = []
    for i in range(len(federation)):
        x, _ = federation.train.client(i)
        own = _vectors(federation, x[_some(len(x), CLIENT_POINTS, seed, 1, i)])
        distances.append(wasserstein1(own, pool, method=method, projections=PROJECTIONS, seed=seed))
    return _summary(distances, method)


def _some(rows: int, most: int, seed: int, *address: int) -> np.ndarray:
    if rows <= most:
        return np.arange(rows)
    return np.sort(generator(seed, Purpose.SAMPLING, *address).choice(rows, most, replace=False))


def _vectors(federation: Federation, x: np.ndarray) -> np.ndarray:
    """Return inputs as flat vectors, scaled as the model gets them."""
    if federation.scaling:
        axes = (-1, *[1] * (x.ndim - 2))
        mean, std = (np.reshape(v, axes) for v in (federation.scaling.mean, federation.scaling.std))
        x = (x / 255 - mean) / std
    return x.reshape(len(x), -1)


def _range(sizes: np.ndarray) -> Range:
    return Range(int(sizes.min()), float(np.median(sizes)), int(sizes.max()))


def _summary(distances: Sequence[float], method: Literal["exact", "sliced"] | None = None) -> Distances:
    return Distances(float(np.mean(distances)), float(np.max(distances)), tuple(map(float, distances)), method)

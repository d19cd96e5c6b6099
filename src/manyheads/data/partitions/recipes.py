"""Partitions of the papers' experiments, with the papers' numbers as defaults."""

from __future__ import annotations

from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from manyheads.core.errors import UserError
from manyheads.core.settings import settings
from manyheads.data.partitions.counts import classes_present
from manyheads.data.partitions.partitioners import PARTITIONERS, Classes, Partition

__all__ = ["AllClasses", "ClassSplit", "DirichletShares", "Fallah", "FemnistRecipe"]

TINY = 1e-12
"""added to every share, so that a client can take what is left of any class"""
MOST_FITS = 10_000


@settings
class FemnistRecipe(Partition):
    """The partition of Collins et al. 2021 for FEMNIST, for any dataset: neighbouring classes, log-normal sizes.

    Client u has equally many samples of the classes u, u + 1, u + 2 (mod the number of classes). If a class has too
    few samples, all clients get proportionally less. Unlike in the authors' script, no sample goes to two clients.
    """

    name: ClassVar[str] = "femnist-recipe"
    per_client: Annotated[int, Field(ge=1)] = 3
    """classes per client"""
    mu: Annotated[float, Field(ge=-20, le=20)] = 4.0
    """mean of the log of the sizes, before the base is added"""
    sigma: Annotated[float, Field(ge=0, le=10)] = 1.0
    """spread of the log of the sizes"""
    base: Annotated[int, Field(ge=0)] = 100
    """added to every size"""
    per_class: Annotated[int, Field(ge=1)] = 4000
    """at most so many training samples of a class are used"""

    def counts(self, clients: int, per_class: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        present = classes_present(per_class, self.per_client, "partition femnist-recipe")
        each = (rng.lognormal(self.mu, self.sigma, clients) + self.base) / self.per_client
        held = np.zeros((clients, len(per_class)), bool)
        owners = np.repeat(np.arange(clients), self.per_client)
        held[owners, present[(owners + np.tile(np.arange(self.per_client), clients)) % len(present)]] = True
        need, have = held.T @ each, np.minimum(per_class, self.per_class)
        scale = min(1.0, (have[need > 0] / need[need > 0]).min())
        counts = held * np.floor(each * scale + 1e-9).astype(np.int64)[:, None]
        empty = np.flatnonzero(counts.sum(axis=1) == 0)
        if len(empty):
            raise UserError(
                f"too few samples: client {empty[0]} would have none of its {self.per_client} classes",
                where="partition femnist-recipe",
                given=f"{clients} clients, {have[present].min()} samples of the smallest class",
                fix="use fewer clients",
            )
        return counts


@settings
class DirichletShares(Partition):
    """The partition of Collins et al. 2022, Figure 4: clients of one size, their class shares from a Dirichlet draw.

    Unlike ``dirichlet``, which spreads each class over the clients, every client has the same number of samples. Where
    the draws ask for more of a class than there is, all shares are adjusted as little as possible (in relative entropy)
    until every client is full.
    """

    name: ClassVar[str] = "dirichlet-shares"
    alpha: Annotated[float, Field(gt=0, le=1e6)] = 0.6
    """concentration: small, and each client has few classes; large, and all clients are alike"""
    samples: Annotated[int, Field(ge=0)] = 0
    """training samples per client; 0: as many as there are for all"""

    def counts(self, clients: int, per_class: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        samples = self.samples or int(per_class.sum()) // clients
        if not 1 <= samples * clients <= per_class.sum():
            raise UserError(
                "too few training samples",
                where="partition dirichlet-shares",
                given=f"{clients} clients of {samples} out of {per_class.sum()}",
                fix="use fewer samples per client or fewer clients",
            )
        present = np.flatnonzero(per_class)
        drawn = np.nan_to_num(rng.dirichlet(np.full(len(present), self.alpha), clients)) + TINY
        wanted = fitted_margins(drawn, samples, per_class[present])
        counts = np.zeros((clients, len(per_class)), np.int64)
        counts[:, present] = np.floor(wanted + 1e-9)
        left = per_class - counts.sum(axis=0)
        for client in range(clients):
            rest = wanted[client] - counts[client, present]
            for _ in range(samples - counts[client].sum()):
                spare = np.where(left[present] > 0, rest, -np.inf)
                chosen = int(spare.argmax())
                rest[chosen] -= 1
                counts[client, present[chosen]] += 1
                left[present[chosen]] -= 1
        return counts


@settings
class Fallah(Partition):
    """The partition of Fallah et al. 2020: half the users share the first classes, each of the others has mostly one.

    The first half has ``a`` samples of each of the first half of the classes; every other user has ``a / 2`` of one of
    these, and ``2 a`` of one of the other classes, drawn so that each is used equally often.
    """

    name: ClassVar[str] = "fallah"
    a: Annotated[int, Field(ge=2)] = 196
    """the paper's a; 196 fits 10 users of MNIST"""

    def counts(self, clients: int, per_class: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        classes = len(per_class)
        low, common = classes // 2, (clients + 1) // 2
        if not low:
            raise UserError("two classes are needed", where="partition fallah", given=classes)
        others = np.arange(common, clients)
        counts = np.zeros((clients, classes), np.int64)
        counts[:common, :low] = self.a
        counts[others, _in_turn(np.arange(low), len(others), rng)] = self.a // 2
        counts[others, _in_turn(np.arange(low, classes), len(others), rng)] = 2 * self.a
        _check_supply(counts, per_class, "partition fallah", "use a smaller a or fewer clients")
        return counts


@settings
class ClassSplit(Partition):
    """The partition of Collins et al. 2022: C classes per client, equally many of each; new clients have other classes.

    The classes of training clients are drawn from the first ones; every new client has all of the remaining ones.
    """

    name: ClassVar[str] = "class-split"
    per_client: Annotated[int, Field(ge=1)] = 5
    """classes per training client, the paper's C"""
    samples: Annotated[int, Field(ge=1)] = 500
    """training samples per client"""
    train_classes: Annotated[int, Field(ge=1)] = 80
    """number of classes, the first ones, for training; the others are for new clients"""
    new_clients: Annotated[int, Field(ge=0)] = 5
    """number of new clients"""
    new_samples: Annotated[int, Field(ge=1)] = 500
    """training samples per new client"""

    def counts(self, clients: int, per_class: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        own = np.where(np.arange(len(per_class)) < self.train_classes, per_class, 0)
        held = Classes(per_client=self.per_client).counts(clients, own, rng) > 0
        return _equal_shares(held, self.samples, own, rng)

    def counts_like(self, train: np.ndarray, per_class: np.ndarray, per_class_train: np.ndarray) -> np.ndarray:
        return Classes(per_client=self.per_client).counts_like(train, per_class, per_class_train)


class AllClasses(Partition):
    """New clients of a class split: all classes from ``first`` on, equally many samples of each."""

    name: ClassVar[str] = "class-split"

    def __init__(self, samples: int, first: int) -> None:
        self.samples, self.first = samples, first

    def counts(self, clients: int, per_class: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        own = np.where(np.arange(len(per_class)) >= self.first, per_class, 0)
        return _equal_shares(np.tile(own > 0, (clients, 1)), self.samples, own, rng)

    def counts_like(self, train: np.ndarray, per_class: np.ndarray, per_class_train: np.ndarray) -> np.ndarray:
        return (train.sum(axis=0) > 0) * np.tile(per_class // len(train), (len(train), 1))


def fitted_margins(shares: np.ndarray, row: float, columns: np.ndarray) -> np.ndarray:
    """Positive ``shares`` scaled by rows and columns until each row's sum is ``row`` and no column's is above its limit.

    The result is the closest such matrix in relative entropy (iterative proportional fitting).

    >>> fitted_margins(np.array([[3.0, 1.0], [3.0, 1.0]]), 4, np.array([4, 9])).round(3).tolist()
    [[2.0, 2.0], [2.0, 2.0]]
    """
    found = shares * (row / shares.sum(axis=1, keepdims=True))
    for _ in range(MOST_FITS):
        found = found * np.minimum(1.0, columns / found.sum(axis=0))
        lack = found.sum(axis=1, keepdims=True)
        if lack.min() > row * (1 - 1e-9):
            break
        found = found * (row / lack)
    return found


def _in_turn(classes: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """A class for each of ``count`` clients, all classes equally often, in random order."""
    rounds = -(-count // len(classes))
    return np.concatenate([rng.permutation(classes) for _ in range(rounds)] or [classes])[:count]


def _equal_shares(held: np.ndarray, samples: int, per_class: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """``samples`` per client, equally many of each class it holds; the remainder from classes with most samples left."""
    owned = held.sum(axis=1)
    counts: np.ndarray = held * (samples // owned)[:, None]
    _check_supply(counts, per_class, "partition class-split", "use fewer samples per client or fewer clients")
    left = per_class - counts.sum(axis=0)
    for client, rest in enumerate(samples % owned):
        spare = np.flatnonzero(held[client] & (left > 0))
        chosen = spare[np.lexsort((rng.random(len(spare)), -left[spare]))[:rest]]
        counts[client, chosen] += 1
        left[chosen] -= 1
    return counts


def _check_supply(counts: np.ndarray, per_class: np.ndarray, where: str, fix: str) -> None:
    short = np.flatnonzero(counts.sum(axis=0) > per_class)
    if len(short):
        raise UserError(
            f"class {short[0]} has too few training samples",
            where=where,
            given=int(per_class[short[0]]),
            allowed=f"at least {counts[:, short[0]].sum()}",
            fix=fix,
        )


for _recipe in (FemnistRecipe, DirichletShares, Fallah, ClassSplit):
    PARTITIONERS.register(_recipe)

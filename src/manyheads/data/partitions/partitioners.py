"""Partitioners: which client gets which samples, as pure functions of labels (or keys), parameters and a seed.

A partitioner sets the number of samples of each class that each client trains on; test samples are divided in the same
proportions, so that a client is tested on the classes it trains on. No sample goes to two clients.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from manyheads.core.errors import UserError
from manyheads.core.randomness import Purpose, generator
from manyheads.core.registry import Registry, check_declared
from manyheads.core.settings import build, settings, walk
from manyheads.data.partitions.counts import Parts, at_least, balanced_classes, classes_present, deal, proportional

__all__ = [
    "PARTITIONERS", "Classes", "Dirichlet", "Iid", "Key", "LogNormal", "Mixture", "Partition", "Shards", "parse_partition", "partition",
]  # fmt: skip


class Partition:
    """Base class of partitioners."""

    name: ClassVar[str]
    by_label: ClassVar[bool] = True

    def counts(self, clients: int, per_class: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """How many training samples of each class each client gets, [clients, classes]."""
        raise NotImplementedError

    def counts_like(self, train: np.ndarray, per_class: np.ndarray, per_class_train: np.ndarray) -> np.ndarray:
        """How many test samples (of which there are ``per_class``) each client gets: in proportion to the training counts."""
        return proportional(train / np.maximum(per_class_train, 1), per_class)


@settings
class Iid(Partition):
    """Equal sizes, samples drawn at random."""

    name: ClassVar[str] = "iid"
    by_label: ClassVar[bool] = False

    def counts(self, clients: int, per_class: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return proportional(np.full((clients, len(per_class)), 1 / clients), per_class)


@settings
class LogNormal(Partition):
    """Sizes from a log-normal distribution, samples drawn at random."""

    name: ClassVar[str] = "lognormal"
    by_label: ClassVar[bool] = False
    sigma: Annotated[float, Field(ge=0, le=100)] = 1.0
    """spread of the log of the sizes; 0 gives equal sizes"""
    minimum: Annotated[int, Field(ge=1)] = 1
    """fewest training samples of a client"""

    def counts(self, clients: int, per_class: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        size = rng.lognormal(0.0, self.sigma, clients)
        return at_least(
            self.minimum, proportional(np.repeat((size / size.sum())[:, None], len(per_class), axis=1), per_class)
        )


@settings
class Dirichlet(Partition):
    """Each class is spread over the clients by a draw from a symmetric Dirichlet distribution.

    Works for any ``alpha`` > 0 and any number of clients: one that would have fewer than ``minimum`` samples takes some
    from the largest, instead of repeating the draw until all have enough.
    """

    name: ClassVar[str] = "dirichlet"
    alpha: Annotated[float, Field(gt=0, le=1e6)] = 0.6
    """concentration: small, and each class is with few clients; large, and all clients are alike"""
    minimum: Annotated[int, Field(ge=1)] = 1
    """fewest training samples of a client"""

    def counts(self, clients: int, per_class: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        shares = rng.dirichlet(np.full(clients, self.alpha), len(per_class)).T
        # where every gamma draw underflowed, one client takes the whole class
        for column in np.flatnonzero(~np.isfinite(shares).all(axis=0)):
            shares[:, column] = 0
            shares[rng.integers(clients), column] = 1
        return at_least(self.minimum, proportional(shares, per_class))


@settings
class Shards(Partition):
    """The partition of Collins et al. 2021: every class is cut into shards, of which each client gets some at random.

    A client may get two shards of the same class; use ``classes`` for exactly S different ones.
    """

    name: ClassVar[str] = "shards"
    per_client: Annotated[int, Field(ge=1)] = 2
    """shards per client, the paper's S"""

    def counts(self, clients: int, per_class: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        classes = len(per_class)
        held = np.zeros((clients, classes))
        np.add.at(
            held,
            (
                np.repeat(np.arange(clients), self.per_client),
                rng.permutation(balanced_classes(clients * self.per_client, classes, rng)),
            ),
            1,
        )
        return proportional(held / np.maximum(held.sum(axis=0), 1), per_class)


@settings
class Classes(Partition):
    """Exactly S different classes per client, equally many samples of each; the remainder is left out."""

    name: ClassVar[str] = "classes"
    per_client: Annotated[int, Field(ge=1)] = 2
    """classes per client, the papers' S or C"""

    def counts(self, clients: int, per_class: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        present = classes_present(per_class, self.per_client, "partition classes")
        left = np.bincount(balanced_classes(clients * self.per_client, len(present), rng), minlength=len(present))
        held = np.zeros((clients, len(per_class)), dtype=int)
        for client in rng.permutation(clients):
            # the classes with most places left, ties at random: so the last clients still find different ones
            chosen = np.lexsort((rng.random(len(present)), -left))[: self.per_client]
            held[client, present[chosen]] = 1
            left[chosen] -= 1
        owners = held.sum(axis=0)
        short = np.flatnonzero(per_class < owners)
        if len(short):
            raise UserError(
                f"class {short[0]} has {per_class[short[0]]} training samples for {owners[short[0]]} clients",
                where="partition classes",
                fix="use fewer clients, or leave the class out",
            )
        return held * self._each(owners, per_class)

    def counts_like(self, train: np.ndarray, per_class: np.ndarray, per_class_train: np.ndarray) -> np.ndarray:
        held = (train > 0).astype(int)
        owners = held.sum(axis=0)
        each = self._each(owners, per_class)
        # too few test samples for all: some clients get none of a class that they train on
        return held * each if each else proportional(held / np.maximum(owners, 1), per_class)

    @staticmethod
    def _each(owners: np.ndarray, per_class: np.ndarray) -> int:
        return min((per_class[owners > 0] // owners[owners > 0]).tolist(), default=0)


@settings
class Mixture(Partition):
    """Each client's label distribution, given as numbers; sizes as large as the data allow."""

    name: ClassVar[str] = "mixture"
    rows: list[list[float]]
    """one row per client, one column per class: the client's label proportions"""
    sizes: list[float] | None = None
    """relative sizes of the clients; equal if not given"""

    def counts(self, clients: int, per_class: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        try:
            mix = np.array(self.rows, dtype=float)
        except ValueError:
            mix = np.empty(0)
        size = np.array(self.sizes if self.sizes is not None else np.ones(clients), dtype=float)
        if mix.shape != (clients, len(per_class)) or size.shape != (clients,):
            raise UserError(
                "mixture does not fit the clients and classes",
                where="partition mixture",
                given=f"rows {mix.shape}, sizes {size.shape}",
                allowed=f"rows ({clients}, {len(per_class)}), sizes ({clients},)",
            )
        if (mix < 0).any() or (mix.sum(axis=1) <= 0).any() or (size <= 0).any():
            raise UserError("mixture must have no negative entry and no row of zeros", where="partition mixture")
        wanted = mix / mix.sum(axis=1, keepdims=True) * size[:, None]
        need = wanted.sum(axis=0)
        scale = (per_class[need > 0] / need[need > 0]).min()
        return proportional(wanted * scale / np.maximum(per_class, 1), per_class)

    def counts_like(self, train: np.ndarray, per_class: np.ndarray, per_class_train: np.ndarray) -> np.ndarray:
        counts = self.counts(len(train), per_class, np.random.default_rng(0))  # it draws nothing
        return np.where(train > 0, counts, 0)


@settings
class Key(Partition):
    """Natural clients: one for each value of a key in the data, such as the writer."""

    name: ClassVar[str] = "key"
    key: str = ""
    """name of the key; needed if the data has several"""
    minimum: Annotated[int, Field(ge=1)] = 2
    """clients with fewer samples are left out"""

    def groups(self, keys: np.ndarray) -> tuple[list[str], Parts]:
        """Names of the clients, and their rows."""
        names, inverse, sizes = np.unique(keys, return_inverse=True, return_counts=True)
        rows = np.split(np.argsort(inverse, kind="stable"), np.cumsum(sizes)[:-1])
        kept = [(str(n), r) for n, r in zip(names, rows, strict=True) if len(r) >= self.minimum]
        return [n for n, _ in kept], [r for _, r in kept]


PARTITIONERS: Registry[type[Any]] = Registry("partition", partial(check_declared, base=Partition))
for _partitioner in (Iid, LogNormal, Dirichlet, Shards, Classes, Mixture, Key):
    PARTITIONERS.register(_partitioner)


def parse_partition(spec: str | dict[str, Any]) -> Any:
    """A partitioner from ``"classes:3"``, ``"dirichlet:0.6,minimum=10"`` or a table with its ``name``.

    >>> parse_partition("classes:3")
    Classes(per_client=3)
    """
    values: dict[str, Any] = {} if isinstance(spec, str) else dict(spec)
    name, _, rest = (spec if isinstance(spec, str) else str(values.pop("name", ""))).partition(":")
    cls = PARTITIONERS.find(name)
    fields = [s.path[0] for s in walk(cls)]
    for position, item in enumerate(filter(None, rest.split(","))):
        key, _, value = item.rpartition("=")
        if not key and position >= len(fields):
            raise UserError(
                "too many values", where=f"partition {name}", given=rest, allowed=", ".join(fields) or "none"
            )
        values[key.strip() or fields[position]] = value.strip()
    return build(cls, values, where=f"partition {name}")


def partition(
    spec: Any, train: np.ndarray, test: np.ndarray, *, clients: int, seed: int, classes: int | None = None
) -> tuple[Parts, Parts]:
    """The rows of the training and of the test labels that each client gets.

    >>> y = np.repeat(np.arange(4), 30)
    >>> parts, _ = partition(Classes(per_client=2), y, y, clients=6, seed=0)
    >>> [len(set(y[rows])) for rows in parts], {len(rows) for rows in parts}
    ([2, 2, 2, 2, 2, 2], {20})
    """
    if spec.by_label and not np.issubdtype(train.dtype, np.integer):
        raise UserError(
            f"partition {spec.name} needs class labels", fix="this is a regression; use iid, lognormal or key"
        )
    if not spec.by_label:
        train, test, classes = np.zeros(len(train), int), np.zeros(len(test), int), 1
    if len(train) and min(train.min(), test.min(initial=0)) < 0:
        raise UserError(
            "labels must be 0, 1, 2, ...", where="partition", given=int(min(train.min(), test.min(initial=0)))
        )
    classes = classes or int(max(train.max(initial=0), test.max(initial=0))) + 1
    if not 1 <= clients <= len(train):
        what = "more clients than training samples" if clients else "no clients"
        raise UserError(what, where="clients", given=clients, allowed=f"1 to {len(train)}")
    in_train, in_test = (np.bincount(y, minlength=classes) for y in (train, test))
    counts = spec.counts(clients, in_train, generator(seed, Purpose.PARTITION))
    counts_test = spec.counts_like(counts, in_test, in_train)
    return deal(train, counts, generator(seed, Purpose.PARTITION, 1)), deal(
        test, counts_test, generator(seed, Purpose.PARTITION, 2)
    )

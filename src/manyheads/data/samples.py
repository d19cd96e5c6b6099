"""The samples of many clients in contiguous arrays, client after client."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from manyheads.core.errors import UserError
from manyheads.core.randomness import Purpose, generator

__all__ = ["Samples", "split_each", "systematic_sample"]


@dataclass(frozen=True, eq=False)
class Samples:
    """Inputs and labels of many clients in three arrays: client ``i`` owns rows ``offsets[i]`` to ``offsets[i + 1]``.

    The arrays may be memory-mapped: a client's rows are read when they are asked for.
    """

    x: np.ndarray
    y: np.ndarray
    offsets: np.ndarray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def sizes(self) -> np.ndarray:
        return np.diff(self.offsets)

    def client(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        rows = slice(self.offsets[index], self.offsets[index + 1])
        return self.x[rows], self.y[rows]

    def select(self, clients: Sequence[int] | np.ndarray) -> Samples:
        """The samples of some clients, in the order given; a view without a copy if the clients are consecutive."""
        if len(clients) and np.array_equal(clients, np.arange(clients[0], clients[0] + len(clients))):
            offsets = self.offsets[clients[0] : clients[0] + len(clients) + 1]
            return Samples(self.x[offsets[0] : offsets[-1]], self.y[offsets[0] : offsets[-1]], offsets - offsets[0])
        return Samples.of([self.client(int(i)) for i in clients], like=self)

    @classmethod
    def of(cls, clients: Sequence[tuple[np.ndarray, np.ndarray]], like: Samples | None = None) -> Samples:
        """From one (x, y) per client. ``like`` gives shapes and types when there is no client."""
        for client, (x, y) in enumerate(clients):
            if len(x) != len(y):
                raise UserError(f"client {client} has {len(x)} inputs and {len(y)} labels")
            if x.shape[1:] != clients[0][0].shape[1:] or y.shape[1:] != clients[0][1].shape[1:]:
                raise UserError(
                    f"samples of client {client} have another shape than those of client 0",
                    given=(x.shape[1:], y.shape[1:]),
                    allowed=str((clients[0][0].shape[1:], clients[0][1].shape[1:])),
                )
        offsets = np.cumsum([0, *(len(y) for _, y in clients)], dtype=np.int64)
        if not clients and like is not None:
            return cls(like.x[:0], like.y[:0], offsets)
        return cls(np.concatenate([x for x, _ in clients]), np.concatenate([y for _, y in clients]), offsets)

    @classmethod
    def deal(cls, x: np.ndarray, y: np.ndarray, parts: Sequence[np.ndarray]) -> Samples:
        """From the arrays of a pool and the rows that each client gets."""
        rows = np.concatenate(parts) if len(parts) else np.empty(0, np.int64)
        return cls(x[rows], y[rows], np.cumsum([0, *map(len, parts)], dtype=np.int64))


def split_each(
    samples: Samples,
    fraction: float,
    seed: int,
    purpose: Purpose = Purpose.SPLIT,
    *address: int,
    by_label: bool = False,
) -> tuple[Samples, Samples]:
    """Split every client's samples in two: the second part has ``fraction`` of them, the first is never empty.

    With ``by_label`` the second part has ``fraction`` of each of a client's labels, rounded up or down.
    """
    if not 0 <= fraction < 1:
        raise UserError("fraction to hold out is out of range", given=fraction, allowed="0 <= fraction < 1")
    keep, aside = [], []
    for client in range(len(samples)):
        x, y = samples.client(client)
        rng = generator(seed, purpose, *address, client)
        order = rng.permutation(len(y))
        count = min(round(fraction * len(y)), max(len(y) - 1, 0))
        if by_label and len(y):
            _, label = np.unique(y, return_inverse=True)
            order, picked = systematic_sample(order, label, np.arange(len(y) + 1) * count / len(y), rng)
            order = np.concatenate([order[picked], order[~picked]])
        second, first = np.sort(order[:count]), np.sort(order[count:])
        keep.append((x[first], y[first]))
        aside.append((x[second], y[second]))
    return Samples.of(keep), Samples.of(aside)


def systematic_sample(
    rows: np.ndarray, group: np.ndarray, expected: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Rows sorted by group, groups in random order, and a mask of those picked at even distances from a random start.

    ``expected[i]`` is how many of the first ``i`` rows are picked on average; every group gets its part of them, rounded
    up or down.
    """
    rows = rows[np.argsort(rng.permutation(group.max() + 1)[group[rows]], kind="stable")]
    return rows, np.diff(np.floor(rng.random() + expected)) > 0

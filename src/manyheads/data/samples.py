"""The samples of many clients in contiguous arrays, client after client."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np

from manyheads.core.errors import UserError

__all__ = ["Samples"]


@dataclass(frozen=True, eq=False)
class Samples:
    """Inputs and labels of many clients: client ``i`` owns those from ``offsets[i]`` to ``offsets[i + 1]``.

    The arrays may be memory-mapped: a client's samples are read when they are asked for. What else is known of each
    sample goes with it into every part.
    """

    x: np.ndarray
    y: np.ndarray
    offsets: np.ndarray
    rows: np.ndarray | None = None
    """its place among its client's samples, in the order in which they were given"""
    groups: np.ndarray | None = None
    """a number that it shares with those samples of its client that must not be separated, as of one patient"""
    times: np.ndarray | None = None
    """when it was taken: later samples must not be used to predict it"""
    hashes: np.ndarray | None = None
    """of a table's row, before it was scaled"""

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getstate__(
        self,
    ) -> dict[str, np.ndarray | None]:  # as plain arrays: mapped ones would be copied into the pickle
        return {k: v if v is None else np.asarray(v) for k, v in self.__dict__.items()}

    @cached_property
    def sizes(self) -> np.ndarray:
        return np.diff(self.offsets)

    def span(self, index: int) -> slice:
        """Where a client's samples are."""
        return slice(self.offsets[index], self.offsets[index + 1])

    def client(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        return self.x[self.span(index)], self.y[self.span(index)]

    def select(self, clients: Sequence[int] | np.ndarray) -> Samples:
        """The samples of some clients, in the order given; a view without a copy if the clients are consecutive."""
        clients = np.asarray(clients, np.int64)
        offsets = np.cumsum([0, *self.sizes[clients]], dtype=np.int64)
        if len(clients) and np.array_equal(clients, np.arange(clients[0], clients[0] + len(clients))):
            here = slice(self.offsets[clients[0]], self.offsets[clients[-1] + 1])
            return self._of_each(lambda values: values[here], offsets)
        at = np.repeat(self.offsets[clients] - offsets[:-1], self.sizes[clients]) + np.arange(offsets[-1])
        return self._of_each(lambda values: values[at], offsets)

    def where(self, mask: np.ndarray) -> Samples:
        """The samples that a mask picks, each still its client's."""
        at = np.flatnonzero(mask)
        return self._of_each(lambda values: values[at], np.concatenate([[0], np.cumsum(mask)])[self.offsets])

    def numbered(self, first: np.ndarray) -> Samples:
        """With rows: if there are none yet, they are counted within each client, from ``first`` on."""
        if self.rows is not None:
            return self
        return replace(self, rows=np.arange(len(self.y)) + np.repeat(first - self.offsets[:-1], self.sizes))

    def _of_each(self, pick: Callable[[np.ndarray], np.ndarray], offsets: np.ndarray) -> Samples:
        known = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "offsets"}
        return Samples(**{n: pick(v) for n, v in known.items() if v is not None}, offsets=offsets)

    @classmethod
    def merged(cls, parts: Sequence[Samples]) -> Samples:
        """All parts of each client's samples, in the order of their rows."""
        owners = np.concatenate([np.repeat(np.arange(len(p)), p.sizes) for p in parts])
        offsets = np.sum([p.offsets for p in parts], axis=0)
        names = [f.name for f in fields(cls) if f.name != "offsets" and getattr(parts[0], f.name) is not None]
        whole = {n: np.concatenate([getattr(p, n) for p in parts]) for n in names}
        order = np.lexsort((whole["rows"], owners))
        return cls(**{n: values[order] for n, values in whole.items()}, offsets=offsets)

    @classmethod
    def of(cls, clients: Sequence[tuple[np.ndarray, np.ndarray]]) -> Samples:
        """From one (x, y) per client."""
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
        return cls(np.concatenate([x for x, _ in clients]), np.concatenate([y for _, y in clients]), offsets)

    @classmethod
    def deal(cls, x: np.ndarray, y: np.ndarray, parts: Sequence[np.ndarray]) -> Samples:
        """From the arrays of a pool and the rows that each client gets."""
        rows = np.concatenate(parts) if len(parts) else np.empty(0, np.int64)
        return cls(x[rows], y[rows], np.cumsum([0, *map(len, parts)], dtype=np.int64))

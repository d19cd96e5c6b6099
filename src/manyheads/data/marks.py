"""A number for each sample, by which a run knows again what it was trained on, without keeping any of it."""

from __future__ import annotations

import hashlib

import numpy as np

from manyheads.data.encoding import Raw
from manyheads.data.sites.columns import Columns

__all__ = ["marks_of", "of_one_owner"]

ROWS = 4096
"""samples at once"""


def marks_of(samples: Raw, y: np.ndarray, columns: Columns | None = None) -> np.ndarray:
    """64 bits for each sample, the same for the same inputs (of a table, before they are scaled) and the same label.

    >>> x = np.array([[1.0, 2.0], [1.0, 2.5], [1.0, 2.0]])
    >>> one, two, three = marks_of(x, np.array([0, 0, 0]))
    >>> (one == three).item(), (one == two).item()
    (True, False)
    """
    label = y.astype(np.int64) if y.dtype.kind in "biu" else y.astype(np.float32)
    if isinstance(samples, np.ndarray):
        return _hashed(samples, label)
    assert columns is not None
    numbers = [np.where(np.isnan(samples[n]), np.nan, samples[n]) + 0.0 for n in columns.numbers]  # one NaN, one zero
    return _hashed(*numbers, *(_words(samples[c]) for c in columns.categories), label)


def of_one_owner(marks: np.ndarray, owners: np.ndarray) -> np.ndarray:
    """Those that one client alone has, sorted: rows of a few categories come up everywhere, and tell nothing."""
    order = np.lexsort((owners, marks))
    marks, owners = marks[order], owners[order]
    first = np.flatnonzero(np.diff(marks, prepend=~marks[:1]) != 0)
    last = np.append(first[1:], len(marks)) - 1
    return marks[first][owners[first] == owners[last]]


def _words(column: np.ndarray) -> np.ndarray:
    """A number for each text, and 0 for what is missing."""
    known = {v: hashlib.blake2b(v.encode(), digest_size=8).digest() for v in set(column.tolist()) if v is not None}
    return np.array([int.from_bytes(known[v], "little") if v is not None else 0 for v in column], np.uint64)


def _hashed(*parts: np.ndarray) -> np.ndarray:
    """Multilinear hashing: sums of 32-bit words times random numbers, of which the upper half is kept, twice."""
    rows = len(parts[0])
    marks = np.empty(rows, np.uint64)
    for start in range(0, rows, ROWS):
        bytes_ = [
            np.ascontiguousarray(p[start : start + ROWS]).reshape(len(p[start : start + ROWS]), -1) for p in parts
        ]
        flat = np.concatenate([b.view(np.uint8) for b in bytes_], axis=1)
        flat = np.pad(flat, ((0, 0), (0, -flat.shape[1] % 4)))
        words = flat.view("<u4").astype(np.uint64)
        keys = np.random.Generator(np.random.PCG64(0)).integers(0, 2**64, (2, words.shape[1] + 1), dtype=np.uint64)
        high, low = (keys[i, 0] + (words * keys[i, 1:]).sum(axis=1, dtype=np.uint64) for i in (0, 1))
        marks[start : start + ROWS] = (high & np.uint64(0xFFFFFFFF00000000)) | (low >> np.uint64(32))
    return marks

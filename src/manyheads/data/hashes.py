"""A 64-bit hash of each sample: a run keeps those of its training samples, to recognize them without storing them."""

from __future__ import annotations

import hashlib

import numpy as np

from manyheads.data.encoding import Raw
from manyheads.data.sites.columns import Columns

__all__ = ["held_by_one_client", "sample_hashes"]

ROWS = 4096
"""samples hashed at once"""


def sample_hashes(samples: Raw, y: np.ndarray, columns: Columns | None = None) -> np.ndarray:
    """Equal for equal inputs and labels. The rows of a table (given by its ``columns``) are hashed before scaling.

    >>> x = np.array([[1.0, 2.0], [1.0, 2.5], [1.0, 2.0]])
    >>> one, two, three = sample_hashes(x, np.array([0, 0, 0]))
    >>> (one == three).item(), (one == two).item()
    (True, False)
    """
    label = y.astype(np.int64) if y.dtype.kind in "biu" else y.astype(np.float32)
    if isinstance(samples, np.ndarray):
        return _hashed(samples, label)
    assert columns is not None
    numbers = [
        np.where(np.isnan(samples[n]), np.nan, samples[n]) + 0.0 for n in columns.numbers
    ]  # a single form of NaN and of zero
    return _hashed(*numbers, *(_text_hashes(samples[c]) for c in columns.categories), label)


def held_by_one_client(hashes: np.ndarray, clients: np.ndarray) -> np.ndarray:
    """The hashes that only one client has, sorted. Rows of a few categories occur everywhere: they identify nobody."""
    order = np.lexsort((clients, hashes))
    hashes, clients = hashes[order], clients[order]
    first = np.flatnonzero(np.diff(hashes, prepend=~hashes[:1]) != 0)
    last = np.append(first[1:], len(hashes)) - 1
    return hashes[first][clients[first] == clients[last]]


def _text_hashes(column: np.ndarray) -> np.ndarray:
    """A 64-bit hash of each text; 0 where it is missing."""
    known = {v: hashlib.blake2b(v.encode(), digest_size=8).digest() for v in set(column.tolist()) if v is not None}
    return np.array([int.from_bytes(known[v], "little") if v is not None else 0 for v in column], np.uint64)


def _hashed(*parts: np.ndarray) -> np.ndarray:
    """Multilinear hashing: twice a sum of 32-bit words times random 64-bit keys, of which the upper half is kept."""
    rows = len(parts[0])
    hashes = np.empty(rows, np.uint64)
    for start in range(0, rows, ROWS):
        bytes_ = [
            np.ascontiguousarray(p[start : start + ROWS]).reshape(len(p[start : start + ROWS]), -1) for p in parts
        ]
        flat = np.concatenate([b.view(np.uint8) for b in bytes_], axis=1)
        flat = np.pad(flat, ((0, 0), (0, -flat.shape[1] % 4)))
        words = flat.view("<u4").astype(np.uint64)
        keys = np.random.Generator(np.random.PCG64(0)).integers(0, 2**64, (2, words.shape[1] + 1), dtype=np.uint64)
        high, low = (keys[i, 0] + (words * keys[i, 1:]).sum(axis=1, dtype=np.uint64) for i in (0, 1))
        hashes[start : start + ROWS] = (high & np.uint64(0xFFFFFFFF00000000)) | (low >> np.uint64(32))
    return hashes

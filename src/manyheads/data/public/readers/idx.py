"""The idx format of MNIST: a big-endian header with type and shape, then the values."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from manyheads.core.errors import UserError
from manyheads.data.content import content

__all__ = ["read_idx"]

TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def read_idx(path: Path, *, dimensions: int | None = None) -> np.ndarray:
    """The array of an idx file, compressed or not, in the machine's byte order."""
    raw = content(path)
    if len(raw) < 4 or raw[:2] != b"\0\0" or raw[2] not in TYPES or not raw[3]:
        raise UserError(
            f"{path} is not an idx file", given=raw[:4].hex(" ") or "an empty file", allowed="00 00 TYPE RANK"
        )
    if dimensions is not None and raw[3] != dimensions:
        raise UserError(f"{path} holds other data than expected", given=f"{raw[3]} dimensions", allowed=str(dimensions))
    dtype, start = np.dtype(TYPES[raw[2]]), 4 + 4 * raw[3]
    shape = tuple(int.from_bytes(raw[i : i + 4], "big") for i in range(4, start, 4))
    size = start + math.prod(shape) * dtype.itemsize
    if len(raw) != size:
        raise UserError(
            f"{path} is {'cut off' if len(raw) < size else 'too long'}",
            given=f"{len(raw)} bytes",
            allowed=f"{size} bytes for its shape {shape}",
            fix="download it again",
        )
    return np.frombuffer(raw, dtype, offset=start).reshape(shape).astype(dtype.newbyteorder("="))

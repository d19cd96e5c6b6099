"""CIFAR-10 and CIFAR-100 in their three formats: Hugging Face parquet, Python batches, binary batches."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from manyheads.core.errors import UserError
from manyheads.data.content import content
from manyheads.data.public.readers.parquet import read_image_table, whole_numbers
from manyheads.data.public.readers.pickles import read_pickled_arrays

__all__ = ["SIDE", "read_binary", "read_parquet", "read_pickles"]

SIDE = 32
PIXELS = 3 * SIDE * SIDE
Part = tuple[np.ndarray, np.ndarray]
"""images [N, 3, 32, 32] of bytes, and labels"""


def read_parquet(paths: Sequence[Path], label: str) -> Part:
    """Parquet with the columns ``img`` and ``label``, or ``fine_label`` and ``coarse_label``."""
    table = read_image_table(paths, image="img", columns=[label], side=SIDE, color=True)
    return table["img"], whole_numbers(table[label], f"{paths[0]}: column {label}")


def read_pickles(paths: Sequence[Path], label: str) -> Part:
    """The original Python batches: dicts with ``data`` [N, 3072] and ``labels``, ``fine_labels`` or ``coarse_labels``."""
    return _joined([_pickled(path, f"{label}s") for path in paths])


def _pickled(path: Path, labels: str) -> Part:
    batch = read_pickled_arrays(path)
    # Python 2 wrote the keys as bytes
    found = (
        {k.decode("latin1") if isinstance(k, bytes) else k: v for k, v in batch.items()}
        if isinstance(batch, dict)
        else {}
    )
    if not {"data", labels} <= found.keys():
        raise UserError(
            f"{path} is not a CIFAR batch",
            given=", ".join(str(k)[:40] for k in list(found)[:10]) or "not a dict",
            allowed=f"data, {labels}",
        )
    x, y = found["data"], found[labels]
    if isinstance(y, list) and all(type(v) is int and 0 <= v < 256 for v in y):
        y = np.array(y, np.int64)
    if (
        not isinstance(y, np.ndarray)
        or y.ndim != 1
        or not isinstance(x, np.ndarray)
        or x.dtype != np.uint8
        or x.shape != (len(y), PIXELS)
        or y.dtype.kind not in "iu"
    ):
        raise UserError(
            f"{path} is not a CIFAR batch", allowed=f"data of bytes, [N, {PIXELS}], and N whole numbers as {labels}"
        )
    return x.reshape(-1, 3, SIDE, SIDE), y.astype(np.int64)


def read_binary(paths: Sequence[Path], label_bytes: int, column: int) -> Part:
    """Records of 1 (CIFAR-10) or 2 (CIFAR-100: coarse, fine) label bytes and 3072 pixels; ``column`` says which label."""
    return _joined([_binary(path, label_bytes, column) for path in paths])


def _binary(path: Path, label_bytes: int, column: int) -> Part:
    raw = np.frombuffer(content(path), np.uint8)
    record = label_bytes + PIXELS
    if not len(raw) or len(raw) % record:
        raise UserError(
            f"{path} is cut off", given=f"{len(raw)} bytes", allowed=f"a multiple of {record}", fix="download it again"
        )
    records = raw.reshape(-1, record)
    return records[:, label_bytes:].reshape(-1, 3, SIDE, SIDE), records[:, column].astype(np.int64)


def _joined(parts: Sequence[Part]) -> Part:
    return np.concatenate([x for x, _ in parts]), np.concatenate([y for _, y in parts])

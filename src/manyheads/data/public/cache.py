"""A cache of decoded arrays on disk: a dataset is decoded once, and memory-mapped from then on.

An entry is a folder named by a hash of the files it was made from (their names and bytes, not their location or time).
Its index is written last and has a checksum of every array: an incomplete or damaged entry is made again.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from manyheads.core.errors import UserError
from manyheads.core.files import replacing, write_text
from manyheads.data.content import digest
from manyheads.data.paths import home

__all__ = ["cache_folder", "cached"]

Arrays = dict[str, np.ndarray]
SCHEMA = 1
"""part of every key: increase it when a reader's arrays change"""


def cache_folder() -> Path:
    """``MANYHEADS_CACHE``, else ``~/.cache/manyheads``."""
    chosen = os.environ.get("MANYHEADS_CACHE")
    place = home(chosen or "~/.cache/manyheads")
    if place.parts[:1] == ("~",):
        raise UserError("there is no home folder for the cache", where="data", fix="set MANYHEADS_CACHE to a folder")
    return place


def cached(kind: str, folder: Path, files: Sequence[Path], decode: Callable[[], Arrays]) -> Arrays:
    """The arrays that ``decode`` makes of some files in a folder, read-only. ``kind`` names the way of decoding.

    If the cache cannot be written, the arrays are decoded every time.
    """
    entry = cache_folder() / f"{kind}-{_content_key(kind, folder, files)}"
    if (arrays := _load(entry)) is not None:
        return arrays
    arrays = decode()
    try:
        _save(entry, arrays)
    except (OSError, UserError):
        return arrays
    return _load(entry) or arrays


def _content_key(kind: str, folder: Path, files: Sequence[Path]) -> str:
    key = hashlib.sha256(f"{SCHEMA} {kind}".encode())
    for path in files:
        key.update(json.dumps(str(path.relative_to(folder))).encode() + digest(path))
    return key.hexdigest()[:24]


def _save(entry: Path, arrays: Arrays) -> None:
    entry.mkdir(parents=True, exist_ok=True)
    for name, array in arrays.items():
        with replacing(entry / f"{name}.npy") as temporary, open(temporary, "wb") as file:
            np.save(file, array, allow_pickle=False)
    write_text(entry / "index.json", json.dumps({name: _checksum(array) for name, array in arrays.items()}))


def _load(entry: Path) -> Arrays | None:
    """The arrays of an entry, or None if it is missing, incomplete or damaged."""
    try:
        index = json.loads((entry / "index.json").read_text(encoding="utf-8"))
        arrays = {name: np.load(entry / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in index}
        whole = all(_checksum(arrays[name]) == checksum for name, checksum in index.items())
    except Exception:  # whatever is wrong with it, it is made again
        return None
    return {name: array.view(np.ndarray) for name, array in arrays.items()} if whole and arrays else None


def _checksum(array: np.ndarray) -> int:
    """Of type, shape and bytes. CRC-32 detects damage, at 4 GB/s."""
    own = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return zlib.crc32(own.data, zlib.crc32(f"{array.dtype} {array.shape}".encode()))

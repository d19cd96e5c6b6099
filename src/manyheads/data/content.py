"""Files read whole, plain or gzip-compressed, up to a size that fits into memory."""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from pathlib import Path

from manyheads.core.errors import UserError
from manyheads.core.files import kind_of

__all__ = ["check_readable", "check_size", "content", "digest", "unpacked"]

SHARE = 8
"""a file may take up 1 / SHARE of the machine's memory, since several copies of it exist while it is read"""
PIECE = 1 << 24


def content(path: Path) -> bytes:
    """The bytes of a file, decompressed if it starts with gzip's magic number, whatever its name."""
    try:
        return unpacked(path)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}") from None


def unpacked(path: Path) -> bytes:
    """Like :func:`content`, but anything wrong with the file is an OSError."""
    check_readable(path)
    with open(path, "rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    try:
        with gzip.open(path) if packed else open(path, "rb") as file:
            pieces, size = [], 0
            while piece := file.read(PIECE):
                pieces.append(piece)
                check_size(size := size + len(piece))
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise OSError("it is a broken gzip file, perhaps cut off: download it again") from None
    return b"".join(pieces)


def check_readable(path: Path) -> None:
    """Refuse anything but a regular file: reading a pipe or a device may never end."""
    kind = kind_of(path)
    if kind is None:
        path.stat()  # raises the reason
    if kind != "file":
        raise OSError("it is a folder" if kind == "folder" else "it is not a file but a pipe, a device or a socket")


def digest(path: Path) -> bytes:
    """The SHA-256 of a file, not decompressed."""
    try:
        check_readable(path)
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}") from None


def check_size(size: int) -> None:
    """Refuse a size that would fill the memory: a few kilobytes may decompress to any number of bytes."""
    if size > largest():
        raise OSError(f"unpacked it has more than {largest() / 1e9:.2g} GB, too much for the memory of this machine")


def largest() -> int:
    """Most bytes that a file may have, decompressed."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // SHARE

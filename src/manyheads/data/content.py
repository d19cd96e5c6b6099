"""The content of a file, plain or gzip-compressed, never more of it than this machine can hold."""

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
"""of the machine's memory one file may fill: it is held in several forms while it is read"""
PIECE = 1 << 24


def content(path: Path) -> bytes:
    """All of a file, decompressed if it begins as gzip files do, whatever its name."""
    try:
        return unpacked(path)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}") from None


def unpacked(path: Path) -> bytes:
    """The same; whatever is wrong with the file is an OSError."""
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
        raise OSError("it is a broken gzip file, perhaps cut off: fetch it again") from None
    return b"".join(pieces)


def check_readable(path: Path) -> None:
    """Refuse what is no file: to read a pipe or a device may never end."""
    kind = kind_of(path)
    if kind is None:
        path.stat()  # says why
    if kind != "file":
        raise OSError("it is a folder" if kind == "folder" else "it is no file but a pipe, a device or a socket")


def digest(path: Path) -> bytes:
    """The SHA-256 of a file as it is."""
    try:
        check_readable(path)
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}") from None


def check_size(size: int) -> None:
    """Refuse what would fill the memory: a few kilobytes can unpack, or claim to unpack, to any number of bytes."""
    if size > largest():
        raise OSError(f"unpacked it has more than {largest() / 1e9:.2g} GB, too much for the memory of this machine")


def largest() -> int:
    """Bytes that a file may unpack to."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // SHARE

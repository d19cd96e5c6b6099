"""The content of a file, plain or gzip-compressed."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

from manyheads.core.errors import UserError

__all__ = ["content"]


def content(path: Path) -> bytes:
    """All of a file, decompressed if it begins as gzip files do, whatever its name."""
    try:
        raw = path.read_bytes()
        return gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}") from None
    except (EOFError, zlib.error):
        raise UserError(f"{path} is a broken gzip file", fix="it may be cut off: fetch it again") from None

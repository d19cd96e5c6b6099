"""Files that are either there whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from manyheads.core.errors import UserError

__all__ = ["fresh_folder", "replacing", "sync_directory", "write_text", "writing"]


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn a failure of the disk (full, read-only, no permission) into an error that names the file."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"cannot write {path}: {error.strerror or error}",
            fix="what was saved before is untouched; free some space or choose another place, then go on with --resume",
        ) from error


def fresh_folder(path: Path) -> None:
    """Make a folder; refuse one that holds anything already."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise UserError(f"{path} exists already", where="out", fix="go on with it by --resume, or choose another --out")
    with writing(path):
        path.mkdir(parents=True, exist_ok=True)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Write to the path this gives; when the block ends well, it takes the place of ``path`` in one step."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with writing(path):
        try:
            yield temporary
            with open(temporary, "rb") as file:
                os.fsync(file.fileno())
            temporary.replace(path)
            sync_directory(path.parent)
        finally:
            temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a small text file atomically."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def sync_directory(path: Path) -> None:
    """Make a rename in this folder survive a power failure."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

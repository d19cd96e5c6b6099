"""Files that are written completely or not at all, and folders locked by one process."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import IO, Literal

from manyheads.core.errors import InUse, UserError

__all__ = [
    "content",
    "fresh_folder",
    "kind_of",
    "locked",
    "replacing",
    "require_free",
    "reserved",
    "sha256",
    "sweep",
    "sync_directory",
    "write_text",
    "writing",
]

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn a failure of the disk (full, read-only, no permission) into an error that names the file."""
    try:
        yield
    except OSError as error:
        full = error.errno is None or error.errno in _FULL  # errors of safetensors have no errno
        cure = (
            "free some space or choose another place" if full else "see that the folder is there and may be written to"
        )
        raise UserError(
            f"cannot write {path}: {error.strerror or error}",
            fix=f"what was saved before is untouched; {cure}, then go on with --resume",
        ) from error


def kind_of(path: Path) -> Literal["file", "folder", "other"] | None:
    """What is at a path; ``other`` is a pipe, a device or a socket, which may never end. None if there is nothing.

    Unlike pathlib's own methods it never raises an error, not even for a name that is too long for any file.
    """
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return None
    return "file" if stat.S_ISREG(mode) else "folder" if stat.S_ISDIR(mode) else "other"


def content(path: Path) -> bytes:
    """All bytes of a file; a pipe that nobody writes to is an error, not an endless wait."""
    if kind_of(path) == "other":
        raise OSError(errno.EINVAL, "it is no file", str(path))
    return path.read_bytes()


def fresh_folder(path: Path) -> None:
    """Make a folder; an error if it exists and is not empty."""
    with writing(path):
        require_free(path)
        path.mkdir(parents=True, exist_ok=True)


def require_free(path: Path) -> None:
    """An error if there is anything at a path but an empty folder."""
    kind = kind_of(path)
    if kind and (kind != "folder" or any(path.iterdir())):
        raise UserError(f"{path} exists already", where="out", fix="go on with it by --resume, or choose another --out")


@contextmanager
def reserved(path: Path) -> Iterator[Path]:
    """A new folder of this name, or with -2, -3, ... if it is taken; it is removed again if it stays empty."""
    for number in count(1):
        place = path if number == 1 else path.with_name(f"{path.name}-{number}")
        with writing(place):
            place.parent.mkdir(parents=True, exist_ok=True)
            try:
                place.mkdir()  # atomic: if two processes start at once, only one succeeds
                break
            except FileExistsError:
                continue
    try:
        yield place
    finally:
        if not any(place.iterdir()):
            place.rmdir()


def locked(folder: Path) -> IO[str]:
    """Keep other processes out of a folder until this file is closed, or the process ends in any way."""
    path = folder / ".lock"
    with writing(path):
        file = open(path, "w")  # noqa: SIM115 (held for the life of the run)
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            file.close()
            raise InUse(f"{folder} is in use by another process") from None
    return file


def sweep(folder: Path, name: str = "*") -> None:
    """Remove files that killed processes left half written; the caller must have locked the folder."""
    for left in folder.glob(f".{name}.[0-9]*.tmp"):
        if not left.name.split(".")[-2].isdigit():
            continue  # not a temporary file of ours: their names end in a process id
        with writing(left):
            shutil.rmtree(left) if left.is_dir() else left.unlink()


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path to write to; it replaces ``path`` in one step when the block ends without an error."""
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


def sha256(path: Path) -> str:
    """The hash of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

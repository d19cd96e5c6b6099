"""Error messages: one line each; the traceback of a bug is written to a file."""

from __future__ import annotations

import errno
import os
import shlex
import sys
import traceback
from collections.abc import Sequence
from tempfile import NamedTemporaryFile

from manyheads.core.errors import UserError
from manyheads.core.machine import machine_facts
from manyheads.core.plain import to_json, visible

__all__ = ["failed"]

FAILED = 2
"""the exit code"""
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO}
_GO_ON = "what a run saved before can be gone on with by --resume"


def failed(error: Exception, arguments: Sequence[str]) -> int:
    """Print the error in one line, or in full with ``--debug``; returns the exit code."""
    if "--debug" in arguments:
        sys.stderr.write("".join(traceback.format_exception(error)))
    else:
        message = str(explained(error) or _bug(error, arguments))
        sys.stderr.write(f"error: {visible(' '.join(message.split()))}\n")
    return FAILED


def explained(error: Exception) -> UserError | None:
    """The error as a ``UserError``, if the user can do something about it; None for a bug."""
    if isinstance(error, UserError):
        return error
    if isinstance(error, MemoryError) or _out_of_memory(error):
        return UserError("out of memory", fix=f"use fewer --workers, or fewer clients a round; {_GO_ON}")
    if isinstance(error, OverflowError) or "without overflow" in str(error):  # part of torch's message
        return UserError(
            f"a number is too large to compute with ({error})", fix="likely a step size: try a smaller one"
        )
    if isinstance(error, RuntimeError) and "can't start new thread" in str(error):
        return UserError(
            "no more threads can be started", fix=f"allow more (ulimit -u), or use fewer --workers; {_GO_ON}"
        )
    if isinstance(error, ImportError):
        return UserError(
            f"cannot load what manyheads needs: {error}",
            fix="it may not be installed whole, or the limits on memory or open files (ulimit -v, -n) are too low",
        )
    if not isinstance(error, OSError):
        return None
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return UserError("too many open files", fix=f"allow more (ulimit -n), or use fewer --workers; {_GO_ON}")
    if error.filename is not None:
        return UserError(f"{error.strerror}", where=os.fsdecode(error.filename))
    if error.errno in _FULL:
        return UserError(f"cannot write: {error.strerror}", fix=f"free some space; {_GO_ON}")
    return None


def _out_of_memory(error: Exception) -> bool:
    """Whether torch (on a CPU or a GPU) or numpy ran out of memory, recognized by the message of the error."""
    said, words = (
        str(error),
        ("can't allocate memory", "out of memory", "array is too big", "allowed dimension exceeded"),
    )
    return isinstance(error, RuntimeError | ValueError) and any(word in said for word in words)


def _bug(error: Exception, arguments: Sequence[str]) -> str:
    kind = traceback.format_exception_only(error)[-1].strip()
    try:
        place = f"the traceback is in {_written(error, arguments)}"
    except OSError as full:
        place = f"the traceback cannot be written ({full.strerror})"
    return f"this is a bug in manyheads ({kind[:300]}); {place}: please report it; --debug shows it here; {_GO_ON}"


def _written(error: Exception, arguments: Sequence[str]) -> str:
    """Write the report of a bug to the folder for temporary files; returns its path."""
    parts = (
        f"command: {shlex.join(['manyheads', *arguments])}",
        f"machine: {to_json(machine_facts())}",
        "".join(traceback.format_exception(error)),
    )
    with NamedTemporaryFile(
        "w", prefix="manyheads-error-", suffix=".txt", delete=False, encoding="utf-8", errors="backslashreplace"
    ) as file:
        file.write("\n".join(parts))
    return file.name

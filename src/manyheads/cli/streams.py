"""Standard output and error that cope with full disks, closed descriptors and closed pipes."""

from __future__ import annotations

import io
import os
import sys
from typing import Any

from manyheads.core.errors import UserError

__all__ = ["guard"]


class _Output(io.FileIO):
    """Standard output: the first write error is raised, later ones are not; a closed pipe (``head``) is no error."""

    over = False

    def write(self, data: Any) -> int:
        if not self.over:
            try:
                return super().write(data)
            except OSError as error:
                self.over = True
                self.failed(error)
        return memoryview(data).nbytes

    def failed(self, error: OSError) -> None:
        if not isinstance(error, BrokenPipeError):
            raise UserError(f"cannot write to standard output: {error.strerror}", fix="send it elsewhere") from None


class _Errors(_Output):
    """Standard error: errors in writing to it are ignored."""

    def failed(self, error: OSError) -> None:
        pass


def guard() -> None:
    """Replace the standard streams of this process by these classes."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:  # closed: opened again, so that no other file gets this descriptor
            os.open(os.devnull, os.O_RDONLY)
    sys.stdout = _text(_Output(1, "w", closefd=False), sys.stdout)
    sys.stderr = _text(_Errors(2, "w", closefd=False), sys.stderr)


def _text(raw: io.FileIO, before: Any) -> io.TextIOWrapper:
    encoding = getattr(before, "encoding", None) or "utf-8"
    lines = raw.isatty() or raw.fileno() == 2
    # names of files and sites may not be encodable in the terminal's encoding
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding, errors="backslashreplace", line_buffering=lines)

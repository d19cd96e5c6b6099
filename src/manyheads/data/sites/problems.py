"""Problems in a user's files: where they are, and how to fix them."""

from __future__ import annotations

from collections.abc import Iterator, Sized
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from manyheads.core.words import printable, quoted

__all__ = ["Problem", "Unreadable", "and_more", "noting"]

Severity = Literal["error", "warning"]


@dataclass(frozen=True)
class Problem:
    """A problem in a file, and its fix. Rows are counted from 1, below the header.

    >>> print(Problem("error", "a.csv", "not a number: 'x'", "correct it", row=3, column="age"))
    a.csv, row 3, column 'age': not a number: 'x'; correct it
    """

    severity: Severity
    file: str
    message: str
    fix: str
    row: int | None = None
    column: str | None = None

    def __str__(self) -> str:
        row = f", row {self.row}" if self.row is not None else ""
        column = f", column {quoted(self.column)}" if self.column is not None else ""
        return printable(f"{self.file}{row}{column}: {self.message}; {self.fix}")


class Unreadable(Exception):
    """A file that cannot be used at all."""

    def __init__(self, message: str, fix: str, row: int | None = None, column: str | None = None) -> None:
        self.message, self.fix, self.row, self.column = message, fix, row, column


@contextmanager
def noting(path: Path, problems: list[Problem]) -> Iterator[None]:
    """Catch the errors of reading a file, and add them to ``problems``."""
    import pyarrow as pa

    try:
        yield
    except Unreadable as error:
        problems.append(Problem("error", str(path), error.message, error.fix, error.row, error.column))
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split()) or type(error).__name__
        problems.append(Problem("error", str(path), f"cannot be read: {reason}", "write the file again"))


def and_more(found: Sized) -> str:
    """The end of a message about the first of some rows: how many more there are."""
    return f" (and {len(found) - 1} more rows)" if len(found) > 1 else ""

"""The history of a run: one sealed JSON object per round, appended after each round."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, overload

from manyheads.core.errors import Damaged
from manyheads.core.files import content, write_text, writing
from manyheads.core.plain import plain
from manyheads.core.sealed import sealed_json, unsealed_json

__all__ = ["History", "metrics_of", "record_of", "rounds_recorded"]

Record = dict[str, Any]
_WHOLE = re.compile(rb'"seal": "[0-9a-f]{16}"}')


class History(Sequence[Record]):
    """Records of rounds 1, 2, ..., in memory and, with ``path``, in a file, whose seals include the run's hash ``of``.

    >>> history = History()
    >>> history.append({"round": 1, "evaluation": {"accuracy": 0.5}})
    >>> history.column("accuracy")
    [(1, 0.5)]
    """

    def __init__(self, path: Path | None = None, records: Iterable[Record] = (), of: str = "") -> None:
        self.path, self.of = path, of
        self._records = list(records)

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> list[Record]: ...
    def __getitem__(self, index: int | slice) -> Record | list[Record]:
        return self._records[index]

    def __len__(self) -> int:
        return len(self._records)

    def append(self, record: Record) -> None:
        record = plain(record)  # the same in memory as when read from the file
        self._records.append(record)
        if self.path is not None:
            with writing(self.path), open(self.path, "a", encoding="utf-8") as file:
                file.write(sealed_json(record, of=self.of) + "\n")

    def sync(self) -> None:
        """Make what was appended survive a power failure."""
        if self.path is not None and self.path.exists():
            with writing(self.path), open(self.path, "rb") as file:
                os.fsync(file.fileno())

    def evaluations(self) -> Iterator[Record]:
        """The evaluations, each with the round it was made after."""
        for record in self._records:
            if "evaluation" in record:
                yield {"round": record["round"], **record["evaluation"]}

    def column(self, name: str) -> list[tuple[int, Any]]:
        """(round, value) pairs of one entry of the records, their monitors or evaluations, for rounds that have it."""
        flat = ({**r, **r.get("monitors", {}), **r.get("evaluation", {})} for r in self._records)
        return [(r["round"], r[name]) for r in flat if r.get(name) is not None]

    @classmethod
    def read(cls, path: Path, upto: int | None = None, of: str = "") -> History:
        """The history in a file, up to a round. A last line cut off by a crash is ignored; other damage is an error."""
        lines = _lines(path)
        if upto is not None and len(lines) < upto:
            raise Damaged(f"{path} lacks rounds that the checkpoint has")
        return cls(path, [record_of(line, number, path, of) for number, line in enumerate(lines[:upto], 1)], of)

    def rewrite(self) -> None:
        """Make the file contain exactly these records."""
        assert self.path is not None
        text = "".join(sealed_json(r, of=self.of) + "\n" for r in self._records)
        if not self.path.exists() or self.path.read_bytes() != text.encode():
            write_text(self.path, text)


def metrics_of(records: Sequence[Record]) -> list[str]:
    """Names of the metrics of the last evaluation; the first is the score by which methods are compared."""
    found: Record = next((r["evaluation"] for r in reversed(records) if "evaluation" in r), {})
    return found.get("metrics") or [name for name in ("accuracy", "loss") if found.get(name) is not None]


def rounds_recorded(path: Path) -> int:
    """The number of rounds for which a file has a line, intact or damaged."""
    return len(_lines(path))


def record_of(line: bytes, number: int, path: Path, of: str = "") -> Record:
    """The record in line ``number`` of a file; an error unless it is that of the round with the same number."""
    record = unsealed_json(line, f"line {number} of {path}", of)
    if record.get("round") != number:
        raise Damaged(f"line {number} of {path} is that of another round: the file lacks rounds")
    return record


def _lines(path: Path) -> list[bytes]:
    """The lines of a file, without an incomplete end left by a crash or a power failure while writing."""
    try:
        whole = content(path).rstrip(b"\0")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise Damaged(f"{path} cannot be read: {error.strerror or error}") from None
    *lines, last = whole.split(b"\n")
    return [*lines, last] if _WHOLE.search(last) else lines

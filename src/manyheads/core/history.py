"""The history of a run: one JSON object a round, appended as the run goes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, overload

from manyheads.core.errors import UserError
from manyheads.core.files import write_text, writing
from manyheads.core.plain import plain, to_json

__all__ = ["History"]

Record = dict[str, Any]


class History(Sequence[Record]):
    """Records of rounds 1, 2, ...; kept in memory, and in a file if it has a path.

    >>> history = History()
    >>> history.append({"round": 1, "evaluation": {"accuracy": 0.5}})
    >>> history.column("accuracy")
    [(1, 0.5)]
    """

    def __init__(self, path: Path | None = None, records: Iterable[Record] = ()) -> None:
        self.path = path
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
        record = plain(record)  # as it will be read
        self._records.append(record)
        if self.path is not None:
            with writing(self.path), open(self.path, "a", encoding="utf-8") as file:
                file.write(to_json(record) + "\n")

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
        """(round, value) of one entry of the records, their monitors or their evaluations, wherever it is there."""
        flat = ({**r, **r.get("monitors", {}), **r.get("evaluation", {})} for r in self._records)
        return [(r["round"], r[name]) for r in flat if r.get(name) is not None]

    @classmethod
    def read(cls, path: Path, upto: int | None = None) -> History:
        """The history in a file, up to a round. A line cut short by a crash ends it."""
        records: list[Record] = []
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
            try:
                records.append(json.loads(line))
            except json.JSONDecodeError:
                break
        records = [r for r in records if upto is None or r["round"] <= upto]
        if [r["round"] for r in records] != list(range(1, len(records) + 1)) or (
            upto is not None and len(records) != upto
        ):
            raise UserError(
                f"{path} lacks rounds that the checkpoint has", fix="restore the file, or start again elsewhere"
            )
        return cls(path, records)

    def rewrite(self) -> None:
        """Put exactly these records into the file."""
        assert self.path is not None
        write_text(self.path, "".join(to_json(r) + "\n" for r in self._records))

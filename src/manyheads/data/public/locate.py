"""Where the files of a dataset are, and the error if they are missing."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from manyheads.core.errors import UserError
from manyheads.core.files import kind_of
from manyheads.data.paths import home, suggestion

__all__ = ["HUB", "Location"]

HUB = {
    "mnist": "ylecun/mnist",
    "fashion-mnist": "zalando-datasets/fashion_mnist",
    "cifar10": "uoft-cs/cifar10",
    "cifar100": "uoft-cs/cifar100",
    "femnist": "flwrlabs/femnist",
}
"""names on the Hugging Face hub of the datasets that ``manyheads data get`` downloads"""


def _getting(name: str, folder: Path | str) -> str:
    """How to download a dataset into a folder of all data; empty if it must be found by hand."""
    return f"; to download it: manyheads data get {name} --out {folder}" if name in HUB else ""


@dataclass(frozen=True)
class Location:
    """A dataset's folder, and the subfolders that its archives unpack to."""

    name: str
    folder: Path
    inner: tuple[str, ...] = ()

    @classmethod
    def of(cls, name: str, path: str, *inner: str) -> Location:
        """``path`` if given, else the folder ``name`` under ``MANYHEADS_DATA``."""
        root = os.environ.get("MANYHEADS_DATA")
        if not path and not root:
            raise UserError(
                f"no place to look for {name}",
                where="data",
                fix=f"set MANYHEADS_DATA to the folder that holds {name}/, or give the folder itself as its path"
                + _getting(name, "FOLDER"),
            )
        folder = home(path or Path(str(root)) / name)
        if path and not kind_of(folder):
            raise UserError(f"no such folder: {folder}", where=f"data {name}.path", fix=suggestion(folder))
        return cls(name, folder, inner)

    def matching(self, *patterns: str) -> list[Path]:
        """Files that match a pattern, from the first folder that has any."""
        for place in self._places():
            if found := sorted({f for p in patterns for f in place.glob(p) if kind_of(f) == "file"}):
                return found
        return []

    def found(self, names: Iterable[str], endings: Sequence[str] = ("",)) -> list[Path]:
        """The files of these names, or none if one of them is missing."""
        files = [self._one(name, endings) for name in names]
        return [f for f in files if f] if all(files) else []

    def has(self, names: Iterable[str], endings: Sequence[str] = ("",)) -> bool:
        return bool(self.found(names, endings))

    def files(self, names: Sequence[str], endings: Sequence[str] = ("",)) -> list[Path]:
        """The files of these names; an error lists the missing ones."""
        lacking = [n + endings[-1] for n in names if not self._one(n, endings)]
        if lacking:
            raise self.missing(lacking)
        return self.found(names, endings)

    def missing(self, names: Sequence[str], otherwise: str = "") -> UserError:
        return UserError(
            f"{self.name} is not there",
            where="data",
            fix=f"put {', '.join(names)} into {self.folder}"
            + (f"; {otherwise}" if otherwise else "")
            + (_getting(self.name, self.folder.parent) if self.folder.name == self.name else ""),
        )

    def _places(self) -> list[Path]:
        return [self.folder, *(self.folder / i for i in self.inner)]

    def _one(self, name: str, endings: Sequence[str]) -> Path | None:
        candidates = (place / (name + ending) for place in self._places() for ending in endings)
        return next((c for c in candidates if kind_of(c) == "file"), None)

"""Data sources by name: those with a ``pool`` are to be partitioned, those with a ``federation`` come with clients."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from manyheads.core.errors import UserError, did_you_mean
from manyheads.core.files import kind_of
from manyheads.core.registry import Registry, check_declared, import_path, is_import_path
from manyheads.core.settings import build
from manyheads.data.paths import siblings
from manyheads.data.public.characters import Chars74k, Femnist
from manyheads.data.public.digits import Digits
from manyheads.data.public.hospitals import Heart, Parkinsons
from manyheads.data.public.images import Cifar10, Cifar100, Emnist, FashionMnist, ImageFolder, Mnist
from manyheads.data.public.tcga import TcgaBrca
from manyheads.data.public.text import Sent140
from manyheads.data.sites.source import Sites
from manyheads.data.synthetic import LinearTasks

__all__ = ["SOURCES", "name_of_path", "source_named", "source_of"]


def _check_source(cls: type[Any]) -> None:
    check_declared(cls, attributes=("model",))
    if not hasattr(cls, "pool") and not hasattr(cls, "federation"):
        raise UserError(f"{import_path(cls)} lacks pool(seed) -> Pool, or federation(seed) -> Federation")


SOURCES: Registry[type[Any]] = Registry("data", _check_source, group="manyheads.data")
for _source in (
    Digits,
    LinearTasks,
    Sites,
    Heart,
    Parkinsons,
    TcgaBrca,
    Sent140,
    Mnist,
    FashionMnist,
    Emnist,
    Femnist,
    Chars74k,
    Cifar10,
    Cifar100,
    ImageFolder,
):
    SOURCES.register(_source)


def source_named(name: str) -> type[Any]:
    """The data of that name."""
    if name in SOURCES or is_import_path(name):
        return SOURCES.find(name, where="data")
    path = Path(name)
    raise UserError(
        "unknown data (no such folder or file, and no data of that name)",
        where="data",
        given=name,
        allowed=f"a path, or {', '.join(sorted(SOURCES))}",
        fix=did_you_mean(path.name, [*SOURCES, *siblings(path)]),
    )


def source_of(table: Mapping[str, Any]) -> Any:
    """The source that a table of settings names; a path in place of a name is resolved by :func:`name_of_path`."""
    values = {"name": Digits.name, **table}
    name = str(values.pop("name"))
    if name not in SOURCES and kind_of(Path(name)):
        name, values = name_of_path(name), {"path": name, **values}
    return build(source_named(name), values, where="data")


def name_of_path(path: str) -> str:
    """The source that reads a path: the dataset that the folder is named after (``copies/mnist``), else ``sites``.

    Tables of one's own may be in a folder ``heart``: it is read as that dataset only if it has its tables.
    """
    folder = Path(path).resolve()
    known = SOURCES.get(folder.name)
    if not known or "path" not in known.__dataclass_fields__ or kind_of(folder) != "folder":
        return Sites.name
    mark = getattr(known, "known_by", None)
    return folder.name if mark is None or any(folder.rglob(mark)) else Sites.name

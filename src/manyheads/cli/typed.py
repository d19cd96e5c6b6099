"""Names on the command line: registered ones, or import paths ``package.module:Name``. Files import nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from manyheads.cli.flags import given_name
from manyheads.core.contract import ALGORITHMS
from manyheads.core.files import kind_of
from manyheads.core.registry import Registry, is_import_path
from manyheads.data import PARTITIONERS, SOURCES
from manyheads.metrics import METRICS
from manyheads.models import MODELS
from manyheads.monitors import MONITORS
from manyheads.run.kinds import KINDS

__all__ = ["OwnAlgorithm", "OwnModel", "import_own", "import_typed", "name_of", "with_names"]


OwnAlgorithm = Annotated[
    str | None,
    typer.Option("--algorithm", help="your own method, if the run used one: package.module:Name", show_default=False),
]
OwnModel = Annotated[
    str | None,
    typer.Option("--model", help="your own model, if the run used one: package.module:Name", show_default=False),
]


class _Place(NamedTuple):
    """An option that takes names, the path of its value in the table of flags, and the registry of the names."""

    option: str
    path: tuple[str, ...]
    known: Registry[Any]


_PLACES = (
    _Place("--algorithm", ("algorithm", "name"), ALGORITHMS),
    _Place("--methods", ("compare", "methods"), ALGORITHMS),
    _Place("--model", ("model", "name"), MODELS),
    _Place("--data", ("data", "name"), SOURCES),
    _Place("--new-data", ("new_data",), SOURCES),
    _Place("--partition", ("partition",), PARTITIONERS),
    _Place("--metric", ("evaluate", "metrics"), METRICS),
    _Place("--metric", ("compare", "metric"), METRICS),
    _Place("--metrics", ("compare", "metrics"), METRICS),
    _Place("--monitor", ("monitor",), MONITORS),
)


def name_of(known: Registry[Any], typed: str) -> str:
    """Return the registered name for what was typed, importing an import path; a suffix (``+ft``, ``:5``) is kept.

    An existing file or folder is returned as it is, even if it looks like an import path.
    """
    if ":" not in typed or typed in known or kind_of(Path(typed)):
        return typed
    path, plus, rest = typed.partition("+")
    if known is PARTITIONERS:
        module, _, after = typed.partition(":")
        name, plus, rest = after.partition(":")
        path = module if module in known else f"{module}:{name}"
    return f"{known.imported(path).name}{plus}{rest}" if is_import_path(path) else typed


def import_typed(arguments: Sequence[str]) -> None:
    """Import the classes that unparsed arguments name by import path."""
    for option, _, known in _PLACES:
        for word in (given_name(arguments, option) or "").split(","):
            name_of(known, word)


def import_own(**typed: str | None) -> None:
    """Import user-defined classes; each keyword is a kind of class, and its value the import path."""
    for kind, path in typed.items():
        if path:
            KINDS[kind].imported(path, where=kind)


def with_names(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return the flags with import paths replaced by registered names."""
    table = dict(flags)
    for _, (first, *rest), known in _PLACES:
        if first not in table:
            continue
        if not rest:
            table[first] = _names(known, table[first])
        elif isinstance(table[first], Mapping) and rest[0] in table[first]:
            table[first] = table[first] | {rest[0]: _names(known, table[first][rest[0]])}
    return table


def _names(known: Registry[Any], typed: str | list[str]) -> str | list[str]:
    return name_of(known, typed) if isinstance(typed, str) else [name_of(known, word) for word in typed]

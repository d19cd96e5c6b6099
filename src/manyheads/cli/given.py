"""Merges settings from defaults, files and flags; flags take precedence, and unknown settings are refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from manyheads.cli.flags import given_name, given_position
from manyheads.cli.typed import name_of, with_names
from manyheads.core.contract import ALGORITHMS
from manyheads.core.errors import UserError
from manyheads.core.files import kind_of
from manyheads.core.optim import FineTune
from manyheads.data import SOURCES, name_of_path
from manyheads.data.paths import home
from manyheads.data.sources import source_named
from manyheads.models import MODELS
from manyheads.run.config import merged
from manyheads.run.config_file import COMPARISON, RUN, TUNING, read_kept_settings, read_settings

__all__ = ["chosen", "combined", "files_of", "refuse_idle", "refuse_unknown", "resumed", "with_data"]

Table = dict[str, Any]
_DATA = {"compare": 1, "tune": 2}
"""commands that take the data as a positional argument, and which one it is"""


def files_of(arguments: Sequence[str]) -> Table:
    """Return the settings in the files that unparsed arguments name: a comparison, the run to resume, a TOML file."""
    table: Table = {}
    out, position = given_name(arguments, "--out"), given_position(arguments)
    comparison = given_name(arguments, "--from")
    if comparison and kind_of(Path(comparison)) and (position or kind_of(Path(comparison) / TUNING)):
        return chosen(Path(comparison), position)
    if "--resume" in arguments and out:
        table = next(filter(None, (resumed(Path(out), file) for file in (RUN, COMPARISON, TUNING))), {})
    if position and position.endswith(".toml") and kind_of(Path(position)) == "file":
        table = merged(table, read_settings(Path(position)))
    return table


def chosen(comparison: Path, method: str | None) -> Table:
    """Return the settings with which a comparison would train one of its methods."""
    from manyheads.experiments.chosen import chosen_settings  # slow: imports all of a comparison

    return chosen_settings(comparison, method)


def refuse_unknown(arguments: Sequence[str]) -> None:
    """Refuse unknown names of data, model or method, before an error about their flags, which are unknown as well."""
    place = _DATA.get(arguments[0])
    data = given_name(arguments, "--data") or (given_position(arguments, place) if place else None)
    if data and not data.endswith(".toml") and not kind_of(Path(data)):
        source_named(name_of(SOURCES, data))
    for option, known in (("--model", MODELS), ("--algorithm", ALGORITHMS)):
        if name := given_name(arguments, option):
            known.imported(name)


def resumed(out: Path | None, file: str) -> Table | None:
    """Return the settings of the run or comparison in a folder; None if there is none."""
    if out is None:
        raise UserError("--resume needs --out", fix="name the folder to go on with")
    return read_kept_settings(out / file) if kind_of(out / file) else None


def with_data(flags: Table, given: str | None = None) -> Table:
    """Return the flags with the positional argument ``given`` as the data, and names in place of import paths.

    Data given as an existing path becomes the name of the source that reads it, and the path.
    """
    data = dict(flags.get("data", {}))
    if given is not None and data.setdefault("name", given) != given:
        raise UserError("two names", where="data", given=f"{given} and {data['name']}", fix="leave one out")
    flags = with_names(flags | {"data": data} if data else flags)
    data = dict(flags.get("data", {}))
    name = data.get("name")
    if name and name not in SOURCES and kind_of(Path(name)):
        if data.setdefault("path", name) != name:
            raise UserError("two places", where="data", given=f"{name} and {data['path']}", fix="leave one out")
        data["name"] = name_of_path(name)
    return flags | {"data": data} if data else flags


def combined(flags: Table, *layers: Mapping[str, Any]) -> Table:
    """Return the layers merged in order, and the flags last; a data path that comes from a file must exist."""
    table: Table = {}
    for layer in layers:
        table = merged(table, layer)
    table = merged(table, _with_finetune(flags))
    refuse_idle(flags.get("engine", {}).get("address"), table.get("engine", {}))
    path = table.get("data", {}).get("path") if isinstance(table.get("data"), Mapping) else None
    if path and path != flags.get("data", {}).get("path") and not kind_of(home(str(path))):
        raise UserError(f"the data were in {path}, which is not there", fix="say where they are now: --data.path PLACE")
    return table


def refuse_idle(address: str | None, engine: Any) -> None:
    """Refuse the address of a cluster that would not be used."""
    if address is not None and isinstance(engine, Mapping) and engine.get("executor") != "ray":
        raise UserError("is for Ray", where="engine.address", given=address, fix="add --engine.executor ray")


def _with_finetune(flags: Table) -> Table:
    """Return the flags with a value such as ``--finetune head:10`` parsed into a table of settings."""
    tune = flags.get("finetune", {})
    if "scope" not in tune:
        return flags
    told = FineTune.parse(tune["scope"])
    twice = next((k for k in ("epochs", "steps") if len(told) > 1 and k in tune), None)
    if twice:
        given = f"--finetune {tune['scope']} and --finetune.{twice} {tune[twice]}"
        raise UserError("two amounts", where="finetune", given=given, fix="leave one out")
    return flags | {"finetune": tune | told}

"""``manyheads algorithms``: list the available methods."""

from __future__ import annotations

import inspect
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

import manyheads.algorithms  # noqa: F401, registers the methods
from manyheads.cli.output import Plain, bold
from manyheads.core.contract import ALGORITHMS, Algorithm
from manyheads.core.plain import to_json
from manyheads.core.settings import walk

__all__ = ["algorithms"]


def algorithms(
    name: Annotated[str | None, typer.Argument(help="show one method with its settings", show_default=False)] = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object on standard output")] = False,
) -> None:
    """List the methods: their paper, what travels, what stays, and their settings."""
    chosen = {name: ALGORITHMS.imported(name)} if name else ALGORITHMS.usable(Plain(stderr=True).print)
    if as_json:
        typer.echo(to_json({"algorithms": [_facts(cls) for cls in chosen.values()]}))
        return
    console = Plain(wrap=True)
    if name:
        _show_one(console, chosen[name])
        return
    table = Table("method", "paper", "travels", "stays", box=None, pad_edge=False)
    for cls in chosen.values():
        table.add_row(cls.name, cls.paper, cls.travels, cls.stays)
    console.print(table)
    console.print("\nSettings of one: manyheads algorithms NAME")


def _facts(cls: type[Algorithm]) -> dict[str, Any]:
    return {
        "name": cls.name,
        "paper": cls.paper,
        "travels": cls.travels,
        "stays": cls.stays,
        "models": cls.models,
        "weighting": cls.weighting,
        "parameters": [
            {"name": ".".join(s.path), "default": s.default, "doc": " ".join(s.doc.split())} for s in walk(cls)
        ],
    }


def _show_one(console: Console, cls: type[Algorithm]) -> None:
    console.print(bold(cls.name) + f": {(inspect.getdoc(cls) or '').splitlines()[0]}")
    console.print(f"paper    {cls.paper}\ntravels  {cls.travels}\nstays    {cls.stays}\n")
    table = Table("flag", "default", "", box=None, pad_edge=False)
    for setting in walk(cls):
        flag = "--algorithm." + ".".join(setting.path).replace("_", "-")
        table.add_row(flag, str(setting.default), " ".join(setting.doc.split()))
    console.print(table)

"""``manyheads data``: list, download, check and describe data."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from manyheads.cli.describe import describe, describe_flags
from manyheads.cli.flags import flags_of, with_flags
from manyheads.cli.output import Plain
from manyheads.core.plain import to_json
from manyheads.core.settings import build
from manyheads.data import SOURCES
from manyheads.data.public.hub import DATASETS, fetch, is_there
from manyheads.data.sites.reading import Reading
from manyheads.data.sites.survey import Survey, survey_of

__all__ = ["data_app"]

AsJson = Annotated[bool, typer.Option("--json", help="print one JSON object on standard output")]
LABELS_SHOWN = 8


def data_app(arguments: Sequence[str]) -> typer.Typer:
    """Return the subcommands of ``data``, with the flags of the data source that ``arguments`` name."""
    app = typer.Typer(no_args_is_help=True)
    app.command("list")(list_sources)
    app.command()(get)
    columns = [flag for flag in flags_of(Reading, "Columns", ("data",)) if flag.path[-1] != "path"]
    app.command()(with_flags(check, columns, arguments))
    app.command()(with_flags(describe, describe_flags(arguments), arguments))
    return app


def list_sources(*, as_json: AsJson = False) -> None:
    """List the data that [bold]--data[/bold] knows, and whether its files are found.

    Files are looked for under the folder that the variable MANYHEADS_DATA names.

    Example:

      MANYHEADS_DATA=~/data manyheads data list
    """
    facts = [_facts(name, cls) for name, cls in SOURCES.usable(Plain(stderr=True).print).items()]
    if as_json:
        typer.echo(to_json({"data": facts}))
        return
    table = Table("data", "files", "", box=None, pad_edge=False)
    words = {True: "found", False: "not found", None: "-"}
    for fact in facts:
        table.add_row(fact["name"], words[fact["found"]], fact["about"])
    console = Plain(wrap=True)
    console.print(table)
    console.print("\nFiles of one: manyheads data get NAME. Your own: manyheads data check PATH")


def _facts(name: str, cls: type[Any]) -> dict[str, Any]:
    return {
        "name": name,
        "about": (inspect.getdoc(cls) or "").splitlines()[0],
        "natural_clients": not hasattr(cls, "pool"),
        "model": cls.model,
        "found": is_there(name) if name in DATASETS else None,
    }


def get(
    name: Annotated[str, typer.Argument(help=f"one of {', '.join(DATASETS)}", show_default=False)],
    *,
    out: Annotated[Path | None, typer.Option(help="folder of all data  \\[default: MANYHEADS_DATA]")] = None,
    as_json: AsJson = False,
) -> None:
    """Write a dataset to a folder: from the package, from a copy under MANYHEADS_DATA, or from the Hugging Face hub.

    The hub needs the extra [bold]hub[/bold]. Files that are there already are kept; an interrupted download is continued
    when called again. The checksums are written to SHA256SUMS. Without network, it says which files to put where.

    Examples:

      manyheads data get heart --out my_data

      manyheads data get cifar10 --out ~/data
    """
    facts = fetch(name, out)
    if as_json:
        typer.echo(to_json(facts))
        return
    for file in facts["files"]:
        typer.echo(f"{'kept' if file['kept'] else 'got '}  {file['sha256'][:12]}  {file['bytes']:>12,}  {file['file']}")


def check(
    path: Annotated[str, typer.Argument(help="a folder with one file per client, or one table with a client column")],
    *,
    as_json: AsJson = False,
    flags: dict[str, Any],
) -> None:
    """Look your own sites through: what each holds, and what is wrong, with file, row and column.

    Tables are CSV, TSV, Excel (.xlsx), Parquet, or NPZ with arrays x and y. Rows count from 1, below the header. The exit
    code is 0 if the sites can be used, 2 if not.

    Examples:

      manyheads data check my_sites/ --data.label outcome

      manyheads data check all.csv --data.client hospital --data.label outcome --json
    """
    survey = survey_of(build(Reading, {**flags.get("data", {}), "path": path}, where="data"))
    if as_json:
        typer.echo(to_json(survey.facts()))
    else:
        _show(survey)
    if survey.errors:
        raise typer.Exit(2)


def _show(survey: Survey) -> None:
    facts = survey.facts()
    console = Plain()
    if facts["sites"]:
        words = {"number": "numbers", "boolean": "booleans", "date": "dates", "category": "categories"}
        features = ", ".join(f"{count} of {words[kind]}" for kind, count in Counter(survey.kinds.values()).items())
        console.print(f"{len(survey.sites)} sites, {survey.task} of {survey.label!r}, features: {features}\n")
        table = Table("site", "rows", "labels" if survey.labels else "target", "missing", "constant", box=None)
        for site in facts["sites"]:
            missing, constant = (", ".join(_short(site[key])) for key in ("missing", "constant"))
            table.add_row(site["name"], str(site["rows"]), _labels(site), missing, constant)
        console.print(table)
    if survey.problems:
        console.print()
    for problem in survey.problems:
        console.print(f"{problem.severity}: {problem}")
    verdict = "cannot be used: mend the errors above" if survey.errors else f"can be used: --data {survey.path}"
    console.print(f"\n{survey.path} {verdict}")


def _labels(site: dict[str, Any]) -> str:
    if "survival" in site:
        return f"{site['survival']['events']} events"
    if "target" in site:
        return "mean {mean:.4g}, std {std:.4g}".format(**site["target"]) if site["target"]["std"] is not None else "-"
    return "  ".join(_short({f"{label}: {count}": 0 for label, count in site["labels"].items()}))


def _short(values: Any) -> list[str]:
    """Return the first few names and how many more there are; names of a mapping are followed by their counts."""
    named = [f"{k} {v}" if v else str(k) for k, v in values.items()] if isinstance(values, dict) else list(values)
    return named[:LABELS_SHOWN] + [f"and {len(named) - LABELS_SHOWN} more"] * (len(named) > LABELS_SHOWN)

"""``manyheads export``: the model of a site that took part in a run, as a folder of its own."""

from __future__ import annotations

import re
import shlex
import sys
from itertools import count
from pathlib import Path
from typing import Annotated, Any

import typer

from manyheads.cli.formats import Formats, formats_of
from manyheads.cli.output import Plain
from manyheads.cli.typed import OwnAlgorithm, OwnModel, import_own
from manyheads.core.plain import to_json
from manyheads.core.quantities import named_quantity
from manyheads.metrics import METRICS
from manyheads.onboarding import federation_again, save_personal, site_model, site_names
from manyheads.onboarding.export import FORMATS
from manyheads.onboarding.model_folder import check_place
from manyheads.run import load

__all__ = ["export"]

ALL = "all"


def export(
    run: Annotated[Path, typer.Argument(help="folder of a trained run", show_default=False)],
    *,
    site: Annotated[str, typer.Option(help="name of the site, or all: a folder for each", show_default=False)],
    out: Annotated[
        Path | None,
        typer.Option(
            help=r"folder for the model; of all sites: the folder of their folders  \[default: models/SITE]",
            show_default=False,
        ),
    ] = None,
    format: Formats = None,
    algorithm: OwnAlgorithm = None,
    model: OwnModel = None,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object on standard output")] = False,
) -> None:
    """Give a site that took part in a run its own model, as a folder for [bold]manyheads predict[/bold].

    The folder holds the site's final model and how the site's samples become its inputs. If the run fine-tunes its final
    models, or its method adapts them, the site's training samples are read again. A site that did not take part gets a
    model by [bold]manyheads personalize[/bold].

    Examples:

      manyheads export runs/mine --site turin --out models/turin

      manyheads export runs/mine --site all --out models

      manyheads predict models/turin more.csv
    """
    chosen = formats_of(format, "format")
    import_own(algorithm=algorithm, model=model)
    errors = Plain(stderr=True)
    trained = load(run, say=lambda words: errors.print(f"warning: {words}"))
    sites = site_names(trained) if site == ALL else [site]
    places = _places(sites, out or Path("models")) if site == ALL or out is None else [out]
    for place in places:
        check_place(place)
    federation = federation_again(trained) if trained.adapts else None
    found = []
    for name, place in zip(sites, places, strict=True):
        command = shlex.join(["manyheads", *sys.argv[1:]])
        card = save_personal(site_model(trained, name, federation), place, chosen, command)
        found.append({"out": str(place), **card["measured"], "exports": card["exports"]})
        for warning in card["measured"]["warnings"]:
            errors.print(f"warning: {name}: {warning}")
        for kind, why in card["exports_left_out"].items():
            errors.print(f"warning: {name}: no {kind} export: {why}")
    typer.echo(to_json({"run": str(run), "sites": found})) if as_json else _show(found)


def _places(sites: list[str], folder: Path) -> list[Path]:
    """A folder for each site, called as the site is as far as a file system allows, and a number where names are alike.

    >>> [str(place) for place in _places(["St. Gallen", "x y", "x/y", "x-y-2"], Path("models"))]
    ['models/St.-Gallen', 'models/x-y-1', 'models/x-y-3', 'models/x-y-2']
    """
    plain = [re.sub(r"[^\w.-]+", "-", name).strip(".-") or "site" for name in sites]
    alone = {name for name in plain if plain.count(name) == 1}
    names = list[str]()
    for i, name in enumerate(plain):
        numbered = (f"{name}-{k}" for k in count(i))
        names.append(name if name in alone else next(n for n in numbered if n not in alone and n not in names))
    return [folder / name for name in names]


def _show(found: list[dict[str, Any]]) -> None:
    console = Plain()
    first = found[0]
    console.print(f"{first['method']} after {first['rounds']} rounds: {first['protocol']}\n")
    for facts in found:
        measured = [
            f"{quantity.title} {quantity.shown(value)}"
            for name, value in facts["test"].items()
            if value is not None and (quantity := METRICS.get(name) or named_quantity(name))
        ]
        console.print(f"{facts['site']}: {', '.join(measured) or 'nothing was measured there'}")
        files = ", ".join(FORMATS[kind] for kind in facts["exports"])
        console.print(f"  model    {facts['out']}" + (f" with {files}" if files else ""))
        console.print(f"  use it   manyheads predict {shlex.quote(facts['out'])} DATA")

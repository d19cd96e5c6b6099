"""``manyheads data describe``: how a federation's clients differ."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

from manyheads.cli.flags import Flag
from manyheads.cli.given import combined, with_data
from manyheads.cli.output import Plain, warn
from manyheads.cli.run import run_flags
from manyheads.core.errors import UserError
from manyheads.core.files import replacing
from manyheads.core.plain import to_json
from manyheads.core.records import to_table
from manyheads.core.settings import build
from manyheads.data.sources import source_of
from manyheads.experiments.describe import DISTANCES, ClientFacts, FederationFacts, federation_facts
from manyheads.run.config import Config, federation_of

__all__ = ["describe", "describe_flags"]

CLIENTS_SHOWN = 30
CLASSES_SHOWN = 62
_USED = {"data", "partition", "clients", "new_clients", "seed"}
_BARS = " ▁▂▃▄▅▆▇█"


def describe_flags(arguments: Sequence[str]) -> list[Flag]:
    """Return those flags of ``run`` that define the federation."""
    return [flag for flag in run_flags(arguments) if flag.path[0] in _USED]


def describe(
    *,
    picture: Annotated[
        Path | None, typer.Option(help="draw the labels of all clients: a file .svg or .png", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object on standard output")] = False,
    flags: dict[str, Any],
) -> None:
    """Show a federation: sizes, labels of each client, and how far clients are from all together.

    Distances are of training samples: the total variation of a client's labels from those of all clients, and the
    1-Wasserstein distance of its inputs from the inputs of all.

    Examples:

      manyheads data describe --data digits --partition classes:3 --clients 20

      manyheads data describe --data my_sites/ --data.label outcome --picture labels.svg
    """
    config = build(Config, combined(with_data(flags)), where="config")
    federation, made = federation_of(config, source_of(config.data))
    facts = federation_facts(federation, config.seed)
    if picture:
        _draw(facts, picture)
    if as_json:
        drawn = {"picture": str(picture)} if picture else {}
        typer.echo(to_json({"seed": config.seed, "made": made, **to_table(facts), **drawn}))
    else:
        _show(facts, config.seed, picture)


def _show(facts: FederationFacts, seed: int, picture: Path | None) -> None:
    console = Plain()
    console.print(f"{facts.data}: {facts.clients} clients, {facts.task}, seed {seed}")
    shape = list(facts.sample_shape)
    console.print(f"{facts.samples.train} training and {facts.samples.test} test samples of shape {shape}")
    _show_clients(console, facts)
    if facts.new:
        console.print(f"\nnew clients: {facts.new.clients}")
        _show_clients(console, facts.new)
    warn(console, facts.warnings)
    if picture:
        console.print(f"\npicture: {picture}")


def _show_clients(console: Console, facts: ClientFacts) -> None:
    for part, sizes in (("train", facts.sizes.train), ("test", facts.sizes.test)):
        console.print(f"{part:5} samples a client: {sizes.min} to {sizes.max}, median {sizes.median:g}")
    for name, found in facts.distances.items():
        sliced = ", sliced" if found.method == "sliced" else ""
        console.print(f"{DISTANCES[name]} from all clients{sliced}: mean {found.mean:.3f}, max {found.max:.3f}")
    width = max(map(len, facts.names[:CLIENTS_SHOWN]))
    if facts.labels and len(facts.labels[0]) <= CLASSES_SHOWN:
        console.print(f"\nshare of each label 0 to {len(facts.labels[0]) - 1}, and distances of labels and inputs")
    elif facts.targets:
        console.print("\nmean and deviation of the targets, and distances of targets and inputs")
    elif facts.followed:
        console.print("\nsamples, events, median time of observation, and distance of inputs")
    for i, name in enumerate(facts.names[:CLIENTS_SHOWN]):
        console.print(f"  {name:{width}}  {_line(facts, i)}")
    more = len(facts.names) - CLIENTS_SHOWN
    if more > 0:
        console.print(f"  and {more} more: --json has all")


def _line(facts: ClientFacts, client: int) -> str:
    distances = "  ".join(f"{found.per_client[client]:.3f}" for found in facts.distances.values())
    if facts.targets:
        return f"{facts.targets[client].mean:9.4g} {facts.targets[client].std:9.4g}  {distances}"
    if facts.followed:
        own = facts.followed[client]
        return f"{own.samples:6} {own.events:6} {own.median:9.4g}  {distances}"
    counts = facts.labels[client] if facts.labels else ()
    if len(counts) > CLASSES_SHOWN:
        return f"{sum(c > 0 for c in counts)} labels  {distances}"
    shares = np.array(counts) / sum(counts)
    bars = "".join(_BARS[int(np.ceil(s / shares.max() * (len(_BARS) - 1)))] for s in shares)
    return f"|{bars}|  {distances}"


def _draw(facts: FederationFacts, path: Path) -> None:
    """Write a chart of every client's labels as stacked bars."""
    if path.suffix not in (".svg", ".png"):
        raise UserError("unknown kind of picture", where="picture", given=str(path), allowed=".svg, .png")
    if facts.labels is None:
        raise UserError("a regression has no labels to draw", where="picture", fix="leave it out")
    import altair as alt  # slow import

    bars = [
        {"client": name, "label": str(label), "samples": count}
        for name, counts in zip(facts.names, facts.labels, strict=True)
        for label, count in enumerate(counts)
        if count
    ]
    order = [str(label) for label in range(len(facts.labels[0]))]
    chart = (
        alt.Chart(alt.Data(values=bars), title=f"{facts.data}: labels of each client")  # type: ignore[no-untyped-call]
        .mark_bar()
        .encode(
            x=alt.X("client:N", sort=list(facts.names)),
            y=alt.Y("samples:Q"),
            color=alt.Color("label:N", sort=order, scale=alt.Scale(scheme="tableau20")),
        )
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        chart.save(str(temporary), format=path.suffix[1:])

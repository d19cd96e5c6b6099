"""``manyheads data describe``: how a federation's clients differ."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

from manyheads.cli.flags import Flag
from manyheads.cli.run import run_flags
from manyheads.core.errors import UserError
from manyheads.core.files import replacing
from manyheads.core.randomness import Purpose, generator
from manyheads.core.settings import build
from manyheads.data import Federation
from manyheads.data.sources import source_of
from manyheads.metrics import total_variation, wasserstein1
from manyheads.metrics.heterogeneity import EXACT_POINTS
from manyheads.run.config import Config, federation_of

__all__ = ["describe", "describe_flags", "federation_facts"]

CLIENTS_SHOWN = 30
CLASSES_SHOWN = 62
CLIENT_POINTS, POOL_POINTS, PROJECTIONS = 500, 1000, 50
"""samples and directions with which distances of inputs are estimated"""
_USED = {"data", "partition", "clients", "new_clients", "seed"}
_BARS = " ▁▂▃▄▅▆▇█"


def describe_flags(arguments: Sequence[str]) -> list[Flag]:
    """Those flags of ``run`` that decide on the data."""
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

      manyheads data describe --data my_sites/ --picture labels.svg
    """
    config = build(Config, flags, where="config")
    federation, made = federation_of(config, source_of(config.data))
    facts = {"seed": config.seed, "made": made, **federation_facts(federation, config.seed)}
    if picture:
        _draw(facts, picture)
        facts["picture"] = str(picture)
    if as_json:
        typer.echo(json.dumps(facts))
    else:
        _show(facts)


def federation_facts(federation: Federation, seed: int) -> dict[str, Any]:
    """What :func:`describe` tells, as plain values."""
    facts = {
        "data": federation.name,
        "task": federation.task,
        "outputs": federation.outputs,
        "sample_shape": list(federation.sample_shape),
        "clients": len(federation),
        "samples": {"train": len(federation.train.y), "test": len(federation.test.y)},
        **_differences(federation, federation, seed),
    }
    if federation.new:
        facts["new"] = {"clients": len(federation.new), **_differences(federation.new, federation, seed)}
    return facts


def _differences(federation: Federation, all_: Federation, seed: int) -> dict[str, Any]:
    """Sizes of the clients and their distances from ``all_`` clients that train."""
    clients = range(len(federation))
    facts: dict[str, Any] = {
        "names": [federation.client_name(i) for i in clients],
        "sizes": {"train": _sizes(federation.train.sizes), "test": _sizes(federation.test.sizes)},
    }
    targets = [federation.train.client(i)[1] for i in clients]
    if federation.task == "classification":
        classes = max(federation.outputs, all_.outputs)
        counts = np.array([np.bincount(y, minlength=classes) for y in targets])
        mixture = np.bincount(all_.train.y, minlength=classes)
        distances = [total_variation(c / c.sum(), mixture / mixture.sum()) for c in counts]
        facts |= {"labels": counts.tolist(), "total_variation": _summary(distances)}
    else:
        facts["targets"] = [{"mean": float(y.mean()), "std": float(y.std())} for y in targets]
        facts["target_wasserstein"] = _summary([wasserstein1(y, all_.train.y) for y in targets])
    facts["input_wasserstein"] = _input_distances(federation, all_, seed)
    return facts


def _input_distances(federation: Federation, all_: Federation, seed: int) -> dict[str, Any] | None:
    """Of each client's inputs from all; None for words and other codes, between which there is no distance."""
    if not (np.issubdtype(all_.train.x.dtype, np.floating) or all_.scaling):
        return None
    if federation.sample_shape != all_.sample_shape:
        return None
    pool = all_.train.x[_some(len(all_.train.x), POOL_POINTS, seed, 0)]
    largest = max(len(pool), int(federation.train.sizes.max()))
    # one way for all clients: exact and sliced distances are not comparable
    method = "exact" if largest <= EXACT_POINTS or pool[0].size == 1 else "sliced"
    pool = _vectors(all_, pool)
    distances = []
    for i in range(len(federation)):
        x, _ = federation.train.client(i)
        own = _vectors(federation, x[_some(len(x), CLIENT_POINTS, seed, 1, i)])
        distances.append(wasserstein1(own, pool, method=method, projections=PROJECTIONS, seed=seed))  # type: ignore[arg-type]
    return {"method": method, **_summary(distances)}


def _some(rows: int, most: int, seed: int, *address: int) -> np.ndarray:
    if rows <= most:
        return np.arange(rows)
    return np.sort(generator(seed, Purpose.SAMPLING, *address).choice(rows, most, replace=False))


def _vectors(federation: Federation, x: np.ndarray) -> np.ndarray:
    """Inputs as the model sees them."""
    if federation.scaling:
        axes = (-1, *[1] * (x.ndim - 2))
        mean, std = (np.reshape(v, axes) for v in (federation.scaling.mean, federation.scaling.std))
        x = (x / 255 - mean) / std
    return x.reshape(len(x), -1)


def _sizes(sizes: np.ndarray) -> dict[str, float]:
    return {"min": int(sizes.min()), "median": float(np.median(sizes)), "max": int(sizes.max())}


def _summary(distances: Sequence[float]) -> dict[str, Any]:
    return {"mean": float(np.mean(distances)), "max": float(np.max(distances)), "per_client": list(distances)}


def _show(facts: dict[str, Any]) -> None:
    console = Console(highlight=False, markup=False, soft_wrap=True)
    samples = facts["samples"]
    console.print(f"{facts['data']}: {facts['clients']} clients, {facts['task']}, seed {facts['seed']}")
    console.print(f"{samples['train']} training and {samples['test']} test samples of shape {facts['sample_shape']}")
    _show_clients(console, facts)
    if "new" in facts:
        console.print(f"\nnew clients: {facts['new']['clients']}")
        _show_clients(console, facts["new"])
    if "picture" in facts:
        console.print(f"\npicture: {facts['picture']}")


def _show_clients(console: Console, facts: dict[str, Any]) -> None:
    for part, sizes in facts["sizes"].items():
        console.print("{:5} samples a client: {min} to {max}, median {median:g}".format(part, **sizes))
    for key, what in (
        ("total_variation", "total variation of labels"),
        ("target_wasserstein", "1-Wasserstein distance of targets"),
        ("input_wasserstein", "1-Wasserstein distance of inputs"),
    ):
        if facts.get(key):
            method = " (sliced)" if facts[key].get("method") == "sliced" else ""
            console.print("{}{} from all clients: mean {mean:.3f}, max {max:.3f}".format(what, method, **facts[key]))
    width = max(map(len, facts["names"][:CLIENTS_SHOWN]))
    if "labels" in facts and len(facts["labels"][0]) <= CLASSES_SHOWN:
        console.print(f"\nshare of each label 0 to {len(facts['labels'][0]) - 1}, and distances of labels and inputs")
    elif "targets" in facts:
        console.print("\nmean and deviation of the targets, and distances of targets and inputs")
    for i, name in enumerate(facts["names"][:CLIENTS_SHOWN]):
        console.print(f"  {name:{width}}  {_line(facts, i)}")
    more = len(facts["names"]) - CLIENTS_SHOWN
    if more > 0:
        console.print(f"  and {more} more: --json has all")


def _line(facts: dict[str, Any], client: int) -> str:
    keys = ("total_variation", "target_wasserstein", "input_wasserstein")
    distances = "  ".join(f"{facts[k]['per_client'][client]:.3f}" for k in keys if facts.get(k))
    if "targets" in facts:
        return "{mean:9.4g} {std:9.4g}  ".format(**facts["targets"][client]) + distances
    counts = facts["labels"][client]
    if len(counts) > CLASSES_SHOWN:
        return f"{sum(c > 0 for c in counts)} labels  {distances}"
    shares = np.array(counts) / sum(counts)
    bars = "".join(_BARS[int(np.ceil(s / shares.max() * (len(_BARS) - 1)))] for s in shares)
    return f"|{bars}|  {distances}"


def _draw(facts: dict[str, Any], path: Path) -> None:
    """Every client's labels as a stacked bar."""
    if path.suffix not in (".svg", ".png"):
        raise UserError("unknown kind of picture", where="picture", given=str(path), allowed=".svg, .png")
    if "labels" not in facts:
        raise UserError("a regression has no labels to draw", where="picture", fix="leave it out")
    try:
        import altair as alt
        import vl_convert  # noqa: F401
    except ImportError:
        raise UserError("pictures need altair", fix="pip install altair vl-convert-python") from None
    bars = [
        {"client": name, "label": str(label), "samples": count}
        for name, counts in zip(facts["names"], facts["labels"], strict=True)
        for label, count in enumerate(counts)
        if count
    ]
    order = [str(label) for label in range(len(facts["labels"][0]))]
    chart = (
        alt.Chart(alt.Data(values=bars), title=f"{facts['data']}: labels of each client")  # type: ignore[no-untyped-call]
        .mark_bar()
        .encode(
            x=alt.X("client:N", sort=facts["names"]),
            y=alt.Y("samples:Q"),
            color=alt.Color("label:N", sort=order, scale=alt.Scale(scheme="tableau20")),
        )
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        chart.save(str(temporary), format=path.suffix[1:])

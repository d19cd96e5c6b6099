"""``manyheads run``: one training run."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from manyheads.cli.flags import Flag, flags_of, given_name
from manyheads.cli.given import chosen, combined, files_of, resumed, with_data
from manyheads.cli.live import watched
from manyheads.cli.output import Plain, bold, warn
from manyheads.cli.progress import progress, quantity_of
from manyheads.cli.stops import STOPPED
from manyheads.cli.typed import import_typed, name_of
from manyheads.core.checkpoint import rounds_on_disk
from manyheads.core.contract import ALGORITHMS
from manyheads.core.errors import UserError
from manyheads.core.files import kind_of, reserved
from manyheads.core.plain import to_json
from manyheads.core.round_end import RoundEnd
from manyheads.core.settings import build
from manyheads.core.words import counted
from manyheads.data import SOURCES, name_of_path
from manyheads.models import MODELS
from manyheads.run import Config, assemble, run_training
from manyheads.run.config_file import RUN, RunConfig, read_settings
from manyheads.run.result import Run

__all__ = ["run", "run_flags"]

# Flags whose spelling is not derived from their path in the configuration.
_SPELLED: dict[tuple[str, ...], str] = {
    ("engine", "mode"): "--engine",
    ("engine", "workers"): "--workers",
    ("engine", "device"): "--device",
    ("finetune", "scope"): "--finetune",
    ("schedule", "kind"): "--schedule",
    ("evaluate", "metrics"): "--metric",
}
_CHOSEN = {"data": SOURCES, "model": MODELS, "algorithm": ALGORITHMS}
Port = Annotated[
    int | None,
    typer.Option(help="port on 127.0.0.1 for --live  \\[default: any free port]", min=0, max=65535, show_default=False),
]


def run_flags(arguments: Sequence[str]) -> list[Flag]:
    """Return the flags of ``run``: those of every run, and those of the data, model and algorithm that are named."""
    flags = []
    for flag in flags_of(Config, "Run", names=_SPELLED):
        chosen = flag.path[0] in _CHOSEN
        panel = {"evaluate": "Evaluation", "engine": "Engine", "finetune": "Fine-tuning", "schedule": "Schedule"}.get(
            flag.path[0], "Run"
        )
        flags.append(flag._replace(path=(*flag.path, "name"), panel="Choice") if chosen else flag._replace(panel=panel))
    import_typed(arguments)
    config = files_of(arguments)
    goes_with = ""
    for kind, known in _CHOSEN.items():
        table = config.get(kind, {})
        named = table.get("name") if isinstance(table, dict) else None
        fallback = named if isinstance(named, str) else None  # other types are refused when the configuration is built
        typed = given_name(arguments, f"--{kind}")
        name = name_of(known, typed) if typed else fallback or getattr(Config(), kind).get("name", goes_with)
        if kind == "data" and name not in known and kind_of(Path(name)):
            name = name_of_path(name)
        if kind == "data" and name in known:
            goes_with = known[name].model
        if name in known:
            flags += flags_of(known[name], f"{kind.capitalize()} {name}", prefix=(kind,))
    return flags


Described = Annotated[
    Path | None,
    typer.Argument(
        help="a TOML file, or with --from the name of a method; flags change what it says", show_default=False
    ),
]
From = Annotated[
    Path | None,
    typer.Option(
        "--from", help="folder of a comparison: train a method with the settings it chose", show_default=False
    ),
]


def run(
    config: Described = None,
    *,
    comparison: From = None,
    out: Annotated[
        Path | None, typer.Option(help="folder of the run  \\[default: runs/DATE-ALGORITHM-DATA]", show_default=False)
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="go on with the run in --out")] = False,
    live: Annotated[bool, typer.Option("--live", help="serve a page with the curves as they grow")] = False,
    live_port: Port = None,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object on standard output")] = False,
    flags: dict[str, Any],
) -> None:
    """Train one method on one federation.

    Everything can come from a TOML file, from flags, or both. The flags of the method, the model and the data are
    listed once they are named: try [bold]manyheads run --algorithm fedrep --help[/bold].

    Examples:

      manyheads run --data digits --partition classes:3 --clients 20 --algorithm fedrep --rounds 30

      manyheads run --from runs/my-comparison fedrep

      manyheads run --resume --out runs/my-run
    """
    errors = Plain(stderr=True)
    if live_port is not None and not live:
        raise UserError("is for --live", where="live-port", given=live_port, fix="add --live, or leave it out")
    given = _given(config, comparison, resume)
    kept = _resumed(out, config is not None or "data" in flags, errors) if resume else {}
    table = combined(with_data(flags), kept, given)
    settings = build(Config, table, where="config")
    algorithm, model, federation, made = assemble(settings)
    warn(errors, federation.warnings)
    usual = Path("runs") / f"{datetime.now():%Y-%m-%d-%H%M%S}-{algorithm.name}-{federation.name}"
    shown = RunConfig.of(algorithm, federation, settings.training(), made)
    with nullcontext(out) if out else reserved(usual) as place:
        seen = watched(place, shown, live_port or 0, errors) if live else nullcontext()
        new: list[Any] = []
        try:
            with seen, progress(errors, settings.rounds, f"{algorithm.name} on {federation.name}") as follow:

                def on_round(end: RoundEnd) -> None:
                    new.append(end.record["round"])
                    follow(end.record)

                things = algorithm, model, federation, settings.training(), made, place, resume
                result = run_training(*things, on_round, errors.print)
        except KeyboardInterrupt:
            errors.print(f"stopped; {_saved(place)}")
            raise typer.Exit(STOPPED) from None
    if not new:
        errors.print(f"{place} has all its {result.rounds} rounds already: nothing to do; for more, say --rounds")
    if as_json:
        typer.echo(to_json(result.summary()))
    else:
        _show(result)


def _given(config: Path | None, comparison: Path | None, resume: bool) -> dict[str, Any]:
    """Return the settings in a file, or those that a comparison chose for the method in place of a file."""
    if comparison is None:
        return read_settings(config) if config else {}
    if resume:
        raise UserError("starts a new run", where="from", fix="to go on with one: manyheads run --resume --out RUN")
    return chosen(comparison, str(config) if config else None)


def _saved(place: Path) -> str:
    """Return a sentence with the number of saved rounds, and the command to resume."""
    if not (place / RUN).exists():
        return "nothing is saved yet"
    rounds = next(iter(rounds_on_disk(place / "checkpoint")), 0)
    return f"{rounds} rounds are saved. Go on with: manyheads run --resume --out {place}"


def _resumed(out: Path | None, described: bool, errors: Console) -> dict[str, Any]:
    table = resumed(out, RUN)
    if table is None and not described:
        raise UserError(f"{out} holds no run to resume", where="out", fix="to start one there, say on what: --data ...")
    if table is None:
        errors.print(f"{out} holds no run yet: starting it")
    return table or {}


def _show(result: Run) -> None:
    facts = result.summary()
    table = Table(show_header=False, box=None)
    score = next(iter(facts["metrics"]), "loss")
    table.add_row(
        quantity_of(score).title, bold(_number(score, facts["metrics"].get(score))) + f"  ({facts['protocol']})"
    )
    table.add_row("", _spread(facts["evaluation"], score))
    for name in [name for name in facts["metrics"] if name != score]:
        table.add_row(
            quantity_of(name).title, f"{_number(name, facts['metrics'][name])}  {_spread(facts['evaluation'], name)}"
        )
    for final in facts["final"]:
        if final.get(score) is not None:
            name = "new clients" if final["who"] == "new" else "fine-tuned"
            table.add_row(name, bold(_number(score, final[score])) + f"  ({final['protocol']})")
    table.add_row("rounds", f"{facts['rounds']} in {facts['seconds']:.1f} s")
    table.add_row("passes", f"{counted(facts['passes'])} over a client's samples, on average")
    table.add_row("sent", f"{facts['bytes_up'] / 1e6:.2f} MB up, {facts['bytes_down'] / 1e6:.2f} MB down")
    if facts["dropped_uploads"]:
        table.add_row("dropped", f"{facts['dropped_uploads']} uploads")
    table.add_row("run", facts["out"])
    Plain(wrap=True).print(table)


def _spread(evaluation: dict[str, Any], name: str) -> str:
    """Return how a metric differs between clients at the last evaluation, and where it is not defined."""
    facts = {"spread": evaluation.get(f"{name}_std"), "worst tenth": evaluation.get(f"{name}_worst_decile")}
    words = [f"{what} {_number(name, value)}" for what, value in facts.items() if value is not None]
    if f"{name}_clients" in evaluation:
        words.append(f"defined at {evaluation[f'{name}_clients']} of {evaluation['clients']} clients")
    return f"({', '.join(words)})" if words else ""


def _number(name: str, value: float | None) -> str:
    if value is None:
        return "none (not finite, or nothing to measure)"
    return f"{value:.4f}" if quantity_of(name).unit == "%" else f"{value:.4g}"

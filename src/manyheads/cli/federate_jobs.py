"""``manyheads federate describe``, ``run`` and ``compare``: jobs of a study's server, followed until they end."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from manyheads.cli.output import Plain, warn
from manyheads.core.errors import UserError
from manyheads.core.plain import to_json
from manyheads.federate.study import StudyFolder

__all__ = ["compare", "describe", "run"]

AsJson = Annotated[bool, typer.Option("--json", help="print one JSON object on standard output")]
StudyPath = Annotated[Path, typer.Argument(help="folder of the study", show_default=False)]
Out = Annotated[
    Path | None, typer.Option(help="folder of the results  \\[default: STUDY/runs/TIME]", show_default=False)
]
Resume = Annotated[bool, typer.Option("--resume", help="go on with the last one, or with that in --out")]


def describe(study: StudyPath, *, as_json: AsJson = False) -> None:
    """Ask all sites what their tables hold: rows, labels, missing values, means; in counts that no few rows can be told from.

    Warns of columns, units and labels that do not fit together, before anything is trained. The result is kept in
    STUDY/description.json.

    Example:

      manyheads federate describe heart
    """
    import json

    folder = StudyFolder(study)
    out = folder.path / "description.json"
    _do(folder, "describe", out, False)
    facts = json.loads(out.read_text(encoding="utf-8"))
    if as_json:
        typer.echo(to_json(facts))
        return
    _show_description(facts)


def _show_description(facts: dict[str, Any]) -> None:
    console = Plain()
    table = Table("site", "rows", "labels", "missing", box=None, pad_edge=False)
    for site, told in facts["sites"].items():
        counts = told["target"]["counts"]
        labels = "  ".join(f"{label}: {n or 'not told'}" for label, n in sorted(counts.items()))
        gaps = [f"{name} {c.get('missing', 'few')}" for name, c in told["columns"].items() if c.get("missing") != 0]
        table.add_row(site, str(told["rows"]), labels, ", ".join(gaps[:6]) + (" ..." if len(gaps) > 6 else ""))
    console.print(table)
    for site, why in facts["missing"].items():
        console.print(f"{site}: {why}")
    if "error" in facts:
        console.print(f"\ncannot be trained together yet: {facts['error']}")
        raise typer.Exit(2)
    agreement = facts["agreement"]
    kinds = ", ".join(f"{name} ({kind})" for name, kind in agreement["kinds"].items())
    console.print(f"\n{agreement['task']} of {agreement['label']!r} from {kinds}")
    warn(console, facts["warnings"])


def run(study: StudyPath, *, out: Out = None, resume: Resume = False, as_json: AsJson = False) -> None:
    """Train the study's method with all sites that are there; the result is a run folder like any other.

    A site that is late or sends what cannot be used is left out of that round, with the reason in the history. After a
    crash of anything, --resume goes on from the last round. [bold]report[/bold] and [bold]personalize[/bold] work on the folder;
    each site finds its own model in its kit.

    Examples:

      manyheads federate run heart

      manyheads federate run heart --resume
    """
    folder = StudyFolder(study)
    place = _place(folder, out, resume, "run")
    done = _do(folder, "run", place, resume)
    if as_json:
        typer.echo(to_json(done))
        return
    console = Plain(wrap=True)
    values = ", ".join(f"{name} {value:.4g}" for name, value in done["metrics"].items() if value is not None)
    console.print(f"{done['rounds']} rounds: {values}\n({done['protocol']})\nin {place}")


def compare(study: StudyPath, *, out: Out = None, resume: Resume = False, as_json: AsJson = False) -> None:
    """Compare methods across the sites: who gains from federating? The answer and the report as from [bold]compare[/bold].

    All trainings go in lockstep, one message a round for all of them; choices are made by each site's validation samples,
    gains come from counts and moments that the sites compute. Each site gets a page of its own in its kit.

    Example:

      manyheads federate compare heart
    """
    folder = StudyFolder(study)
    place = _place(folder, out, resume, "compare")
    done = _do(folder, "compare", place, resume)
    typer.echo(to_json(done) if as_json else done["text"])


def _place(folder: StudyFolder, out: Path | None, resume: bool, kind: str) -> Path:
    """The folder of the results: the given one, the last one, or a new one named by the time."""
    if out is not None:
        return out
    if resume:
        there = sorted(folder.runs.glob(f"{kind}-*"))
        if not there:
            raise UserError(f"the study has no {kind} to go on with", where="resume")
        return there[-1]
    return folder.runs / f"{kind}-{datetime.now().astimezone():%Y-%m-%d-%H%M%S}"


def _do(folder: StudyFolder, kind: Any, out: Path, resume: bool) -> dict[str, Any]:
    from manyheads.federate.follow import followed

    return followed(folder, kind, out, resume, Plain(stderr=True).print)

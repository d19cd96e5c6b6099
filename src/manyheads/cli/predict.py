"""``manyheads predict``: predict with a personal model."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from manyheads.cli.output import Plain
from manyheads.cli.typed import OwnModel, import_own
from manyheads.core.errors import UserError
from manyheads.core.files import replacing, write_text
from manyheads.core.plain import to_json
from manyheads.data.sites.new_site import read_new_site
from manyheads.onboarding import PersonalModel

__all__ = ["predict"]


def predict(
    model: Annotated[
        Path, typer.Argument(help="folder written by manyheads personalize or export", show_default=False)
    ],
    data: Annotated[Path, typer.Argument(help="samples, with or without labels", show_default=False)],
    *,
    out: Annotated[
        Path | None, typer.Option(help="file for the predictions, .csv or .parquet", show_default=False)
    ] = None,
    engine: Annotated[
        Literal["model", "onnx"], typer.Option(help="the weights, or the ONNX export by onnxruntime")
    ] = "model",
    own_model: OwnModel = None,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object on standard output")] = False,
) -> None:
    """Predict with a model of [bold]manyheads personalize[/bold] or [bold]export[/bold].

    Prints a row for each sample as CSV: its number (from 1), the label and its probability, the value of a regression in
    the target's own unit, or a log risk. If the data has labels, the score is printed as well. Samples are encoded as the
    model's card says. The torch export is not run here, since reading one would unpickle it.

    Examples:

      manyheads predict models/new_site more.csv > predictions.csv

      manyheads predict models/new_site more.csv --out predictions.parquet --engine onnx
    """
    if out is not None and out.suffix not in (".csv", ".parquet"):
        raise UserError("unknown kind of file", where="out", given=str(out), allowed=".csv, .parquet")
    import_own(model=own_model)
    personal = PersonalModel.load(model, engine)
    site = read_new_site(data, personal.encoding, labelled=False)
    found = personal.predict(site)
    rows = found.rows()
    score: dict[str, Any] = {}
    if found.correct is not None:
        score = {"accuracy": found.correct / len(rows), "correct": found.correct}
    elif found.rmse is not None:
        score = {"rmse": found.rmse}
    elif found.c_index is not None:
        score = {"c_index": found.c_index}
    errors = Plain(stderr=True)
    for warning in site.warnings:
        errors.print(f"warning: {warning}")
    if out is not None:
        _write(rows, out)
    if as_json:
        facts = {"model": str(model), "engine": engine, "samples": len(rows), **score, "predictions": rows}
        typer.echo(to_json(facts | {"out": str(out) if out else None, "warnings": list(site.warnings)}))
        return
    if out is None:
        typer.echo(_csv(rows), nl=False)
    if found.correct is not None:
        errors.print(f"accuracy {score['accuracy']:.4f}: {found.correct} of {len(rows)} are as labelled")
    elif found.rmse is not None:
        errors.print(f"root mean squared error {found.rmse:.4g}, of {len(rows)} labelled samples")
    elif found.c_index is not None:
        errors.print(f"C-index {found.c_index:.3f}, of {len(rows)} labelled samples")


def _csv(rows: list[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0].keys(), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _write(rows: list[dict[str, Any]], out: Path) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    if out.suffix == ".csv":
        write_text(out, _csv(rows))
        return
    import pyarrow as pa
    from pyarrow import parquet

    with replacing(out) as temporary:
        parquet.write_table(pa.Table.from_pylist(rows), temporary)

"""``manyheads report``: write the report and the figures of a comparison or of runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from manyheads.cli.output import Plain
from manyheads.core.errors import UserError
from manyheads.core.plain import to_json

__all__ = ["report"]


def report(
    folders: Annotated[
        list[Path],
        typer.Argument(help="the folder of a comparison or a search, or run directories", show_default=False),
    ],
    *,
    out: Annotated[
        Path | None, typer.Option(help="the page  \\[default: report.html in the folder]", show_default=False)
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(help="also write every chart into this folder", show_default=False)
    ] = None,
    formats: Annotated[
        str | None,
        typer.Option(
            "--format", help="formats of the figures  \\[default: svg,png]", metavar="svg,png", show_default=False
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object on standard output")] = False,
) -> None:
    """Make report.html: one page that works offline, on a phone and on paper.

    Of a comparison: who should federate, with which method, which sites gain, all charts and numbers. Of run directories:
    their learning curves side by side.

    Examples:

      manyheads report runs/my-comparison

      manyheads report runs/my-comparison --figures figures/ --format svg

      manyheads report runs/fedavg runs/fedrep --out both.html
    """
    from manyheads.experiments.results import RESULTS  # these imports are slow
    from manyheads.experiments.tune import TUNED_RESULTS
    from manyheads.report.figures import write_figures
    from manyheads.report.page import write_report
    from manyheads.report.run_page import write_run_report
    from manyheads.report.tune_page import write_tuning_report

    if formats and not figures:
        raise UserError("is for --figures", where="format", given=formats, fix="add --figures, or leave it out")
    for folder in folders:
        if not folder.is_dir():
            raise UserError("no such folder", given=str(folder))
    compared = [folder for folder in folders if (folder / RESULTS).exists()]
    tuned = [folder for folder in folders if (folder / TUNED_RESULTS).exists()]
    if (compared or tuned) and len(folders) > 1:
        raise UserError("a report is of one comparison, or of runs", given=", ".join(map(str, folders)))
    drawn = write_figures(folders, figures, [f.strip() for f in (formats or "svg,png").split(",")]) if figures else []
    write = write_report if compared else write_tuning_report
    made = write(folders[0], out) if compared or tuned else write_run_report(folders, out)
    if as_json:
        typer.echo(to_json({"report": str(made), "figures": [str(path) for path in drawn]}))
        return
    console = Plain()
    console.print(f"report   {made}")
    if figures:
        console.print(f"figures  {len(drawn)} files in {figures}")

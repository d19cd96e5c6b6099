"""The report of a search for settings: one self-contained HTML page from ``tune.json``."""

from __future__ import annotations

from pathlib import Path

from manyheads.core.files import write_text
from manyheads.experiments.tune import TuningResult
from manyheads.report.drawing import for_page
from manyheads.report.names import display
from manyheads.report.render import rendered
from manyheads.report.searched import searched_table, settings_chart
from manyheads.report.table import Cell, Table, flat
from manyheads.report.words import Scale

__all__ = ["tuning_page", "write_tuning_report"]


def write_tuning_report(folder: Path, out: Path | None = None) -> Path:
    """Write the report of the search in a folder, ``report.html`` unless ``out`` is given; returns its path."""
    path = out or folder / "report.html"
    text = tuning_page(TuningResult.read(folder))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text)
    return path


def tuning_page(result: TuningResult) -> str:
    """Return the report as one HTML page."""
    scale = Scale.of(result.score)
    drawn = settings_chart(result.method, result.ranked, scale)
    said = f"Validation {scale.name} of {len(result.tried)} settings of {display(result.method)}, over the step size."
    chosen = {result.method: (result.rate, result.knobs)}
    return rendered(
        "tune.html",
        charts={"tried": for_page(drawn)},
        datasets={},
        alternatives={"tried": said},
        title=f"{result.data}: settings of {display(result.method)}",
        result=result,
        scale=scale,
        tried=searched_table({result.method: result.ranked}, scale, chosen),
        settings=Table(
            "Settings",
            ["Setting", "Value"],
            [[Cell(k), Cell(v)] for k, v in flat({**result.settings, "algorithm": result.algorithm})],
        ),
    )

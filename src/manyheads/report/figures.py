"""Write the charts of a report to image files; no browser is needed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from manyheads.core.errors import one_of
from manyheads.experiments.results import RESULTS, ComparisonResult
from manyheads.experiments.tune import TUNED_RESULTS, TuningResult
from manyheads.report.drawing import FORMATS, Figure, save
from manyheads.report.gains import gain_tables
from manyheads.report.names import display
from manyheads.report.page import comparison_charts
from manyheads.report.quality import SMALL_TITLES, side_by_side, small_charts
from manyheads.report.run_charts import run_charts, run_datasets
from manyheads.report.runs import read_run
from manyheads.report.searched import settings_chart
from manyheads.report.summary import judged
from manyheads.report.words import Scale

__all__ = ["write_figures"]


def write_figures(folders: Sequence[Path], place: Path, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Write every chart of a comparison's folder, or of run directories, in each format; returns the files' paths."""
    for name in formats:
        if name not in FORMATS:
            raise one_of("kind of figure", name, FORMATS, where="format")
    if len(folders) == 1 and (folders[0] / RESULTS).is_file():
        result = ComparisonResult.read(folders[0])
        charts: dict[str, tuple[str, Figure]] = {**comparison_charts(result)}
        for kind, drawn in small_charts(result).items():
            charts[kind] = (f"{result.data.data}: {SMALL_TITLES[kind]}", side_by_side(drawn))
        shown = judged(result)
        datasets = gain_tables(result, [shown]) if shown else {}
    elif len(folders) == 1 and (folders[0] / TUNED_RESULTS).is_file():
        found = TuningResult.read(folders[0])
        drawn_settings = settings_chart(found.method, found.ranked, Scale.of(found.score))
        charts, datasets = {"search": (f"{found.data}: settings of {display(found.method)}", drawn_settings)}, {}
    else:
        runs = [read_run(folder) for folder in folders]
        charts, datasets = {**run_charts(runs)}, run_datasets(runs)
    place.mkdir(parents=True, exist_ok=True)
    return [
        save(chart, title, place / f"{name}.{kind}", datasets)
        for name, (title, chart) in charts.items()
        for kind in formats
    ]

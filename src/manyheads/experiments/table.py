"""The results of a comparison as a text table, for terminals and notebooks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from manyheads.core.quantities import Quantity
from manyheads.experiments.gains import Gain

if TYPE_CHECKING:
    from manyheads.experiments.results import ComparisonResult

__all__ = ["aligned", "difference", "difference_unit", "number", "sites_table", "table_of"]


BESIDE = ("accuracy", "auc", "mae")
"""metrics of which the first there is is shown beside the deciding one"""


def table_of(result: ComparisonResult) -> tuple[list[str], list[list[str]]]:
    """Return the column headings, and a row for each method, best first."""
    metric, measured = result.metric, result.measured
    asked = result.settings.get("comparison", {}).get("metrics", ())
    first = [name for name in BESIDE if name in measured and name != result.score][:1]
    beside = {name: measured[name] for name in (*first, *asked) if name in measured and name != result.score}
    head = ["method", metric.title, *(each.title for each in beside.values())]
    head += ["gain over alone (95 %)", "gain/lose/?", "passes", "MB"]
    rows = []
    for name in result.ranked:
        method = result[name]
        counts = method.gain.clients if method.gain else None
        levels = [method.metrics.get(key) for key in beside]
        rows.append(
            [
                name,
                number(metric, method.score),
                *(number(q, each.mean) if each else "" for q, each in zip(beside.values(), levels, strict=True)),
                _gain(metric, method.gain),
                f"{counts.gains}/{counts.loses}/{counts.unclear}" if counts else "",
                f"{method.passes:.0f}" if method.passes else "",
                f"{method.bytes / 1e6:.1f}" if method.bytes else "",
            ]
        )
    return head, rows


def sites_table(result: ComparisonResult) -> tuple[list[str], list[list[str]]]:
    """Return the column headings, and a row with the advice for each site."""
    metric, best = result.metric, result.recommendation.best
    head = ["site", "samples", f"{metric.title} alone", f"with {best}", "gain (95 %)", "use"]
    rows = []
    for site in result.sites:
        gain = None if math.isnan(site.gain) else Gain(gain=site.gain, interval=site.interval)
        alone = f"{number(metric, site.alone)} {site.alone_model}".strip()
        rows.append(
            [site.name, str(site.samples), alone, number(metric, site.federated), _gain(metric, gain), site.method]
        )
    return head, rows


def _gain(metric: type[Quantity], gain: Gain | None) -> str:
    if gain is None:
        return ""
    ends = [difference(metric, end) for end in gain.interval] if gain.interval else []
    return difference(metric, gain.gain) + (f" ({' to '.join(ends)})" if ends else "")


def aligned(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Format a table as text, the first column left-aligned, the others right-aligned.

    >>> print(aligned(["method", "MB"], [["fedavg", "12"]]))
    method  MB
    fedavg  12
    """
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = (
        "  ".join(cell.rjust(w) if i else cell.ljust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True)))
        for row in (head, *rows)
    )
    return "\n".join(line.rstrip() for line in lines)


def number(metric: type[Quantity], value: float) -> str:
    """Format a value without its unit; empty if it is NaN."""
    return "" if math.isnan(value) else f"{metric.factor() * value:{metric.format()}}"


def difference(metric: type[Quantity], value: float) -> str:
    """Format a difference of two values, with its sign.

    >>> from manyheads.metrics import Accuracy
    >>> difference(Accuracy, 0.0512)
    '+5.1'
    """
    return f"{metric.factor() * value:+{metric.format()}}"


def difference_unit(metric: type[Quantity]) -> str:
    """Return the unit of differences: points of a percentage, or the metric itself."""
    return f"points of {metric.title}" if metric.unit == "%" else f"of {metric.title}"

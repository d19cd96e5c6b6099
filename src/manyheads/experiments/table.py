"""The results of a comparison as a text table, for terminals and notebooks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from manyheads.core.quantities import Quantity

if TYPE_CHECKING:
    from manyheads.experiments.results import ComparisonResult

__all__ = ["aligned", "difference", "difference_unit", "table_of"]


def table_of(result: ComparisonResult) -> tuple[list[str], list[list[str]]]:
    """Return the column headings, and a row for each method, best first."""
    metric = result.metric
    further = result.further
    head = ["method", metric.title, "95 % interval", "worst tenth", *(each.title for each in further.values())]
    head += ["sites gain / lose / unclear", "MB", "step size"]
    rows = []
    for name in result.ranked:
        method = result[name]
        counts = method.gain.clients if method.gain else None
        rows.append(
            [
                name,
                number(metric, method.score),
                " to ".join(number(metric, end) for end in method.interval) if method.interval else "",
                number(metric, method.worst_decile),
                *(number(each, method.metrics[key].mean) for key, each in further.items()),
                f"{counts.gains} / {counts.loses} / {counts.unclear}" if counts else "",
                f"{method.bytes / 1e6:.1f}",
                "" if method.rate is None else f"{method.rate:g}",
            ]
        )
    return head, rows


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

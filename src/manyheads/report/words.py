"""Formatting of numbers in the report: digits and units by quantity, a true minus sign, intervals in brackets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeGuard

from manyheads.core.quantities import Quantity, named_quantity
from manyheads.metrics import METRICS
from manyheads.monitors import MONITORS

__all__ = [
    "MINUS",
    "NONE",
    "PLAIN",
    "Scale",
    "explained",
    "first_upper",
    "megabytes",
    "monitor_named",
    "seconds",
]

MINUS, NONE = "\N{MINUS SIGN}", "\N{EN DASH}"


@dataclass(frozen=True)
class Scale:
    """How values of a quantity are formatted in text and scaled in charts.

    >>> Scale.of("accuracy").value(0.9617), Scale.of("accuracy").gain(0.004), Scale.of("loss").gain(0.00123)
    ('96.2', '+0.4', '+0.00123')
    """

    quantity: type[Quantity]

    @classmethod
    def of(cls, metric: str) -> Scale:
        """Return the scale of a metric, given by name."""
        return cls(METRICS.get(metric) or named_quantity(metric))

    @property
    def name(self) -> str:
        return self.quantity.title

    @property
    def factor(self) -> float:
        """Factor from stored values to displayed ones: 100 for percentages."""
        return self.quantity.factor()

    @property
    def best_first(self) -> int:
        """Sign to multiply values by, so that sorting in ascending order puts the best first."""
        return 1 if self.quantity.higher_is_better is False else -1

    @property
    def better(self) -> str:
        return "lower" if self.quantity.higher_is_better is False else "higher"

    @property
    def unit(self) -> str:
        """Unit to append to a value, with a leading space."""
        return f" {self.quantity.unit}".rstrip()

    @property
    def units(self) -> str:
        """Units of values and of differences, in words."""
        return "percent and percentage points" if self.unit == " %" else f"units of the {self.name}"

    @property
    def gain_unit(self) -> str:
        return "percentage points" if self.unit == " %" else f"of {self.name}"

    @property
    def spread_unit(self) -> str:
        """Unit of a standard deviation, to append to an axis title."""
        return " (points)" if self.unit == " %" else ""

    @property
    def title(self) -> str:
        """Axis title: the quantity's name and unit."""
        return self.quantity.axis()

    @property
    def gain_title(self) -> str:
        if self.quantity.higher_is_better is False:
            return f"{self.name} saved against the best alone"
        return f"gain over the best alone{self.spread_unit}"

    @property
    def format(self) -> str:
        """Number format of :meth:`value`, valid in both Vega and Python."""
        return self.quantity.format()

    def value(self, value: float | None) -> str:
        if not _known(value):
            return NONE
        return f"{self.factor * value:{self.format}}".replace("-", MINUS)

    def gain(self, value: float | None) -> str:
        if not _known(value):
            return NONE
        return f"{self.factor * value:+{self.format}}".replace("-", MINUS)

    def interval(self, ends: Sequence[float] | None) -> str:
        return f"[{self.value(ends[0])}, {self.value(ends[1])}]" if ends and all(map(_known, ends)) else NONE

    def gain_interval(self, ends: Sequence[float] | None) -> str:
        return f"[{self.gain(ends[0])}, {self.gain(ends[1])}]" if ends and all(map(_known, ends)) else NONE

    def drawn(self, value: float | None) -> float | None:
        """Return a value scaled and rounded for a chart; None if it is missing or not finite."""
        return float(f"{self.factor * value:.5g}") if _known(value) else None


PLAIN = Scale(Quantity)
"""scale of numbers whose quantity is unknown"""


def monitor_named(name: str) -> type[Quantity]:
    """Return the monitor registered by a name, or a plain quantity with that name."""
    return MONITORS.get(name) or named_quantity(name)


def explained(quantity: type[Quantity]) -> str:
    """Return a quantity's title, followed by its meaning if it has one."""
    return ": ".join(words for words in (quantity.title, quantity.meaning) if words)


def first_upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def _known(value: float | None) -> TypeGuard[float]:
    return value is not None and math.isfinite(value)


def megabytes(count: float | None) -> str:
    """Format a number of bytes in megabytes (10^6 bytes).

    >>> megabytes(21_024_000), megabytes(0), megabytes(1234)
    ('21.0', '0', '0.0012')
    """
    if count is None:
        return NONE
    value = count / 1e6
    return "0" if value == 0 else f"{value:,.1f}" if value >= 1 else f"{value:.2g}"


def seconds(value: float) -> str:
    return f"{value:,.1f}" if value < 100 else f"{value:,.0f}"

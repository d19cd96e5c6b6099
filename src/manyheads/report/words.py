"""Numbers as the report writes them: percent with one decimal, or a loss with three digits; intervals in brackets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeGuard

__all__ = ["MINUS", "NONE", "Scale", "megabytes", "plural", "seconds"]

MINUS, NONE = "\N{MINUS SIGN}", "\N{EN DASH}"


@dataclass(frozen=True)
class Scale:
    """How the score of a comparison is written: ``accuracy`` or ``loss``.

    >>> Scale("accuracy").value(0.9617), Scale("accuracy").gain(0.004), Scale("loss").gain(0.00123)
    ('96.2', '+0.4', '+0.00123')
    """

    score: str

    @property
    def factor(self) -> float:
        """From the facts to what is shown: percent, or the loss itself."""
        return 100.0 if self.score == "accuracy" else 1.0

    @property
    def better(self) -> str:
        return "higher" if self.score == "accuracy" else "lower"

    @property
    def unit(self) -> str:
        """Of a value, after the number."""
        return " %" if self.score == "accuracy" else ""

    @property
    def gain_unit(self) -> str:
        return "percentage points" if self.score == "accuracy" else "of loss"

    @property
    def title(self) -> str:
        """Of an axis."""
        return "accuracy (%)" if self.score == "accuracy" else "loss"

    @property
    def gain_title(self) -> str:
        return "gain over training alone (points)" if self.score == "accuracy" else "loss saved against training alone"

    @property
    def format(self) -> str:
        """Vega's word for :meth:`value`."""
        return ".1f" if self.score == "accuracy" else ".3g"

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
        """A value as charts get it."""
        return float(f"{self.factor * value:.5g}") if _known(value) else None


def _known(value: float | None) -> TypeGuard[float]:
    return value is not None and math.isfinite(value)


def megabytes(count: float | None) -> str:
    """Bytes, in MB of a million.

    >>> megabytes(21_024_000), megabytes(0), megabytes(1234)
    ('21.0', '0', '0.0012')
    """
    if count is None:
        return NONE
    value = count / 1e6
    return "0" if value == 0 else f"{value:,.1f}" if value >= 1 else f"{value:.2g}"


def seconds(value: float) -> str:
    return f"{value:,.1f}" if value < 100 else f"{value:,.0f}"


def plural(count: int, one: str, many: str) -> str:
    """
    >>> plural(1, "site gains", "sites gain")
    '1 site gains'
    """
    return f"{count} {one if count == 1 else many}"

"""What a paper claims of a figure or a table, and how it is judged: by checks on measured values, over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import stats

__all__ = [
    "MARKS",
    "Check",
    "Claim",
    "Verdict",
    "above",
    "above_by_units",
    "holds",
    "mean_and_interval",
    "overall",
    "verdict_of",
]

Verdict = Literal["reproduced", "partly", "not reproduced", "undecided", "measured"]
"""measured: nothing is claimed"""
Values = Sequence[float] | np.ndarray
LEVEL = 0.95
MARKS = {True: "✓", False: "✗", None: "?"}
"""of whether a check holds"""


@dataclass(frozen=True)
class Check:
    """One condition of a claim, such as one panel or one pair of lines."""

    what: str
    holds: bool | None
    """None: it cannot be told from these seeds"""
    evidence: str
    """the numbers it was judged by"""


@dataclass(frozen=True)
class Claim:
    """A claim, its checks, and where it fails the reason, if that is known."""

    text: str
    checks: tuple[Check, ...]
    reason: str = ""
    found_here: bool = False
    """not the paper's: it does not count for the verdict on the experiment"""

    @property
    def verdict(self) -> Verdict:
        return verdict_of([check.holds for check in self.checks])


def verdict_of(found: Sequence[bool | None]) -> Verdict:
    """The verdict on several conditions together.

    >>> verdict_of([True, True]), verdict_of([True, False]), verdict_of([False, None]), verdict_of([None])
    ('reproduced', 'partly', 'not reproduced', 'undecided')
    """
    if found and all(found):
        return "reproduced"
    if any(found):
        return "partly"
    return "not reproduced" if False in found else "undecided"


def overall(verdicts: Sequence[Verdict]) -> Verdict:
    """The verdict on several claims together.

    >>> overall(["reproduced", "undecided"]), overall(["reproduced"]), overall(["not reproduced", "undecided"])
    ('partly', 'reproduced', 'not reproduced')
    """
    if "partly" in verdicts:
        return "partly"
    return verdict_of([{"reproduced": True, "not reproduced": False}.get(verdict) for verdict in verdicts])


def holds(what: str, condition: bool, evidence: str) -> Check:
    """A check of one condition."""
    return Check(what, bool(condition), evidence)


def mean_and_interval(values: Values) -> tuple[float, float]:
    """The mean over seeds, and half the width of its 95 % interval by Student's t; infinite for one seed.

    >>> mean, half = mean_and_interval([1.0, 2.0, 3.0])
    >>> mean, round(half, 2)
    (2.0, 2.48)
    """
    x = np.asarray(values, float)
    if len(x) < 2:
        return float(x.mean()), np.inf
    return float(x.mean()), float(stats.t.ppf((1 + LEVEL) / 2, len(x) - 1) * x.std(ddof=1) / np.sqrt(len(x)))


def above(
    what: str, upper: Values, lower: Values, *, unit: str = "", by: float = 0.0, form: str = ".3g", of: str = "seeds"
) -> Check:
    """Whether ``upper`` lies above ``lower`` (by more than ``by``), seed by seed.

    Judged by the 95 % interval of the mean difference over seeds: it holds above, fails below; in between, and with one
    seed, it cannot be told. ``of`` says what the values are of, if not of seeds.

    >>> above("a above b", [3.0, 3.1, 2.9], [1.0, 1.1, 1.2]).holds, above("a above b", [2.0], [1.0]).holds
    (True, None)
    """
    if len(upper) != len(lower):
        return Check(what, None, f"{len(upper)} seeds of one and {len(lower)} of the other are measured")
    if not len(upper):
        return Check(what, None, "not measured")
    difference = np.subtract(upper, lower)
    mean, half = mean_and_interval(difference)
    seeds = len(difference)
    if seeds < 2:
        return Check(what, None, f"{mean:+{form}}{unit} with one seed: no interval")
    found = True if mean - half > by else False if mean + half < by else None
    more = f", to be above {by:g}" if by else ""
    return Check(what, found, f"{mean:+{form}}{unit} ± {half:{form}} ({seeds} {of}{more})")


def above_by_units(
    what: str, upper: Sequence[Values], lower: Sequence[Values], *, units: str, unit: str = "", form: str = ".3g"
) -> Check:
    """As :func:`above`, of the means of values for each seed; with one seed, judged over the values, paired one by one.

    ``units`` says what the values of one seed are of, such as "new clients".

    >>> above_by_units("a above b", [[3.0, 3.1, 2.9]], [[1.0, 1.2, 1.1]], units="new clients").evidence
    '+1.9 ± 0.248 (3 new clients, one seed)'
    """
    if len(upper) != 1 or len(lower) != 1:
        return above(what, [float(np.mean(v)) for v in upper], [float(np.mean(v)) for v in lower], unit=unit, form=form)
    return above(what, upper[0], lower[0], unit=unit, form=form, of=f"{units}, one seed")

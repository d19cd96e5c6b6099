"""Conclusions of a comparison in words: the recommended method, if any, and which sites gain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from manyheads.core.quantities import Quantity
from manyheads.experiments.gains import Verdict
from manyheads.experiments.results import MethodResult, Recommendation
from manyheads.experiments.table import difference, difference_unit
from manyheads.metrics.paired import Estimate

__all__ = ["LEVEL", "Evidence", "checked", "recommend", "verdict"]

LEVEL = 0.95
NAMED = 5
"""largest number of sites that a sentence lists by name"""
KINDS: dict[Verdict, str] = {"gains": "gain", "loses": "lose", "unclear": "cannot be told apart"}


class Evidence(NamedTuple):
    """A method's gain over training alone on validation samples, and the megabytes it sends."""

    gain: Estimate
    megabytes: float


def verdict(estimate: Estimate) -> Verdict:
    """Return whether a gain is significantly positive or negative at a level of 95 %."""
    low, high = estimate.interval(LEVEL)
    return "gains" if low > 0 else "loses" if high < 0 else "unclear"


def recommend(found: Mapping[str, Evidence], metric: type[Quantity], samples: int, seeds: int) -> Recommendation:
    """Recommend a method by validation samples alone, so that test samples remain an independent check.

    Selecting the best of many overestimates its gain: intervals are widened for the number of methods (Bonferroni).
    """
    if not found:
        return Recommendation(None, None, "none", (), "Nothing to compare.")
    level = 1 - (1 - LEVEL) / len(found)
    unit = difference_unit(metric)
    best = max(found, key=lambda name: found[name].gain.value)
    low, high = found[best].gain.interval(level)
    amount = f"{difference(metric, found[best].gain.value)} {unit}"
    repeated = f"{seeds} seeds" if seeds > 1 else "one seed, so the luck of training is not in it"
    rests = (
        f"95 % interval {difference(metric, low)} to {difference(metric, high)}, widened for {len(found)} methods; "
        f"{samples} validation samples, {repeated}"
    )
    if low > 0:
        others = [n for n in found if n != best and found[n].gain.value >= low and found[n].gain.interval(level)[0] > 0]
        others.sort(key=lambda name: -found[name].gain.value)
        text = f"Federate, with {best}: on average a site gains {amount} over training alone ({rests})."
        if others:
            text += f" As good within the uncertainty: {', '.join(others)}."
            cheapest = min([best, *others], key=lambda name: found[name].megabytes)
            if found[cheapest].megabytes < 0.9 * found[best].megabytes:
                share = found[cheapest].megabytes / found[best].megabytes
                text += f" Of these, {cheapest} sends least: {share:.0%} of what {best} does."
        return Recommendation(best, best, "enough", tuple(others), text)
    if high < 0:
        text = (
            f"Do not federate: training alone is better than every method. The best, {best}, loses {amount} ({rests})."
        )
        return Recommendation(None, best, "enough", (), text)
    text = (
        f"Not enough evidence that federating helps or hurts: the best method, {best}, differs from training alone by {amount} "
        f"({rests}). More samples, more seeds or more rounds may decide it; until then training alone sends nothing."
    )
    return Recommendation(None, best, "not enough", (), text)


def checked(name: str, method: MethodResult, metric: type[Quantity], recommended: bool) -> str:
    """Return sentences on a method's gain on test samples, which were not used for any choice: mean and per site."""
    gain = method.gain
    if gain is None:  # training alone
        return ""
    low, high = gain.interval or (float("-inf"), float("inf"))
    unit = difference_unit(metric)
    text = (
        f"On test samples, {name} differs from training alone by {difference(metric, gain.gain)} {unit} "
        f"(95 % interval {difference(metric, low)} to {difference(metric, high)})."
    )
    for kind, words in KINDS.items():
        names = [row.name for row in method.gains if row.verdict == kind]
        listed = f" ({', '.join(names)})" if 0 < len(names) <= NAMED and kind != "unclear" else ""
        text += f" {len(names)} of {len(method.gains)} sites {words}{listed}{'.' if kind == 'unclear' else ';'}"
    if gain.clients.loses and gain.clients.gains:
        text += " Sites that lose are better off with a model of their own."
    if recommended and gain.verdict != "gains":
        text += " So the test samples do not confirm the recommendation: take it with caution."
    return text

"""Conclusions of a comparison in words: the recommended method, if any, and which sites gain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from manyheads.core.quantities import Quantity
from manyheads.experiments.gains import Gain, Verdict
from manyheads.experiments.method_result import MethodResult
from manyheads.experiments.results import Recommendation
from manyheads.experiments.table import difference, difference_unit
from manyheads.metrics.paired import Estimate

__all__ = ["LEVEL", "Evidence", "checked", "gain_of", "recommend", "verdict"]

LEVEL = 0.95
NAMED = 5
"""largest number of sites that a sentence lists by name"""
KINDS: dict[Verdict, str] = {"gains": "gain", "loses": "lose", "unclear": "have too few test samples to tell"}


@dataclass(frozen=True)
class Evidence:
    """What the recommendation rests on."""

    metric: type[Quantity]
    chosen: tuple[str, ...]
    """the method that validation samples favour in each fold"""
    gain: Estimate | None
    """the mean gain of these over the best alone, on the test samples of each fold"""
    methods: Mapping[str, MethodResult]
    """the federated methods"""
    alone: str
    """what is best alone at most sites, and how good it is there on average, in words"""
    rising: tuple[str, ...]
    """methods whose validation score still rose at the end"""
    samples: int
    folds: int
    seeds: int

    @property
    def best(self) -> str:
        """The method chosen in most folds; of several such, the one with the best mean validation score."""
        count, sign = Counter(self.chosen), -1 if self.metric.higher_is_better is False else 1
        return max(count, key=lambda name: (count[name], sign * (self.methods[name].validation or 0.0)))

    @property
    def rests_on(self) -> str:
        """What the numbers come from, in words."""
        where = f"{self.samples} test samples" + (f" in {self.folds} folds" if self.folds > 1 else "")
        return f"{where}, {self.seeds} {'seeds' if self.seeds > 1 else 'seed'}"


def gain_of(found: Estimate) -> Gain:
    """A gain with its interval."""
    low, high = found.interval(LEVEL)
    known = abs(low) < float("inf") and abs(high) < float("inf")
    return Gain(gain=found.value, interval=(low, high) if known else None)


def verdict(found: Estimate) -> Verdict:
    """Whether a gain is significantly positive or negative at a level of 95 %."""
    low, high = found.interval(LEVEL)
    return "gains" if low > 0 else "loses" if high < 0 else "unclear"


def recommend(evidence: Evidence) -> Recommendation:
    """Recommend the method that validation samples favour if, on test samples, that choice gains over the best alone.

    In each fold the choice is made without its test samples, so there is no further correction for the number of
    methods. Nothing is recommended while a validation score still rises: more training could change the order.
    """
    if evidence.gain is None or not evidence.chosen:
        return Recommendation(None, None, "none", (), "Nothing to compare.")
    best, gain = evidence.best, gain_of(evidence.gain)
    about = f"{difference(evidence.metric, gain.gain)} {difference_unit(evidence.metric)}"
    if gain.interval:
        low, high = (difference(evidence.metric, end) for end in gain.interval)
        about += f" (95 % interval {low} to {high}; {evidence.rests_on})"
    found = verdict(evidence.gain)
    if evidence.rising:
        text = (
            f"Training was too short to answer: the validation score of {', '.join(evidence.rising)} still rose in the "
            f"last rounds. Compare again with more rounds. So far {best}, which validation samples favour, differs "
            f"from the best that the sites can do alone{evidence.alone} by {about}."
        )
        return Recommendation(None, best, "too short", (), text, gain, evidence.chosen, evidence.rising)
    if found == "gains" and not evidence.methods[best].bytes:
        text = (
            f"Do not federate: {best} sends nothing, so each site can train it alone. It gains {about} over the best of "
            f"what else the sites tried alone{evidence.alone}."
        )
        return Recommendation(None, best, "enough", (), text, gain, evidence.chosen)
    if found == "gains":
        others = _as_good(evidence, best, gain)
        text = f"Federate, with {best}: a site gains on average {about} over the best that it can do alone."
        text += _agreement(evidence, best) + _alternatives(evidence, best, others)
        return Recommendation(best, best, "enough", others, text, gain, evidence.chosen)
    if found == "loses":
        text = f"Do not federate: the sites are better off alone{evidence.alone}. The best method, {best}, differs by {about}."
        return Recommendation(None, best, "enough", (), text, gain, evidence.chosen)
    text = (
        f"Not enough evidence that federating helps or hurts: {best}, which validation samples favour, differs from the "
        f"best that the sites can do alone{evidence.alone} by {about}. Until more samples or seeds decide it, training alone sends nothing."
    )
    return Recommendation(None, best, "not enough", (), text, gain, evidence.chosen)


def _agreement(evidence: Evidence, best: str) -> str:
    """How often the folds chose the same method, if they did not all."""
    count = Counter(evidence.chosen)
    if len(count) == 1:
        return ""
    told = ", ".join(f"{name} in {times}" for name, times in count.most_common())
    return f" The gain is that of choosing by validation samples in each fold: {told} of {evidence.folds}."


def _as_good(evidence: Evidence, best: str, gain: Gain) -> tuple[str, ...]:
    """Methods that gain too, and no less than the choice does at least."""
    least = gain.interval[0] if gain.interval else gain.gain
    own = {name: method.gain for name, method in evidence.methods.items() if name != best and method.gain}
    good = [name for name, each in own.items() if each.verdict == "gains" and each.gain >= least]
    return tuple(sorted(good, key=lambda name: -own[name].gain))


def _alternatives(evidence: Evidence, best: str, others: tuple[str, ...]) -> str:
    if not others:
        return ""
    text = f" As good within the uncertainty: {', '.join(others)}."
    sent = {name: evidence.methods[name].bytes for name in (best, *others)}
    cheapest = min(sent, key=lambda name: sent[name])
    if sent[cheapest] < 0.9 * sent[best]:
        text += f" Of these, {cheapest} sends least: {sent[cheapest] / sent[best]:.0%} of what {best} does."
    return text


def checked(method: MethodResult, metric: type[Quantity], name: str) -> str:
    """A sentence on how many sites gain and lose with a method."""
    if method.gain is None:
        return ""
    parts = []
    for kind, words in KINDS.items():
        names = [row.name for row in method.gains if row.verdict == kind]
        listed = f" ({', '.join(names)})" if 0 < len(names) <= NAMED and kind != "unclear" else ""
        parts.append(f"{len(names)} of {len(method.gains)} sites {words}{listed}")
    text = f"With {name}, {'; '.join(parts)}."
    if method.gain.clients.loses and method.gain.clients.gains:
        text += " Sites that lose are better off with a model of their own."
    return text

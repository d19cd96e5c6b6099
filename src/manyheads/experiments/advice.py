"""Advice for each site: which model it should use, how sure that is, and what it would take to know more."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from manyheads.core.quantities import Quantity
from manyheads.experiments.found import Found
from manyheads.experiments.gains import SiteAdvice, SiteGain, Use
from manyheads.experiments.method_result import MethodResult
from manyheads.experiments.methods import LOCAL
from manyheads.experiments.results import Recommendation
from manyheads.experiments.table import difference
from manyheads.experiments.told import Told
from manyheads.metrics.paired import Estimate
from manyheads.metrics.power import Needed, needed

__all__ = ["advised", "change"]

ERROR_RATES = ("accuracy", "balanced_accuracy")
"""metrics of which the rest to 100 % is an error that people speak of"""


def advised(
    found: Found,
    told: Sequence[Told],
    method: MethodResult,
    estimates: Mapping[int, Estimate],
    answer: Recommendation,
) -> tuple[SiteAdvice, ...]:
    """Advice for every site, about the method that the answer is about."""
    assert answer.best is not None
    final = found.finals[answer.best][0][0]
    shared: Use = "shared" if final.algorithm.models[0] == "global" and not final.finetuned else "personal"
    gains = {row.client: row for row in method.gains}
    advice = []
    for site in range(len(found.sites)):
        alone, row = found.alone_model(site), gains.get(site)
        if row is None:
            advice.append(_unmeasured(found, site, alone, told[site].samples))
            continue
        federated = row.verdict == "gains" or (row.verdict == "unclear" and answer.method is not None)
        more = needed(estimates[site]) if row.verdict == "unclear" else Needed(None, None)
        samples = None if more.samples is None else math.ceil(more.samples * row.samples)
        advice.append(
            SiteAdvice(
                client=site,
                name=row.name,
                samples=row.samples,
                use=shared if federated else "alone",
                method=answer.best if federated else alone,
                alone_model=alone,
                alone=row.alone,
                federated=row.score,
                gain=row.gain,
                interval=row.interval,
                verdict=row.verdict,
                text=_text(found, row, answer, shared, samples),
                samples_needed=samples,
                seeds_needed=more.seeds,
            )
        )
    return tuple(advice)


def _text(found: Found, row: SiteGain, answer: Recommendation, use: Use, samples: int | None) -> str:
    metric, kind = type(found.metric), found.alone_model(row.client)
    alone = "its own network" if kind == LOCAL else found.title(kind)
    model = f"{'the shared' if use == 'shared' else 'its personal'} model of {answer.best}"
    if row.verdict == "gains":
        return f"Use {model}: {change(metric, row)} than alone ({alone})."
    if row.verdict == "loses":
        return f"Stay alone, with {alone}: with {answer.best} {change(metric, row)}."
    least = f" About {samples} test samples would tell, if the difference is as it looks." if samples else ""
    if answer.method:
        return f"Too few test samples to tell. The sites gain on average, so use {model}.{least}"
    return f"Too few test samples to tell. Stay alone, with {alone}, which sends nothing.{least}"


def change(metric: type[Quantity], row: SiteGain) -> str:
    """By how much the error, or the metric, is better or worse with the method, in words.

    >>> from manyheads.metrics import Accuracy
    >>> row = SiteGain(
    ...     client=0, name="a", samples=9, alone=0.75, score=0.79, gain=0.04, interval=None, verdict="gains"
    ... )
    >>> change(Accuracy, row)
    'its error is 16 % lower'
    """
    if metric.name in ERROR_RATES or metric.higher_is_better is False:
        error = 1 - row.alone if metric.name in ERROR_RATES else row.alone
        what = "error" if metric.name in ERROR_RATES else metric.title
        if error > 0:
            return f"its {what} is {abs(row.gain) / error:.0%} {'lower' if row.gain > 0 else 'higher'}".replace(
                "%", " %"
            )
    worse = "higher" if row.gain > 0 else "lower"
    return f"its {metric.title} is {difference(metric, abs(row.gain))[1:]} {_unit(metric)}{worse}"


def _unit(metric: type[Quantity]) -> str:
    return "points " if metric.unit == "%" else ""


def _unmeasured(found: Found, site: int, alone: str, samples: int) -> SiteAdvice:
    metric, nothing = type(found.metric), float("nan")
    why = (
        f"{metric.title} is not defined for its test samples, which are of one kind"
        if samples
        else "it has no test samples"
    )
    return SiteAdvice(
        client=site,
        name=found.sites[site],
        samples=samples,
        use="alone",
        method=alone,
        alone_model=alone,
        alone=nothing,
        federated=nothing,
        gain=nothing,
        interval=None,
        verdict="unclear",
        text=f"Nothing can be said: {why}.",
    )

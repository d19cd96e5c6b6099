"""The results of a comparison, and its conclusions, from its choices and from what each site tells of its test samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from manyheads.core.errors import UserError
from manyheads.core.settings import as_dict
from manyheads.experiments.advice import advised
from manyheads.experiments.curves import Curve
from manyheads.experiments.found import Found
from manyheads.experiments.gains import Counts, MeanGain, SiteAdvice, SiteGain
from manyheads.experiments.method_result import MethodResult, MetricLevel, Observed, Point
from manyheads.experiments.methods import LOCAL
from manyheads.experiments.results import ALONE, POOLED, Recommendation
from manyheads.experiments.table import number
from manyheads.experiments.told import Told
from manyheads.experiments.verdicts import LEVEL, Evidence, checked, gain_of, recommend, verdict
from manyheads.metrics import Metric, spread
from manyheads.metrics.discoveries import discoveries
from manyheads.metrics.paired import Estimate, Kind, Moments, estimate, overall

__all__ = ["Answer", "judged"]

SITES_LISTED = 1000
"""largest number of sites for which results list the values of all metrics"""


@dataclass(frozen=True)
class Answer:
    """Results of all methods, the recommendation, and advice for each site."""

    target: float | None
    methods: dict[str, MethodResult]
    recommendation: Recommendation
    check: str
    sites: tuple[SiteAdvice, ...]


def judged(found: Found, told: Sequence[Told]) -> Answer:
    """Score the methods, and draw the conclusions, from what each site tells: no sample is needed."""
    _refuse_unfit(found, told)
    target = found.validation(ALONE) if found.target is None else found.target
    sites = _Sites(found, told)
    methods = {name: _result(sites, name, target) for name in (ALONE, *found.predicting)}
    picked = [site.chosen.gain for site in told if site.chosen and site.chosen.gain]
    evidence = Evidence(
        metric=type(found.metric),
        chosen=tuple(found.chosen),
        gain=overall(picked, sites.kind) if picked else None,
        methods={name: methods[name] for name in found.federated},
        alone=_best_alone(found, methods),
        rising=tuple(name for name, each in found.tuned.items() if each.rising and name != POOLED),
        samples=sum(own.samples for own in sites.scores(ALONE).values()),
        folds=found.folds,
        seeds=found.seeds,
    )
    advice = recommend(evidence)
    best = advice.best
    own = {site: estimate(each, sites.kind) for site, each in sites.gains(best).items()} if best else {}
    return Answer(
        target=target,
        methods=methods,
        recommendation=advice,
        check=checked(methods[best], type(found.metric), best) if best else "",
        sites=advised(found, told, methods[best], own, advice) if best else (),
    )


def _refuse_unfit(found: Found, told: Sequence[Told]) -> None:
    """Refuse what a site tells of other methods, metrics, seeds or folds than those of the comparison."""
    names, metrics = {ALONE, *found.predicting}, {metric.name for metric in found.metrics}
    for site, own in zip(found.sites, told, strict=True):
        every = [*own.methods.values(), *([own.chosen] if own.chosen else [])]
        moments = [each for method in every for each in (method.score, method.gain) if each]
        seeds = {len(values) for method in every for values in method.metrics.values()}
        if (
            set(own.methods) != names
            or (own.chosen is None) == bool(found.chosen)
            or any(set(method.metrics) != metrics for method in every)
            or {*seeds, *(len(each.values) for each in moments)} != {found.seeds}
            or any(each.folds > found.folds for each in moments)
        ):
            raise UserError(f"{site} does not tell of the methods, metrics, seeds and folds that are compared")


def _best_alone(found: Found, methods: Mapping[str, MethodResult]) -> str:
    """Which model most sites choose alone, and its mean score, in words that follow a noun."""
    name, count = Counter(found.alone_model(site) for site in range(len(found.sites))).most_common(1)[0]
    title = "a network of its own" if name == LOCAL else found.title(name)
    metric = type(found.metric)
    score = f"{metric.title} {number(metric, methods[name].score)}"
    return f" ({title} at {count} of {len(found.sites)} sites, {score} on average)"


@dataclass(frozen=True)
class _Sites:
    """What the sites tell, method by method."""

    found: Found
    told: Sequence[Told]

    @cached_property
    def kind(self) -> Kind:
        """What differences between methods are."""
        spans = [own.span for own in self.scores(ALONE).values()]
        return "difference" if spans and np.isfinite(spans).all() else "measure"

    def scores(self, name: str) -> dict[int, Moments]:
        """The scores of a method, where they are defined."""
        return {site: own for site, told in enumerate(self.told) if (own := told.methods[name].score)}

    def gains(self, name: str) -> dict[int, Moments]:
        """The differences of a method from the best alone, where they are defined."""
        return {site: own for site, told in enumerate(self.told) if (own := told.methods[name].gain)}

    def level(self, name: str, metric: Metric) -> MetricLevel | None:
        """A metric's mean and spread over sites; None if it is defined at no site."""
        values = np.array([told.methods[name].metrics[metric.name] for told in self.told]).T.copy("C")  # [seeds, sites]
        known = ~np.isnan(values).any(axis=0)
        if not known.any():
            return None
        sites = values.mean(axis=0)
        facts = spread(sites[known], higher_is_better=metric.higher_is_better is not False)
        per_seed = values[:, known].mean(axis=1)
        return MetricLevel(
            mean=facts["mean"],
            low=float(per_seed.min()),
            high=float(per_seed.max()),
            per_seed=tuple(per_seed.tolist()),
            worst_decile=facts["worst_decile"],
            spread=facts["std"],
            sites=tuple(sites.tolist()) if len(sites) <= SITES_LISTED else (),
        )


class _Cost(NamedTuple):
    """Means over folds and seeds of what one training needs."""

    up: float
    down: float
    seconds: float
    passes: float


def _result(sites: _Sites, name: str, target: float | None) -> MethodResult:
    found, scores, unknown = sites.found, list(sites.scores(name).values()), float("nan")
    kind: Kind = "share" if sites.kind == "difference" else "measure"
    measured = {metric.name: each for metric in found.metrics if (each := sites.level(name, metric))}
    level = measured.get(found.metric.name)
    result = MethodResult(
        kind="ceiling" if name == POOLED else "federated" if name in found.federated else "alone",
        title=found.title(name),
        score=level.mean if level else unknown,
        interval=_bounded(overall(scores, kind), kind) if scores else None,
        per_seed=level.per_seed if level else (),
        worst_decile=level.worst_decile if level else unknown,
        spread=level.spread if level else unknown,
        metrics=measured,
        validation=found.validation(name) if name != POOLED or name in found.tuned else None,
    )
    if name in found.tuned:
        result = _with_training(found, name, result, target)
    if name in found.federated or name == POOLED:
        gain, gains = _gains(sites, name)
        result = replace(result, gain=gain, gains=gains)
    return result


def _with_training(found: Found, name: str, result: MethodResult, target: float | None) -> MethodResult:
    """With what was chosen for a method, its learning curve and its cost."""
    tuned, finals, sign = found.tuned[name], found.finals[name], found.metric.sign
    cost, curve = _cost(found, name), _curve(tuned.curves)
    hit = next((p for p in curve if target is not None and sign * (p.score - target) >= 0), None)
    pattern = next((fold[0] for fold in finals if fold[0].candidate == tuned.candidate), finals[0][0])
    return replace(
        result,
        algorithm={"name": pattern.algorithm.name, **as_dict(pattern.algorithm)},
        finetuned=pattern.finetuned,
        rate=tuned.candidate.rate,
        knobs=dict(tuned.candidate.knobs),
        rounds=tuned.rounds,
        choices=tuned.choices,
        rising=tuned.rising,
        passes=cost.passes,
        bytes_up=round(cost.up),
        bytes_down=round(cost.down),
        bytes=round(cost.up + cost.down),
        seconds=cost.seconds,
        rounds_to_target=hit.round if hit else None,
        bytes_to_target=hit.bytes if hit else None,
        curve=curve,
        monitors=_monitors(found, name),
        rates=tuned.rates,
    )


def _bounded(estimate: Estimate, kind: Kind) -> tuple[float, float] | None:
    low, high = estimate.interval(LEVEL)
    if not (np.isfinite(low) and np.isfinite(high)):
        return None
    return (max(low, 0.0), min(high, 1.0)) if kind == "share" else (low, high)


def _gains(sites: _Sites, name: str) -> tuple[MeanGain | None, tuple[SiteGain, ...]]:
    """Return the gains over the best alone: the mean over sites, and that of each site."""
    own, alone, scores = sites.gains(name), sites.scores(ALONE), sites.scores(name)
    if not own:
        return None, ()
    estimates = {site: estimate(each, sites.kind) for site, each in own.items()}
    real = discoveries(np.array([each.p_value for each in estimates.values()]))
    rows = []
    for (site, each), sure in zip(estimates.items(), real, strict=True):
        gain = gain_of(each)
        rows.append(
            SiteGain(
                client=site,
                name=sites.found.sites[site],
                samples=own[site].samples,
                alone=float(np.mean(alone[site].values)),
                score=float(np.mean(scores[site].values)),
                gain=gain.gain,
                interval=gain.interval,
                verdict=verdict(each) if sure else "unclear",
            )
        )
    counts = Counter(row.verdict for row in rows)
    mean = overall(list(own.values()), sites.kind)
    clients = Counts(counts["gains"], counts["loses"], counts["unclear"])
    gain = gain_of(mean)
    return MeanGain(gain=gain.gain, interval=gain.interval, verdict=verdict(mean), clients=clients), tuple(rows)


def _cost(found: Found, name: str) -> _Cost:
    runs = [final.rounds for fold in found.finals[name] for final in fold]
    return _Cost(
        up=float(np.mean([sum(at.bytes_up for at in run) for run in runs])),
        down=float(np.mean([sum(at.bytes_down for at in run) for run in runs])),
        seconds=float(np.mean([sum(at.seconds for at in run) for run in runs])),
        passes=float(np.mean([sum(at.passes for at in run) for run in runs])),
    )


def _curve(folds: Sequence[Curve]) -> tuple[Point, ...]:
    """Return the learning curve on validation samples with the chosen step sizes: mean, minimum, maximum over folds."""
    made = []
    for at in zip(*folds, strict=False):  # where training ended early in a fold, its curve does not go on
        scores = [value for p in at if (value := p.score) is not None]
        if scores:
            sent = round(float(np.mean([p.bytes for p in at])))
            made.append(Point(at[0].round, sent, float(np.mean(scores)), min(scores), max(scores)))
    return tuple(made)


def _monitors(found: Found, name: str) -> dict[str, tuple[Observed, ...]]:
    """Return each monitored quantity that the method has, over the rounds of one final run."""
    rounds = found.finals[name][0][0].rounds
    names = dict.fromkeys(key for at in rounds for key in at.monitors)
    return {key: tuple(Observed(at.round, at.monitors[key]) for at in rounds if key in at.monitors) for key in names}

"""Compute the results of a comparison from what its runs have found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from manyheads.core.settings import as_dict
from manyheads.experiments.advice import advised
from manyheads.experiments.alone import AloneTask, alone_outputs
from manyheads.experiments.cross import CROSS_SITES, cross_sites
from manyheads.experiments.curves import Curve
from manyheads.experiments.details import qualities, survival_curves
from manyheads.experiments.differences import Scored, differences, level_of, out_of_fold, scored
from manyheads.experiments.found import Found
from manyheads.experiments.gains import Counts, MeanGain, SiteAdvice, SiteGain
from manyheads.experiments.method_result import MethodResult, Observed, Point
from manyheads.experiments.methods import LOCAL
from manyheads.experiments.outcomes import OutOfFold
from manyheads.experiments.quality import ClassQuality, CrossSites, SurvivalCurve
from manyheads.experiments.results import ALONE, POOLED, Recommendation
from manyheads.experiments.table import number
from manyheads.experiments.verdicts import LEVEL, Evidence, checked, gain_of, recommend, verdict
from manyheads.metrics.discoveries import discoveries
from manyheads.metrics.paired import Differences, Estimate, Kind, estimate, overall

__all__ = ["Answer", "judged"]


@dataclass(frozen=True)
class Answer:
    """Results of all methods, the recommendation, and advice for each site."""

    target: float | None
    methods: dict[str, MethodResult]
    recommendation: Recommendation
    check: str
    sites: tuple[SiteAdvice, ...]
    cross: CrossSites | None
    quality: tuple[ClassQuality, ...]
    survival: tuple[SurvivalCurve, ...]


def judged(found: Found) -> Answer:
    """Score the methods, and draw the conclusions."""
    names = [ALONE, *found.family, *found.federated, *([POOLED] if found.study.pooled else [])]
    target = found.validation(ALONE) if found.target is None else found.target
    predictions = {name: out_of_fold(found.folds, found.outputs(name)) for name in names}
    scores = {name: scored(found.study.score, each) for name, each in predictions.items()}
    sites = _Sites(found, scores[ALONE])
    methods = {name: _result(found, name, predictions[name], scores[name], sites, target) for name in names}
    picked = scored(found.study.score, out_of_fold(found.folds, found.chosen_outputs())) if found.chosen else None
    evidence = Evidence(
        metric=type(found.study.score),
        chosen=tuple(found.chosen),
        gain=overall(list(sites.against_alone(picked).values()), sites.kind) if picked else None,
        methods={name: methods[name] for name in found.federated},
        alone=_best_alone(found, methods),
        rising=tuple(name for name, each in found.tuned.items() if each.rising and name != POOLED),
        samples=sum(len(own.fold) for own in sites.alone if own is not None),
        folds=len(found.folds),
        seeds=len(found.seeds),
    )
    advice = recommend(evidence)
    best = advice.best
    own = {site: estimate(each, sites.kind) for site, each in sites.against_alone(scores[best]).items()} if best else {}
    return Answer(
        target=target,
        methods=methods,
        recommendation=advice,
        check=checked(methods[best], type(found.study.score), best) if best else "",
        sites=advised(found, methods[best], own, advice) if best else (),
        cross=_cross(found, best),
        quality=qualities(found.federation, {n: predictions[n][0] for n in (ALONE, best) if n}),
        survival=survival_curves(found.federation, predictions[best][0] if best else None),
    )


def _best_alone(found: Found, methods: Mapping[str, MethodResult]) -> str:
    """Which model most sites choose alone, and its mean score, in words that follow a noun."""
    name, count = Counter(found.alone_model(site) for site in range(len(found.federation))).most_common(1)[0]
    title = "a network of its own" if name == LOCAL else found.title(name)
    metric = type(found.study.score)
    score = f"{metric.title} {number(metric, methods[name].score)}"
    return f" ({title} at {count} of {len(found.federation)} sites, {score} on average)"


class _Sites:
    """The sites' scores alone, to compare methods with."""

    def __init__(self, found: Found, alone: Scored) -> None:
        self.found, self.alone = found, alone
        spans = [own.span for own in alone if own is not None]
        self.kind: Kind = "difference" if spans and np.isfinite(spans).all() else "measure"

    def against_alone(self, method: Scored) -> dict[int, Differences]:
        return differences(method, self.alone, self.found.study.sign)


class _Cost(NamedTuple):
    """Means over folds and seeds of what one training needs."""

    up: float
    down: float
    seconds: float
    passes: float


def _result(
    found: Found, name: str, predictions: Sequence[OutOfFold], scores: Scored, sites: _Sites, target: float | None
) -> MethodResult:
    metric, sign = found.study.score, found.study.sign
    level = level_of(metric, predictions)
    kind: Kind = "share" if sites.kind == "difference" else "measure"
    own = [each for each in scores if each is not None]
    measured = {m.name: each for m in found.metrics if (each := level_of(m, predictions))}
    unknown = float("nan")
    result = MethodResult(
        kind="ceiling" if name == POOLED else "federated" if name in found.federated else "alone",
        title=found.title(name),
        score=level.mean if level else unknown,
        interval=_bounded(overall(own, kind), kind) if own else None,
        per_seed=level.per_seed if level else (),
        worst_decile=level.worst_decile if level else unknown,
        spread=level.spread if level else unknown,
        metrics=measured,
        validation=found.validation(name) if name != POOLED or name in found.tuned else None,
    )
    if name in found.tuned:
        result = _with_training(found, name, result, target, sign)
    if name in found.federated or name == POOLED:
        gain, gains = _gains(sites, scores, found)
        result = replace(result, gain=gain, gains=gains)
    return result


def _with_training(found: Found, name: str, result: MethodResult, target: float | None, sign: int) -> MethodResult:
    """With what was chosen for a method, its learning curve and its cost."""
    tuned, finals = found.tuned[name], found.finals[name]
    cost, curve = _cost(found, name), _curve(tuned.curves)
    hit = next((p for p in curve if target is not None and sign * (p.score - target) >= 0), None)
    pattern = next((fold[0] for fold in finals if fold[0].rate == tuned.rate), finals[0][0])
    return replace(
        result,
        algorithm={"name": pattern.algorithm.name, **as_dict(pattern.algorithm)},
        finetuned=pattern.finetuned,
        rate=tuned.rate,
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


def _gains(sites: _Sites, scores: Scored, found: Found) -> tuple[MeanGain | None, tuple[SiteGain, ...]]:
    """Return the gains over the best alone: the mean over sites, and that of each site."""
    own = sites.against_alone(scores)
    if not own:
        return None, ()
    estimates = {site: estimate(each, sites.kind) for site, each in own.items()}
    real = discoveries(np.array([each.p_value for each in estimates.values()]))
    rows = []
    for (site, each), sure in zip(estimates.items(), real, strict=True):
        gain, alone, method = gain_of(each), sites.alone[site], scores[site]
        assert alone is not None
        assert method is not None
        rows.append(
            SiteGain(
                client=site,
                name=found.federation.client_name(site),
                samples=own[site].each.shape[1],
                alone=float(alone.values.mean()),
                score=float(method.values.mean()),
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
    runs = [found.study.rounds(trial) for fold in found.finals[name] for trial in fold]
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
    rounds = found.study.rounds(found.finals[name][0][0])
    names = dict.fromkeys(key for at in rounds for key in at.monitors)
    return {key: tuple(Observed(at.round, at.monitors[key]) for at in rounds if key in at.monitors) for key in names}


def _cross(found: Found, best: str | None) -> CrossSites | None:
    """Return whose model works at whose site; None if there are many sites."""
    sites = len(found.federation)
    if sites > CROSS_SITES:
        return None
    models = []
    for fold, chosen in enumerate(found.alone_chosen):
        everywhere = {
            name: found.study.run(found.finals[LOCAL][fold][0]).everywhere(found.folds[fold].final)
            if name == LOCAL
            else alone_outputs(found.study, AloneTask(name, fold)).cross
            for name in set(chosen)
        }
        rows = [everywhere[chosen[site]] for site in range(sites)]
        models.append(np.stack([row[site] for site, row in enumerate(rows) if row is not None]))
    federated = (best, found.outputs(best)[0]) if best else None
    return cross_sites(found.study.score, found.folds, models, federated)

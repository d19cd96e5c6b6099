"""Compute the results of a comparison from the files of its runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from manyheads.core.settings import as_dict
from manyheads.experiments.gains import Counts, Gain, MeanGain, SiteGain
from manyheads.experiments.results import (
    ALONE,
    MethodResult,
    MetricLevel,
    Observed,
    Point,
    RateTried,
    Recommendation,
)
from manyheads.experiments.study import Split, Study
from manyheads.experiments.trials import Trial
from manyheads.experiments.verdicts import LEVEL, Evidence, checked, recommend, verdict
from manyheads.metrics import spread
from manyheads.metrics.paired import Estimate, Kind, estimate, overall

__all__ = ["Judged", "judged"]

Values = dict[int, np.ndarray]
"""scores of each client that has samples: [seeds, samples], higher is better"""


@dataclass(frozen=True)
class Judged:
    """Results of all methods, and the recommendation."""

    score: str
    target: float
    methods: dict[str, MethodResult]
    recommendation: Recommendation
    check: str


def judged(
    study: Study,
    finals: Mapping[str, Sequence[Trial]],
    tried: Mapping[str, Sequence[RateTried]],
    target: float | None,
) -> Judged:
    """Score the methods. ``finals``: each method's runs, one per seed; ``tried``: the step sizes tried for it."""
    metric, sign = study.score, study.sign
    validation, test = (
        {name: _values(study, trials, split) for name, trials in finals.items()} for split in ("validation", "test")
    )
    shares = metric.unit == "%" and all(np.isin(v, (0, 1)).all() for each in test.values() for v in each.values())
    kind: Kind = "difference" if shares else "measure"
    curves = {name: _curve(study, trials) for name, trials in finals.items()}
    target = curves[ALONE][-1].score if target is None else target
    methods: dict[str, MethodResult] = {}
    evidence: dict[str, Evidence] = {}
    for name, trials in finals.items():
        level = _level(test[name], "share" if shares else "measure", sign)
        cost, hit = _cost(study, trials), _reached(curves[name], target, sign)
        methods[name] = MethodResult(
            algorithm=as_dict(trials[0].algorithm),
            finetuned=trials[0].finetuned,
            rate=trials[0].rate,
            score=level.score,
            interval=level.interval,
            per_seed=level.per_seed,
            worst_decile=level.worst_decile,
            spread=level.spread,
            bytes_up=round(cost.up),
            bytes_down=round(cost.down),
            bytes=round(cost.up + cost.down),
            seconds=cost.seconds,
            rounds_to_target=hit.round if hit else None,
            bytes_to_target=hit.bytes if hit else None,
            curve=curves[name],
            monitors=_monitors(study, trials),
            metrics={m.name: _metric([study.measured(trial, m) for trial in trials]) for m in study.metrics},
            rates=tuple(tried[name]),
        )
        if name != ALONE:
            gain, gains = _gains(test, name, study, kind)
            before = overall(_differences(validation, name), kind)
            methods[name] = replace(methods[name], gain=gain, gains=gains, validation_gain=_estimated(before))
            evidence[name] = Evidence(before, methods[name].bytes / 1e6)
    samples = sum(v.shape[1] for v in validation[ALONE].values())
    advice = recommend(evidence, type(metric), samples, len(finals[ALONE]))
    best = advice.best
    check = checked(best, methods[best], type(metric), advice.method is not None) if best else ""
    return Judged(metric.name, target, methods, advice, check)


class _Level(NamedTuple):
    """A method's score on test samples."""

    score: float
    interval: tuple[float, float] | None
    per_seed: tuple[float, ...]
    worst_decile: float
    spread: float


class _Cost(NamedTuple):
    """Bytes of a whole run over all clients, and its seconds on this machine; means over seeds."""

    up: float
    down: float
    seconds: float


def _values(study: Study, trials: Sequence[Trial], split: Split) -> Values:
    """Return the score of every sample by client, negated for metrics where lower is better."""
    tried = [study.outcomes(trial, split) for trial in trials]
    stacked = np.stack([study.sign * outcome.score for outcome in tried])
    ends = np.cumsum(tried[0].sizes)
    parts = zip(ends - tried[0].sizes, ends, strict=True)
    return {client: stacked[:, start:end] for client, (start, end) in enumerate(parts) if end > start}


def _differences(values: Mapping[str, Values], name: str) -> list[np.ndarray]:
    return [values[name][client] - alone for client, alone in values[ALONE].items()]


def _level(values: Values, kind: Kind, sign: int) -> _Level:
    """Return the mean over clients on test samples, its interval, and its spread over clients."""
    mean = overall(list(values.values()), kind)
    per_seed = np.stack([v.mean(axis=1) for v in values.values()]).mean(axis=0)
    clients = np.array([v.mean() for v in values.values()])
    facts = spread(clients)
    low, high = mean.interval(LEVEL)
    if sign < 0:  # values are the negated metric
        per_seed, low, high = -per_seed, -high, -low
        facts |= {k: -facts[k] for k in ("mean", "worst_decile")}
    if kind == "share":
        low, high = max(low, 0.0), min(high, 1.0)
    known = np.isfinite(low) and np.isfinite(high)
    return _Level(
        score=facts["mean"],
        interval=(low, high) if known else None,
        per_seed=tuple(per_seed.tolist()),
        worst_decile=facts["worst_decile"],
        spread=facts["std"],
    )


def _metric(seeds: Sequence[np.ndarray]) -> MetricLevel:
    """Average a metric over clients for each seed; clients where it is undefined (NaN) are left out."""
    means = [
        float(values[~np.isnan(values)].mean()) if not np.isnan(values).all() else float("nan") for values in seeds
    ]
    return MetricLevel(float(np.mean(means)), min(means), max(means), tuple(means))


def _gains(values: Mapping[str, Values], name: str, study: Study, kind: Kind) -> tuple[MeanGain, tuple[SiteGain, ...]]:
    """Return the gains over training alone on test samples: the mean over clients, and that of each client."""
    rows = []
    for client, alone in values[ALONE].items():
        found = estimate(values[name][client] - alone, kind)
        gain = _estimated(found)
        rows.append(
            SiteGain(
                client=client,
                name=study.federation.client_name(client),
                samples=alone.shape[1],
                alone=study.sign * float(alone.mean()),
                score=study.sign * float(values[name][client].mean()),
                gain=gain.gain,
                interval=gain.interval,
                verdict=verdict(found),
            )
        )
    counts = Counter(row.verdict for row in rows)
    found = overall(_differences(values, name), kind)
    mean, clients = _estimated(found), Counts(counts["gains"], counts["loses"], counts["unclear"])
    return MeanGain(gain=mean.gain, interval=mean.interval, verdict=verdict(found), clients=clients), tuple(rows)


def _estimated(found: Estimate) -> Gain:
    low, high = found.interval(LEVEL)
    return Gain(gain=found.value, interval=(low, high) if np.isfinite(found.variance) else None)


def _cost(study: Study, trials: Sequence[Trial]) -> _Cost:
    runs = [study.rounds(trial) for trial in trials]
    return _Cost(
        up=float(np.mean([sum(at.bytes_up for at in run) for run in runs])),
        down=float(np.mean([sum(at.bytes_down for at in run) for run in runs])),
        seconds=float(np.mean([sum(at.seconds for at in run) for run in runs])),
    )


def _curve(study: Study, trials: Sequence[Trial]) -> tuple[Point, ...]:
    """Return the learning curve on validation samples: mean, minimum and maximum over seeds."""
    points = []
    for at in zip(*(study.curve(trial) for trial in trials), strict=True):
        scores = [value for p in at if (value := p.score) is not None]
        if scores:
            sent = round(float(np.mean([p.bytes for p in at])))
            points.append(Point(at[0].round, sent, float(np.mean(scores)), min(scores), max(scores)))
    return tuple(points)


def _monitors(study: Study, trials: Sequence[Trial]) -> dict[str, tuple[Observed, ...]]:
    """Return each monitored quantity that the method has, over rounds, as means over seeds."""
    runs = [study.rounds(trial) for trial in trials]
    found: dict[str, tuple[Observed, ...]] = {}
    for name in study.training.monitor:
        values: dict[int, list[float]] = {}
        for at in (at for run in runs for at in run if name in at.monitors):
            values.setdefault(at.round, []).append(at.monitors[name])
        if values:
            found[name] = tuple(Observed(r, float(np.mean(seeds))) for r, seeds in values.items())
    return found


def _reached(curve: Sequence[Point], target: float, sign: int) -> Point | None:
    """Return the first point of the curve that reaches the target; None if there is none."""
    return next((p for p in curve if sign * (p.score - target) >= 0), None)

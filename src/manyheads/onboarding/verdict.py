"""Whether a new client should use its personalized model, or one of its own samples alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from manyheads.core.tasks import task_named
from manyheads.metrics import Metric, Predictions, metrics_for
from manyheads.metrics.paired import Differences, Kind, Moments, estimate
from manyheads.onboarding.alone import AloneModel

__all__ = ["verdict"]


def verdict(ours: Predictions, validation: float, alone: AloneModel, train: int, task: str) -> dict[str, Any]:
    """Which of the two is better: by cross-validation, which decides, and on the held-out samples, which check it."""
    assert alone.validation is not None
    metric = metrics_for(task_named(task))[0]
    gain, interval = _gain(metric, ours, alone.held_out)
    better = bool(validation <= alone.validation)
    theirs = f"{alone.words} on its own samples alone"
    first, second = ("this model", theirs) if better else (theirs, "this model")
    low, high = sorted((validation, alone.validation))
    words = (
        f"By cross-validation on the {train} training samples {first} is better than {second} (loss {low:.3g} against "
        f"{high:.3g}). {_held_out(metric, len(ours.labels), gain, interval)}"
    )
    return {"better": better, "metric": metric.name, "gain": gain, "interval": interval, "words": words}


def _gain(metric: Metric, ours: Predictions, alone: Predictions) -> tuple[float | None, list[float] | None]:
    """By how much our predictions are better (positive), and the 95 % interval; None where that is not known."""
    same = np.zeros(len(ours.labels), np.int64)  # of one fold
    mine, theirs = (metric.contributions(each, same) for each in (ours, alone))
    if mine is None or theirs is None:
        return None, None
    sign = -1 if metric.higher_is_better is False else 1
    values, each = np.array([sign * (mine.value - theirs.value)]), sign * (mine.each - theirs.each)[None]
    kind: Kind = "measure" if np.isnan(mine.span) else "difference"
    found = estimate(Moments.of(Differences(values, each, mine.stratum, same, mine.span)), kind)
    interval = found.interval()
    return found.value, list(interval) if np.isfinite(interval).all() else None


def _held_out(metric: Metric, samples: int, gain: float | None, interval: list[float] | None) -> str:
    words = f"On the {samples} held-out samples the {metric.title} of this model is"
    if gain is None:
        return f"{words} not defined."
    unit = " points" if metric.unit == "%" else ""
    up = (gain > 0) == (metric.higher_is_better is not False)
    told = f"{metric.factor() * abs(gain):.3g}{unit} {'higher' if up else 'lower'}" if gain else "the same"
    if interval is None:
        return f"{words} {told}: too few to tell."
    low, high = (f"{metric.factor() * v:+.3g}" for v in interval)
    doubt = "" if interval[0] > 0 or interval[1] < 0 else ": too few to tell"
    return f"{words} {told} (95 % interval of the gain {low} to {high}){doubt}."

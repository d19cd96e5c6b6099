"""How good a new client's model is: its scores, a baseline without any model, and a learning curve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from manyheads.core.errors import UserError
from manyheads.core.tasks import Regression, Survival, task_named
from manyheads.data import Encoding
from manyheads.metrics import Predictions, metrics_for

__all__ = ["baseline", "check_task", "curve_point", "curve_sizes", "score"]

SMALLEST = 5
"""samples at the first point of the learning curve, unless told otherwise; then doubled"""


def check_task(encoding: Encoding) -> None:
    """Refuse a task that has neither an accuracy, nor a squared error, nor a C-index."""
    task = task_named(encoding.task)
    if not (task.classes or isinstance(task, Regression | Survival)):
        raise UserError(
            "a new client can be measured by its accuracy, its squared error or its C-index alone",
            where="task",
            given=task.name,
            allowed="regression, survival, and tasks with classes",
        )


def score(own: Predictions, encoding: Encoding) -> dict[str, Any]:
    """All metrics of the task, None where one is not defined; of accuracy also the 95 % interval (Wilson's)."""
    task = task_named(encoding.task)
    found: dict[str, Any] = {metric.name: metric.of_client(own) for metric in metrics_for(task)}
    if not task.classes:
        return found
    from scipy.stats import binomtest  # takes long to load

    correct = int((own.predicted == own.labels).sum())
    interval = binomtest(correct, len(own.labels)).proportion_ci(0.95, "wilson")
    return found | {"correct": correct, "interval": [interval.low, interval.high]}


def baseline(y: np.ndarray, train: np.ndarray, test: np.ndarray, encoding: Encoding) -> dict[str, Any]:
    """Without any model: always the most frequent label, or the mean target, of the training samples; or equal risks."""
    if encoding.task == Survival.name:
        return {"c_index": 0.5}
    if not task_named(encoding.task).classes:
        mean = y[train].mean(axis=0)
        losses = np.square(y[test] - mean).reshape(len(test), -1).sum(axis=1)
        same = Predictions(np.full_like(y[test], mean), y[test], losses, np.array([len(test)]), encoding.target)
        return {"value": encoding.unscaled(mean).tolist(), **score(same, encoding)}
    most = int(np.bincount(y[train]).argmax())
    return {"label": encoding.labels[most], "accuracy": float((y[test] == most).mean())}


def curve_sizes(given: Sequence[int] | None, most: int) -> list[int]:
    """Numbers of training samples at which the learning curve is measured, besides all of them."""
    if given is None:
        doubled = (SMALLEST * 2**i for i in range(64))
        return [n for n in doubled if n < most]
    wrong = [n for n in given if not 1 <= n <= most]
    if wrong:
        raise UserError("no such number of training samples", where="curve", given=wrong[0], allowed=f"1 to {most}")
    return sorted(set(given) - {most})


def curve_point(samples: int, scores: list[dict[str, Any]]) -> dict[str, Any]:
    """A point of the learning curve: mean and standard deviation over subsets; None where the score is not defined."""
    measure = next(name for name in ("accuracy", "rmse", "c_index") if name in scores[0])
    values = [s[measure] for s in scores]
    if None in values:  # depends on the held-out samples alone, so it is undefined for all subsets
        return {"samples": samples, "subsets": len(values), measure: None, "min": None, "max": None, "std": None}
    spread = {"min": min(values), "max": max(values), "std": float(np.std(values, ddof=1)) if len(values) > 1 else None}
    return {"samples": samples, "subsets": len(values), measure: float(np.mean(values)), **spread}

"""How good a new client's model is."""

from __future__ import annotations

from typing import Any

from manyheads.core.errors import UserError
from manyheads.core.tasks import Regression, Survival, task_named
from manyheads.data import Encoding
from manyheads.metrics import Predictions, metrics_for

__all__ = ["check_task", "score"]


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

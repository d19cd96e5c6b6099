"""Metrics: a number for each client, computed from its model's predictions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from manyheads.core.errors import UserError
from manyheads.core.quantities import Quantity, quantity_check
from manyheads.core.registry import Registry
from manyheads.core.tasks import Task

__all__ = ["METRICS", "Measured", "Metric", "Predictions", "SampleMetric", "metrics_for"]


@dataclass(frozen=True)
class Predictions:
    """The outputs of models for the samples of some clients, client after client.

    >>> two = Predictions(np.eye(3), np.array([0, 1, 1]), np.zeros(3), np.array([1, 2]))
    >>> len(two), two.predicted.tolist(), two.client(1).labels.tolist()
    (2, [0, 1, 2], [1, 1])
    """

    outputs: np.ndarray
    """outputs of the models, [samples, outputs]"""
    labels: np.ndarray
    losses: np.ndarray
    """the loss of every sample, as the task reports it, [samples]"""
    sizes: np.ndarray
    """number of samples of each client"""

    def __len__(self) -> int:
        """The number of clients."""
        return len(self.sizes)

    def client(self, index: int) -> Predictions:
        """The predictions for the samples of one client."""
        rows = slice(int(self._offsets[index]), int(self._offsets[index + 1]))
        return Predictions(self.outputs[rows], self.labels[rows], self.losses[rows], self.sizes[index : index + 1])

    @cached_property
    def _offsets(self) -> np.ndarray:
        return np.concatenate([[0], np.cumsum(self.sizes)])

    @property
    def predicted(self) -> np.ndarray:
        """For each sample, the class of the largest output."""
        return self.outputs.argmax(axis=1)

    @property
    def probabilities(self) -> np.ndarray:
        """The softmax of the outputs."""
        power = np.exp(self.outputs - self.outputs.max(axis=1, keepdims=True))
        return power / power.sum(axis=1, keepdims=True)


class Measured(NamedTuple):
    """The values of a metric, one for each client."""

    values: np.ndarray
    defined: np.ndarray
    """whether the metric is defined at each client"""


class Metric(Quantity, ABC):
    """A number for each client; registered in :data:`METRICS`, it can be named in ``Evaluate.metrics``."""

    tasks: ClassVar[tuple[str, ...]] = ()
    """names of the tasks that the metric is for; empty: all of them"""
    needs_classes: ClassVar[bool] = False
    """whether it is only for tasks whose labels are classes"""

    @abstractmethod
    def of_client(self, predictions: Predictions) -> float | None:
        """The value at one client, which has at least one sample; None (or NaN) where it is not defined."""

    def of_clients(self, predictions: Predictions) -> Measured:
        """The value at every client; not finite where a model's outputs are not finite."""
        values, defined = np.full(len(predictions), np.nan), predictions.sizes > 0
        for index in np.flatnonzero(defined).tolist():
            own = predictions.client(index)
            if np.isfinite(own.outputs).all():
                value = self.of_client(own)
                defined[index] = value is not None and not np.isnan(value)
                values[index] = np.nan if value is None else value
        return Measured(values, defined)


class SampleMetric(Metric):
    """A metric that is a mean over a client's samples; computed for all clients at once."""

    @abstractmethod
    def each(self, predictions: Predictions) -> np.ndarray:
        """The value of every sample."""

    def sums(self, predictions: Predictions) -> np.ndarray:
        """The sum over the samples of each client, [C]."""
        owner = np.repeat(np.arange(len(predictions)), predictions.sizes)
        return np.bincount(owner, self.each(predictions), minlength=len(predictions))

    def of_client(self, predictions: Predictions) -> float | None:
        return float(self.of_clients(predictions).values[0])

    def of_clients(self, predictions: Predictions) -> Measured:
        defined = predictions.sizes > 0
        return Measured(self.sums(predictions) / np.where(defined, predictions.sizes, np.nan), defined)


METRICS: Registry[type[Metric]] = Registry("metric", quantity_check(Metric, "of_client"))


def metrics_for(task: Task, names: Iterable[str] = ()) -> list[Metric]:
    """The metrics of a task and those in ``names``, without duplicates; an error if one is not for the task."""
    found: dict[str, Metric] = {}
    for name in (*task.metrics, *names):
        metric = METRICS.find(name, where="metric")
        if (metric.tasks and task.name not in metric.tasks) or (metric.needs_classes and not task.classes):
            allowed = ", ".join(metric.tasks) or "tasks with classes"
            raise UserError(f"{metric.name} is not for {task.name}", where="metric", given=name, allowed=allowed)
        found.setdefault(metric.name, metric())
    return list(found.values())

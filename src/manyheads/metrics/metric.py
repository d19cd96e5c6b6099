"""Metrics: a number for each client, computed from its model's predictions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import ClassVar, NamedTuple

import numpy as np

from manyheads.core.errors import UserError
from manyheads.core.quantities import Quantity, quantity_check
from manyheads.core.registry import Registry
from manyheads.core.tasks import Task
from manyheads.metrics.contributions import Contributions, jackknife
from manyheads.metrics.predictions import Predictions

__all__ = ["METRICS", "ClosedFormMetric", "ManyClients", "Measured", "Metric", "SampleMetric", "metrics_for"]


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

    @property
    def sign(self) -> int:
        """Factor of the value so that higher is better: -1 if lower is."""
        return -1 if self.higher_is_better is False else 1

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

    def contributions(self, own: Predictions, fold: np.ndarray) -> Contributions | None:
        """How much each sample of one client contributes to its value; None where the value is not defined.

        ``own`` are finite predictions, each by a model that was not trained on the sample, and ``fold`` says by which
        of several models; outputs of different models need not be comparable.
        """
        return jackknife(self.of_client, own, fold)


class SampleMetric(Metric):
    """A metric that is a mean over a client's samples; computed for all clients at once."""

    span: ClassVar[float] = np.nan
    """width of the range of a sample's value; NaN if it is not bounded"""

    @abstractmethod
    def each(self, predictions: Predictions) -> np.ndarray:
        """The value of every sample."""

    def sums(self, predictions: Predictions) -> np.ndarray:
        """The sum over the samples of each client, [C]."""
        return np.bincount(predictions.owner, self.each(predictions), minlength=len(predictions))

    def of_client(self, predictions: Predictions) -> float | None:
        return float(self.of_clients(predictions).values[0])

    def of_clients(self, predictions: Predictions) -> Measured:
        defined = predictions.sizes > 0
        return Measured(self.sums(predictions) / np.where(defined, predictions.sizes, np.nan), defined)

    def contributions(self, own: Predictions, fold: np.ndarray) -> Contributions | None:
        return Contributions.of_mean(self.each(own), self.span)


class ClosedFormMetric(Metric):
    """A metric that is computed with its samples' contributions, for which there is a formula."""

    @abstractmethod
    def contributions(self, own: Predictions, fold: np.ndarray) -> Contributions | None: ...

    def of_client(self, predictions: Predictions) -> float | None:
        found = self.contributions(predictions, np.zeros(len(predictions.labels), int))
        return None if found is None else found.value


class ManyClients(Metric):
    """A metric of which the values at many clients are computed together: a call for each of 100,000 takes a minute."""

    @abstractmethod
    def together(self, predictions: Predictions) -> np.ndarray:
        """The value at every client, NaN where it is not defined; each has samples, and all outputs are finite."""

    def of_clients(self, predictions: Predictions) -> Measured:
        values, defined = np.full(len(predictions), np.nan), predictions.sizes > 0
        unbounded = ~np.isfinite(predictions.outputs).all(axis=1)
        chosen = defined & (np.bincount(predictions.owner, unbounded, minlength=len(predictions)) == 0)
        if chosen.any():
            values[chosen] = self.together(predictions if chosen.all() else predictions.clients(chosen))
            defined[chosen] = ~np.isnan(values[chosen])
        return Measured(values, defined)


METRICS: Registry[type[Metric]] = Registry("metric", quantity_check(Metric, "of_client"))


def metrics_for(task: Task, names: Iterable[str] = (), further: bool = True) -> list[Metric]:
    """The metrics of a task and those in ``names``, without duplicates; an error if one of these is not for the task."""
    found: dict[str, Metric] = {}
    own = (*task.metrics, *(task.further if further else ()))
    for name in (*own, *names):
        metric = METRICS.find(name, where="metric")
        unfit = (metric.tasks and task.name not in metric.tasks) or (metric.needs_classes and not task.classes)
        if unfit and name not in own:
            allowed = ", ".join(metric.tasks) or "tasks with classes"
            raise UserError(f"{metric.name} is not for {task.name}", where="metric", given=name, allowed=allowed)
        found.setdefault(metric.name, metric())
    return list(found.values())

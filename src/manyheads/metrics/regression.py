"""Errors of a regression, in the target's own unit."""

from __future__ import annotations

import numpy as np

from manyheads.metrics.contributions import Contributions
from manyheads.metrics.metric import METRICS, ClosedFormMetric, Measured, SampleMetric
from manyheads.metrics.predictions import Predictions

__all__ = ["MAE", "R2", "RMSE"]


@METRICS.register
class RMSE(ClosedFormMetric):
    """The root of the mean squared error, over samples and targets; computed for all clients at once."""

    name = "rmse"
    title = "RMSE"
    meaning = "the root of the mean squared error, in the target's unit"
    higher_is_better = False
    tasks = ("regression",)

    def contributions(self, own: Predictions, fold: np.ndarray) -> Contributions | None:
        """By the delta method, of the root of a mean."""
        errors = _SquaredError().each(own)
        square = errors.mean()
        value = float(square**0.5)
        return Contributions.of_mean(value + (errors - square) / (2 * value or 1.0))

    def of_clients(self, predictions: Predictions) -> Measured:
        values, defined = _SquaredError().of_clients(predictions)
        return Measured(np.sqrt(values), defined)


class _SquaredError(SampleMetric):
    def each(self, predictions: Predictions) -> np.ndarray:
        return np.square(predictions.values - predictions.targets).mean(axis=1)


@METRICS.register
class MAE(SampleMetric):
    """The mean absolute error, over samples and targets."""

    name = "mae"
    title = "MAE"
    meaning = "the mean absolute error, in the target's unit"
    higher_is_better = False
    tasks = ("regression",)

    def each(self, predictions: Predictions) -> np.ndarray:
        return np.abs(predictions.values - predictions.targets).mean(axis=1)


@METRICS.register
class R2(ClosedFormMetric):
    """The share of the target's variance at the client that is explained; a mean over targets.

    Not defined where a target does not vary, as with a single sample.
    """

    name = "r2"
    title = "R2"
    meaning = "the share of the target's variance that is explained: 0 for always predicting the client's own mean"
    higher_is_better = True
    tasks = ("regression",)

    def contributions(self, own: Predictions, fold: np.ndarray) -> Contributions | None:
        """By the delta method, of 1 - mean squared error / variance."""
        error = np.square(own.values - own.targets)
        square = np.square(own.targets - own.targets.mean(axis=0))
        if (own.targets == own.targets[0]).all(axis=0).any():
            return None
        variance = square.mean(axis=0)
        ratio = error.mean(axis=0) / variance
        return Contributions.of_mean((1 - ratio - (error - ratio * square) / variance).mean(axis=1))

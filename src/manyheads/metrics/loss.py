"""The loss of the task."""

from __future__ import annotations

import numpy as np

from manyheads.metrics.metric import METRICS, SampleMetric
from manyheads.metrics.predictions import Predictions

__all__ = ["Loss"]


@METRICS.register
class Loss(SampleMetric):
    """The mean loss, as the task reports it: cross entropy, or the squared error of a regression."""

    name = "loss"
    title = "loss"
    meaning = "the mean loss of the samples"
    higher_is_better = False

    def each(self, predictions: Predictions) -> np.ndarray:
        return predictions.losses

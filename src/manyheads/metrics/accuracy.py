"""The share of samples that are classified right."""

from __future__ import annotations

import numpy as np

from manyheads.metrics.metric import METRICS, SampleMetric
from manyheads.metrics.predictions import Predictions

__all__ = ["Accuracy"]


@METRICS.register
class Accuracy(SampleMetric):
    """How often the class of the largest output is the label."""

    name = "accuracy"
    title = "accuracy"
    meaning = "the share of samples that are classified right"
    unit = "%"
    higher_is_better = True
    needs_classes = True
    span = 1.0

    def each(self, predictions: Predictions) -> np.ndarray:
        return (predictions.predicted == predictions.labels).astype(float)

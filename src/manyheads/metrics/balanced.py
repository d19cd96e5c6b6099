"""Accuracy with every class counting the same."""

from __future__ import annotations

import numpy as np

from manyheads.metrics.contributions import Contributions
from manyheads.metrics.metric import METRICS, ClosedFormMetric, ManyClients
from manyheads.metrics.orders import mean_over_classes
from manyheads.metrics.predictions import Predictions

__all__ = ["BalancedAccuracy"]


@METRICS.register
class BalancedAccuracy(ManyClients, ClosedFormMetric):
    """The mean over the classes that a client has of the share of their samples that are classified right."""

    name = "balanced_accuracy"
    title = "balanced accuracy"
    meaning = (
        "the share of samples classified right, as a mean over classes: always predicting one class of two gives 50 %"
    )
    unit = "%"
    higher_is_better = True
    needs_classes = True

    def contributions(self, own: Predictions, fold: np.ndarray) -> Contributions | None:
        classes, label = np.unique(own.labels, return_inverse=True)
        right = (own.predicted == own.labels).astype(float)
        recall = np.bincount(label, right) / np.bincount(label)
        return Contributions(float(recall.mean()), right / len(classes), own.labels, 1 / len(classes))

    def together(self, predictions: Predictions) -> np.ndarray:
        clients, right = len(predictions), predictions.predicted == predictions.labels
        values = []
        for c in np.unique(predictions.labels):
            own = predictions.labels == c
            count = np.bincount(predictions.owner[own], minlength=clients)
            found = np.bincount(predictions.owner[own], right[own], minlength=clients)
            values.append(np.divide(found, count, out=np.full(clients, np.nan), where=count > 0))
        return mean_over_classes(values)

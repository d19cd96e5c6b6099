"""The harmonic mean of precision and recall."""

from __future__ import annotations

import numpy as np

from manyheads.metrics.contributions import Contributions
from manyheads.metrics.metric import METRICS, ClosedFormMetric, ManyClients
from manyheads.metrics.orders import mean_over_classes
from manyheads.metrics.predictions import Predictions

__all__ = ["F1"]


@METRICS.register
class F1(ManyClients, ClosedFormMetric):
    """Twice the samples found of a class, over those that have it plus those predicted to have it.

    With two classes: that of the second, the positive one; not defined where none is of it nor predicted to be. With
    more: the mean over the classes that are a label or a prediction at the client.
    """

    name = "f1"
    title = "F1"
    meaning = "the harmonic mean of precision (how many of those found are right) and recall (how many are found)"
    unit = "%"
    higher_is_better = True
    needs_classes = True

    def contributions(self, own: Predictions, fold: np.ndarray) -> Contributions | None:
        """With a = 2 [found] and b = [label] + [predicted], F1 = mean(a) / mean(b); by the delta method, a sample
        moves it by (a - F1 b) / mean(b)."""
        classes = np.arange(own.outputs.shape[1])[:, None] if own.outputs.shape[1] > 2 else np.array([[1]])
        label, predicted = own.labels == classes, own.predicted == classes  # [classes, samples]
        used = (label | predicted).any(axis=1)
        if not used.any():
            return None
        a, b = 2.0 * (label & predicted)[used], label[used].astype(float) + predicted[used]
        mean = b.mean(axis=1, keepdims=True)
        f1 = a.mean(axis=1, keepdims=True) / mean
        value = float(f1.mean())
        return Contributions(value, value + ((a - f1 * b) / mean).mean(axis=0), np.zeros(len(fold), int))

    def together(self, predictions: Predictions) -> np.ndarray:
        clients, values = len(predictions), []
        for c in range(predictions.outputs.shape[1]) if predictions.outputs.shape[1] > 2 else (1,):
            label, predicted = predictions.labels == c, predictions.predicted == c
            a, b = (
                np.bincount(predictions.owner, each, minlength=clients)
                for each in (2.0 * (label & predicted), label.astype(float) + predicted)
            )
            values.append(np.divide(a, b, out=np.full(clients, np.nan), where=b > 0))
        return mean_over_classes(values)

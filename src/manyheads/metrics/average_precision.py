"""The area under the precision-recall curve."""

from __future__ import annotations

import numpy as np

from manyheads.metrics.metric import METRICS, Metric
from manyheads.metrics.predictions import Predictions

__all__ = ["AveragePrecision"]


@METRICS.register
class AveragePrecision(Metric):
    """The mean precision over the thresholds that include one more sample of the class.

    With two classes: that of the second, the positive one. With more: the mean over classes, each against the rest. A
    class without samples on both sides is left out; at a client with a single class it is not defined.
    """

    name = "average_precision"
    title = "average precision"
    meaning = (
        "the precision among the samples found most probable, averaged over all shares of the class that are found"
    )
    unit = "%"
    higher_is_better = True
    needs_classes = True

    def of_client(self, predictions: Predictions) -> float | None:
        areas = [_area(scores, positive) for scores, positive in predictions.against_rest()]
        return float(np.mean(areas)) if areas else None


def _area(scores: np.ndarray, positive: np.ndarray) -> float:
    order = np.argsort(-scores, kind="stable")
    thresholds = np.flatnonzero(np.append(np.diff(scores[order]) != 0, True))  # the last of equal scores
    found = np.cumsum(positive[order])[thresholds]
    precision = found / (thresholds + 1)
    return float((precision * np.diff(found, prepend=0)).sum() / found[-1])

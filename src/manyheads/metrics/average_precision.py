"""The area under the precision-recall curve."""

from __future__ import annotations

import numpy as np

from manyheads.metrics.metric import METRICS, ManyClients
from manyheads.metrics.orders import against_rest, mean_over_classes
from manyheads.metrics.predictions import Predictions

__all__ = ["AveragePrecision"]


@METRICS.register
class AveragePrecision(ManyClients):
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
        value = float(self.together(predictions)[0])
        return None if np.isnan(value) else value

    def together(self, predictions: Predictions) -> np.ndarray:
        """The mean over the samples of a class of the precision at their score: of all as high, those of the class."""
        clients, values = len(predictions), []
        for ordered, count in against_rest(predictions):
            before = np.cumsum(np.append(0, ordered.positive))  # in all places before
            higher = np.cumsum(count)[ordered.owner] - before[ordered.first]
            total = ordered.sums(higher / (predictions.sizes[ordered.owner] - ordered.below), clients)
            both = (count > 0) & (count < predictions.sizes)
            values.append(np.divide(total, count, out=np.full(clients, np.nan), where=both))
        return mean_over_classes(values)

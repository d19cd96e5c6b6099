"""The area under the ROC curve, with the components of its variance."""

from __future__ import annotations

import numpy as np

from manyheads.metrics.contributions import Contributions
from manyheads.metrics.metric import METRICS, ClosedFormMetric, ManyClients
from manyheads.metrics.orders import against_rest, mean_over_classes
from manyheads.metrics.predictions import Predictions

__all__ = ["AUC"]


@METRICS.register
class AUC(ManyClients, ClosedFormMetric):
    """How often a sample of a class gets a higher probability of it than a sample of another class does.

    With more than two classes: the mean over classes, each against the rest. A class without samples on both sides is
    left out; at a client with a single class it is not defined.
    """

    name = "auc"
    title = "AUC"
    meaning = "how often, of two samples of which one is of the class, the model finds it more probable for that one"
    unit = "%"
    higher_is_better = True
    needs_classes = True

    def contributions(self, own: Predictions, fold: np.ndarray) -> Contributions | None:
        """The components of DeLong, DeLong and Clarke-Pearson 1988, of pairs of samples in the same fold.

        The AUC of a class is W / P for W pairs in the right order (half of those that tie) of P, and a sample moves it
        by (w - AUC p) / P, for its own part w of the right ones of its p pairs. The strata are the classes.
        """
        found = (_ordered(scores, positive, fold) for scores, positive in own.against_rest())
        ordered = np.array([pairs for pairs in found if pairs[1].any()])  # [classes, 2, samples]
        if not len(ordered):
            return None
        w, p = ordered[:, 0], ordered[:, 1]
        total = p.sum(axis=1, keepdims=True) / 2
        auc = w.sum(axis=1, keepdims=True) / (2 * total)
        value, of_class = float(auc.mean()), np.bincount(own.labels)[own.labels]
        each = value + of_class * ((w - auc * p) / total).mean(axis=0)
        return Contributions(value, each, own.labels, float((of_class * (p / total).mean(axis=0)).max()))

    def together(self, predictions: Predictions) -> np.ndarray:
        """By ranks (Mann and Whitney): of a positive sample's lower and equal samples, those that are positive too are
        the same in any order."""
        values = []
        for ordered, count in against_rest(predictions):
            lower = ordered.sums(ordered.below + (ordered.equal - 1) / 2, len(predictions)) - count * (count - 1) / 2
            with np.errstate(invalid="ignore"):
                values.append(lower / (count * (predictions.sizes - count)))  # 0 / 0 without samples on both sides
        return mean_over_classes(values)


def _ordered(scores: np.ndarray, positive: np.ndarray, fold: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each sample, its pairs with samples of the other side in its fold: those in the right order, and all."""
    right, pairs = np.zeros(len(scores)), np.zeros(len(scores))
    for index in np.unique(fold):
        upper, lower = np.flatnonzero((fold == index) & positive), np.flatnonzero((fold == index) & ~positive)
        right[upper] = _below(scores[upper], scores[lower])
        right[lower] = len(upper) - _below(scores[lower], scores[upper])
        pairs[upper], pairs[lower] = len(lower), len(upper)
    return right, pairs


def _below(scores: np.ndarray, others: np.ndarray) -> np.ndarray:
    """For each score, how many of the others are below it; ties count half."""
    others = np.sort(others)
    return (np.searchsorted(others, scores) + np.searchsorted(others, scores, "right")) / 2

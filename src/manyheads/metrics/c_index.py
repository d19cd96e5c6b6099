"""The concordance index of a survival model."""

from __future__ import annotations

import numpy as np

from manyheads.metrics.contributions import Contributions
from manyheads.metrics.metric import METRICS, ClosedFormMetric
from manyheads.metrics.predictions import Predictions

__all__ = ["CIndex", "comparable_pairs"]

BLOCK = 2**22
"""pairs compared at once"""


def comparable_pairs(
    risk: np.ndarray, time: np.ndarray, event: np.ndarray, fold: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """For each sample, with how many others of its fold it can be compared, and with how many it is in order.

    Two samples can be compared if one had the event before the other's time, or at that time while the other was last
    seen then without it. They are in order if the one with the event has the higher risk; equal risks count one half.
    """
    pairs, in_order = np.zeros(len(risk)), np.zeros(len(risk))
    first = np.flatnonzero(event)
    for rows in np.array_split(first, max(1, -(-len(first) * len(risk) // BLOCK))):
        comparable = (time > time[rows, None]) | ((time == time[rows, None]) & (event == 0))
        comparable &= fold == fold[rows, None]
        right = comparable * (0.5 + 0.5 * np.sign(risk[rows, None] - risk))
        for counts, found in ((pairs, comparable), (in_order, right)):
            counts[rows] += found.sum(axis=1)
            counts += found.sum(axis=0)
    return pairs, in_order


@METRICS.register
class CIndex(ClosedFormMetric):
    """Harrell's concordance index: how often, of two samples that can be compared, the first to have the event has the
    higher risk. 0.5 is chance.

    Reference: Harrell, Califf, Pryor, Lee, Rosati, Evaluating the Yield of Medical Tests, 1982.
    """

    name = "c_index"
    title = "C-index"
    meaning = "how often, of two samples, the one that has the event first was given the higher risk"
    unit = "%"
    higher_is_better = True
    tasks = ("survival",)

    def contributions(self, own: Predictions, fold: np.ndarray) -> Contributions | None:
        """Of pairs of samples in the same fold.

        The C-index is W / P for W pairs in order of P, and a sample moves it by (w - C p) / P, for its own part w of the
        ordered ones of its p pairs.
        """
        time, event = own.labels.T
        p, w = comparable_pairs(own.outputs.ravel(), time, event, fold)
        if not p.any():
            return None
        total, samples = p.sum() / 2, len(p)
        value = float(w.sum() / (2 * total))
        each = value + samples * (w - value * p) / total
        return Contributions(value, each, np.zeros(samples, int), float(samples * p.max() / total))

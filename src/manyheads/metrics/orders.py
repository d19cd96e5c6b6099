"""The samples of many clients in the order of their scores, each among those of its own client."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from manyheads.metrics.predictions import Predictions

__all__ = ["Ordered", "against_rest", "mean_over_classes"]


@dataclass(frozen=True)
class Ordered:
    """Samples by client, and by increasing score within each.

    >>> two = Ordered.of(np.array([0, 0, 0, 1]), np.array([0.5, 0.1, 0.5, 0.9]), np.array([True, False, False, True]))
    >>> two.positive.tolist(), two.below.tolist(), two.equal.tolist()
    ([False, True, False, True], [0, 1, 1, 0], [1, 2, 2, 1])
    """

    owner: np.ndarray
    """the client of each sample, increasing, [samples]"""
    positive: np.ndarray
    first: np.ndarray
    """the first place with the same client and score"""
    below: np.ndarray
    """how many samples of its client have a lower score"""
    equal: np.ndarray
    """how many have the same, itself among them"""

    @classmethod
    def of(cls, owner: np.ndarray, scores: np.ndarray, positive: np.ndarray) -> Ordered:
        order = np.lexsort((scores, owner))
        own, score, places = owner[order], scores[order], np.arange(len(order))
        client = np.diff(own, prepend=-1) != 0  # where the samples of a client begin, and where another score does
        begins = client | (np.diff(score, prepend=np.nan) != 0)
        starts = np.flatnonzero(begins)
        group = np.cumsum(begins) - 1
        first = starts[group]
        below = first - np.maximum.accumulate(np.where(client, places, 0))
        return cls(own, positive[order], first, below, np.diff(np.append(starts, len(order)))[group])

    def sums(self, values: np.ndarray, clients: int) -> np.ndarray:
        """The sum of values over the positive samples of each client."""
        return np.bincount(self.owner[self.positive], values[self.positive], minlength=clients)


def against_rest(predictions: Predictions) -> Iterator[tuple[Ordered, np.ndarray]]:
    """For each class, the samples of all clients in the order of its score, and how many of each client's are of it."""
    owner = predictions.owner
    for label, scores in predictions.class_scores.items():
        positive = predictions.labels == label
        yield Ordered.of(owner, scores, positive), np.bincount(owner[positive], minlength=len(predictions))


def mean_over_classes(values: list[np.ndarray]) -> np.ndarray:
    """The mean of the classes that are defined (not NaN), at each client; NaN if none is."""
    table = np.array(values)  # [classes, clients]
    known = ~np.isnan(table)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(known, table, 0).sum(axis=0) / known.sum(axis=0))

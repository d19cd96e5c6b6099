"""The metrics of an evaluation, for every client."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from manyheads.metrics.metric import Measured, Metric
from manyheads.metrics.predictions import Predictions

__all__ = ["Scores"]


@dataclass(frozen=True)
class Scores:
    """The values of metrics for some clients."""

    samples: np.ndarray
    """number of samples of each client"""
    metrics: dict[str, Measured]
    """values by the metric's name"""

    @classmethod
    def of(cls, predictions: Predictions, metrics: Iterable[Metric]) -> Scores:
        return cls(predictions.sizes.astype(float), {m.name: m.of_clients(predictions) for m in metrics})

    @classmethod
    def joined(cls, parts: Sequence[Scores], order: np.ndarray) -> Scores:
        """The scores of several groups of clients, concatenated and then put in ``order``."""

        def join(arrays: Iterable[np.ndarray]) -> np.ndarray:
            return np.concatenate(list(arrays))[order]

        return cls(
            join(part.samples for part in parts),
            {
                name: Measured(*map(join, zip(*(part.metrics[name] for part in parts), strict=True)))
                for name in parts[0].metrics
            },
        )

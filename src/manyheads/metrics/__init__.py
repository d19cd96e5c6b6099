"""Measures of results."""

from manyheads.metrics.fairness import spread
from manyheads.metrics.heterogeneity import total_variation, wasserstein1

__all__ = ["spread", "total_variation", "wasserstein1"]

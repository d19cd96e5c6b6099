"""Measures of results."""

from manyheads.metrics.fairness import spread

__all__ = ["spread"]

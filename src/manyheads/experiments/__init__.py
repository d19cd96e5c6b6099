"""Experiments: several runs that answer one question together."""

from manyheads.experiments.compare import Comparison, compare

__all__ = ["Comparison", "compare"]

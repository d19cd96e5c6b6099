"""Experiments: comparisons of methods, made of several runs."""

from manyheads.experiments.compare import Comparison, compare
from manyheads.experiments.results import ComparisonResult, MethodResult

__all__ = ["Comparison", "ComparisonResult", "MethodResult", "compare"]

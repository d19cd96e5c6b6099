"""Experiments: comparisons of methods, made of several runs."""

from manyheads.experiments.compare import Comparison, compare
from manyheads.experiments.method_result import MethodResult
from manyheads.experiments.results import ComparisonResult

__all__ = ["Comparison", "ComparisonResult", "MethodResult", "compare"]

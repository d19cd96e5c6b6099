"""Experiments: several runs that answer one question together."""

from manyheads.experiments.compare import Comparison, compare
from manyheads.experiments.results import ComparisonResult, MethodResult

__all__ = ["Comparison", "ComparisonResult", "MethodResult", "compare"]

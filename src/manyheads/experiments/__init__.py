"""Experiments: comparisons of methods, made of several runs."""

from manyheads.experiments.compare import Comparison, compare
from manyheads.experiments.method_result import MethodResult
from manyheads.experiments.results import ComparisonResult
from manyheads.experiments.tune import TuningResult, tune

__all__ = ["Comparison", "ComparisonResult", "MethodResult", "TuningResult", "compare", "tune"]

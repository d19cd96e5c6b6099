"""Measures of results."""

from manyheads.metrics.accuracy import Accuracy
from manyheads.metrics.c_index import CIndex
from manyheads.metrics.fairness import spread
from manyheads.metrics.heterogeneity import total_variation, wasserstein1
from manyheads.metrics.kaplan_meier import SurvivalCurve, kaplan_meier
from manyheads.metrics.loss import Loss
from manyheads.metrics.metric import METRICS, Measured, Metric, Predictions, SampleMetric, metrics_for
from manyheads.metrics.representation import (
    LinearCKA,
    class_cosine_similarity,
    layer_distances,
    linear_cka,
    principal_angle_distance,
)
from manyheads.metrics.scores import Scores

__all__ = [
    "METRICS",
    "Accuracy",
    "CIndex",
    "LinearCKA",
    "Loss",
    "Measured",
    "Metric",
    "Predictions",
    "SampleMetric",
    "Scores",
    "SurvivalCurve",
    "class_cosine_similarity",
    "kaplan_meier",
    "layer_distances",
    "linear_cka",
    "metrics_for",
    "principal_angle_distance",
    "spread",
    "total_variation",
    "wasserstein1",
]

"""Measures of results."""

from manyheads.metrics.accuracy import Accuracy
from manyheads.metrics.auc import AUC
from manyheads.metrics.average_precision import AveragePrecision
from manyheads.metrics.balanced import BalancedAccuracy
from manyheads.metrics.c_index import CIndex
from manyheads.metrics.contributions import Contributions
from manyheads.metrics.curves import calibration, confusion, roc
from manyheads.metrics.deciding import deciding_metric
from manyheads.metrics.f1 import F1
from manyheads.metrics.fairness import spread
from manyheads.metrics.heterogeneity import total_variation, wasserstein1
from manyheads.metrics.kaplan_meier import SurvivalCurve, kaplan_meier
from manyheads.metrics.layers import layer_cka, layer_outputs
from manyheads.metrics.loss import Loss
from manyheads.metrics.metric import METRICS, ClosedFormMetric, Measured, Metric, SampleMetric, metrics_for
from manyheads.metrics.predictions import Predictions
from manyheads.metrics.probability import Brier, CalibrationError, LogLoss
from manyheads.metrics.regression import MAE, R2, RMSE
from manyheads.metrics.representation import (
    LinearCKA,
    class_cosine_similarity,
    layer_distances,
    linear_cka,
    principal_angle_distance,
)
from manyheads.metrics.scores import Scores

__all__ = [
    "AUC",
    "F1",
    "MAE",
    "METRICS",
    "R2",
    "RMSE",
    "Accuracy",
    "AveragePrecision",
    "BalancedAccuracy",
    "Brier",
    "CIndex",
    "CalibrationError",
    "ClosedFormMetric",
    "Contributions",
    "LinearCKA",
    "LogLoss",
    "Loss",
    "Measured",
    "Metric",
    "Predictions",
    "SampleMetric",
    "Scores",
    "SurvivalCurve",
    "calibration",
    "class_cosine_similarity",
    "confusion",
    "deciding_metric",
    "kaplan_meier",
    "layer_cka",
    "layer_distances",
    "layer_outputs",
    "linear_cka",
    "metrics_for",
    "principal_angle_distance",
    "roc",
    "spread",
    "total_variation",
    "wasserstein1",
]

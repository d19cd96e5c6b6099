"""Regularised linear models: logistic and ridge regression."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from manyheads.baselines.baseline import BASELINES, Baseline, Predict
from manyheads.baselines.majority import Majority
from manyheads.baselines.probabilities import log_probabilities
from manyheads.baselines.threads import one_thread
from manyheads.baselines.tuning import best_setting, inner_folds
from manyheads.core.tasks import task_named

__all__ = ["Linear"]

PENALTIES = 10.0 ** np.arange(3, -3, -1)
"""of the squared weights against the sum of the losses, the strongest first"""
FOLDS = 5


@BASELINES.register
class Linear(Baseline):
    """Logistic regression for classes, ridge regression for values, of standardised inputs; the L2 penalty is tuned."""

    name = "linear"
    title = "logistic or ridge regression"

    @one_thread
    def fit(
        self, x: np.ndarray, y: np.ndarray, task: str, outputs: int, seed: int, groups: np.ndarray | None = None
    ) -> Predict:
        from sklearn.preprocessing import StandardScaler

        classes = task_named(task).classes
        if classes and len(np.unique(y)) == 1:
            return Majority().fit(x, y, task, outputs, seed)
        scaler = StandardScaler().fit(x.astype(np.float64))
        basis = _row_space(scaler.transform(x.astype(np.float64)))

        def encoded(inputs: np.ndarray) -> np.ndarray:
            return scaler.transform(inputs.astype(np.float64)) @ basis

        z = encoded(x)

        def path(train: np.ndarray, validation: np.ndarray) -> list[np.ndarray]:
            models = [_fitted(z[train], y[train], penalty, classes) for penalty in PENALTIES]
            return [_outputs(model, z[validation], classes, outputs, len(train)) for model in models]

        folds = inner_folds(y, FOLDS, seed, classes=classes, groups=groups)
        model = _fitted(z, y, PENALTIES[best_setting(path, y, folds, classes=classes)], classes)
        return lambda inputs: _outputs(model, encoded(inputs), classes, outputs, len(y))


def _row_space(x: np.ndarray) -> np.ndarray:
    """An orthonormal basis, [features, rank], that spans all rows.

    The weights of an L2-penalised model are combinations of the rows, so that nothing but computation is lost in it.
    """
    features = x.shape[1]
    return np.linalg.svd(x, full_matrices=False)[2].T if features > len(x) else np.eye(features)


def _fitted(x: np.ndarray, y: np.ndarray, penalty: float, classes: bool) -> Any:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression, Ridge

    if not classes:
        return Ridge(alpha=penalty, solver="svd").fit(x, y.reshape(len(y), -1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # with outliers, say; validation judges what was reached
        return LogisticRegression(C=1 / penalty, max_iter=500).fit(x, y)


def _outputs(model: Any, x: np.ndarray, classes: bool, outputs: int, samples: int) -> np.ndarray:
    if not classes:
        return model.predict(x).reshape(len(x), outputs)
    return log_probabilities(model.predict_proba(x), model.classes_, outputs, samples)

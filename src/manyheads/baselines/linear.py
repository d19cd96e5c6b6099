"""Regularised linear models: logistic regression, ridge regression, Cox regression."""

from __future__ import annotations

import warnings

import numpy as np

from manyheads.baselines.baseline import BASELINES, Baseline, Predict
from manyheads.baselines.cox import fit_cox
from manyheads.baselines.majority import Majority
from manyheads.baselines.probabilities import log_probabilities
from manyheads.baselines.threads import one_thread
from manyheads.baselines.tuning import best_setting, inner_folds
from manyheads.core.tasks import task_named

__all__ = ["Linear"]

PENALTIES = 10.0 ** np.arange(3, -3, -1)
"""of half the squared weights, beside the sum of the losses; the strongest first"""
FOLDS = 5


@BASELINES.register
class Linear(Baseline):
    """Logistic regression for classes, ridge regression for values, Cox regression for survival; the L2 penalty is tuned.

    Inputs are standardised.
    """

    name = "linear"
    title = "logistic, ridge or Cox regression"
    tasks = ("regression", "survival")

    def words(self, task: str) -> str:
        return {"regression": "ridge regression", "survival": "Cox regression"}.get(task, "logistic regression")

    @one_thread
    def fit(
        self, x: np.ndarray, y: np.ndarray, task: str, outputs: int, seed: int, groups: np.ndarray | None = None
    ) -> Predict:
        from sklearn.preprocessing import StandardScaler

        if task_named(task).classes and len(np.unique(y)) == 1:
            return Majority().fit(x, y, task, outputs, seed)
        scaler = StandardScaler().fit(x.astype(np.float64))
        basis = _row_space(scaler.transform(x.astype(np.float64)))

        def encoded(inputs: np.ndarray) -> np.ndarray:
            return scaler.transform(inputs.astype(np.float64)) @ basis

        z = encoded(x)

        def path(train: np.ndarray, validation: np.ndarray) -> list[np.ndarray]:
            return [_fitted(z[train], y[train], p, task, outputs)(z[validation]) for p in PENALTIES]

        chosen = best_setting(path, y, task, inner_folds(y, task, FOLDS, seed, groups))
        model = _fitted(z, y, PENALTIES[chosen], task, outputs)
        return lambda inputs: model(encoded(inputs))


def _row_space(x: np.ndarray) -> np.ndarray:
    """An orthonormal basis, [features, rank], that spans all rows.

    The weights of an L2-penalised model are combinations of the rows, so that nothing but computation is lost in it.
    """
    features = x.shape[1]
    return np.linalg.svd(x, full_matrices=False)[2].T if features > len(x) else np.eye(features)


def _fitted(x: np.ndarray, y: np.ndarray, penalty: float, task: str, outputs: int) -> Predict:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression, Ridge

    if task == "survival":
        weights = fit_cox(x, y, penalty)
        return lambda new: (new @ weights)[:, None]
    if task == "regression":
        ridge = Ridge(alpha=penalty, solver="svd").fit(x, y.reshape(len(y), -1))
        return lambda new: ridge.predict(new).reshape(len(new), outputs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # with outliers, say; validation judges what was reached
        logistic = LogisticRegression(C=1 / penalty, max_iter=500).fit(x, y)
    return lambda new: log_probabilities(logistic.predict_proba(new), logistic.classes_, outputs, len(y))

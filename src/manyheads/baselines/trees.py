"""Gradient-boosted trees."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np

from manyheads.baselines.baseline import BASELINES, Baseline, Predict
from manyheads.baselines.majority import Majority
from manyheads.baselines.probabilities import log_probabilities
from manyheads.baselines.threads import one_thread
from manyheads.baselines.tuning import best_setting, inner_folds
from manyheads.core.tasks import task_named

__all__ = ["Trees"]

FOLDS = 3
TREES = 400
"""most trees of a model with several classes, of which every iteration adds one for each"""
MOST_FEATURES = 500
"""beyond these, as of images, fitting takes minutes (measured: 40 s for 500 samples with 3072 features)"""


@BASELINES.register
class Trees(Baseline):
    """Histogram gradient boosting; tuned are the number of iterations and of features that a split may choose from."""

    name = "trees"
    title = "gradient-boosted trees"

    def unfit(self, task: str, x: np.ndarray) -> str | None:
        if task == "survival":
            return "scikit-learn boosts no trees for survival"
        features = math.prod(x.shape[1:])
        if features > MOST_FEATURES:
            return f"boosted trees take too long with {features} features"
        return super().unfit(task, x)

    def fit(
        self, x: np.ndarray, y: np.ndarray, task: str, outputs: int, seed: int, groups: np.ndarray | None = None
    ) -> Predict:
        if not task_named(task).classes:
            models = [_tuned(x, own, task, 1, seed, groups) for own in y.reshape(len(y), -1).T]
            return one_thread(lambda new: np.column_stack([model.predict(new) for model in models]))
        if len(np.unique(y)) == 1:
            return Majority().fit(x, y, task, outputs, seed)
        model = _tuned(x, y, task, outputs, seed, groups)
        return one_thread(lambda new: log_probabilities(model.predict_proba(new), model.classes_, outputs, len(y)))


@one_thread
def _tuned(x: np.ndarray, y: np.ndarray, task: str, outputs: int, seed: int, groups: np.ndarray | None) -> Any:
    """The model with the best settings."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    classes = task_named(task).classes
    kind = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
    trees = len(np.unique(y)) if classes and len(np.unique(y)) > 2 else 1  # in an iteration
    most = min(100, max(30, TREES // trees))
    few = math.sqrt(x.shape[1]) / x.shape[1]  # as in random forests
    shares = [few] if trees > 1 else [few, 1.0]

    def fitted(rows: np.ndarray, share: float, iterations: int) -> Any:
        return kind(
            learning_rate=10 / most,
            max_iter=iterations,
            max_features=share,
            max_leaf_nodes=min(31, max(6, len(y) // 25)),
            min_samples_leaf=min(5, max(1, len(y) // 8)),
            early_stopping=False,
            random_state=seed % 2**32,
        ).fit(x[rows], y[rows])

    def path(train: np.ndarray, validation: np.ndarray) -> list[np.ndarray]:
        models = [fitted(train, share, most) for share in shares]
        if not classes:
            return [out[:, None] for model in models for out in model.staged_predict(x[validation])]
        return [
            log_probabilities(out, model.classes_, outputs, len(train))
            for model in models
            for out in model.staged_predict_proba(x[validation])
        ]

    chosen = best_setting(path, y, task, inner_folds(y, task, FOLDS, seed, groups))
    return fitted(np.arange(len(y)), *list(product(shares, range(1, most + 1)))[chosen])

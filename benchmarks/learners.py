"""Cross-validation of real models from scikit-learn at a few sites, whose true gain is known from fresh samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from outcomes import Scored, scored
from sklearn import set_config
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.tree import DecisionTreeClassifier

from manyheads.experiments.outcomes import OutOfFold
from manyheads.metrics import METRICS, Predictions

set_config(assume_finite=True, skip_parameter_validation=True)  # most of the time otherwise
SITES, FEATURES, FRESH = 4, 10, 1000
DIRECTIONS = (1 + 0.5 * np.random.default_rng(0).normal(size=(SITES, FEATURES))) / FEATURES**0.5
"""in which features tell the label, at each site: alike, but not the same"""
Data = tuple[np.ndarray, np.ndarray]
MODELS: dict[str, Callable[[], Any]] = {
    "logistic": lambda: LogisticRegression(C=1.0),
    "tree": lambda: DecisionTreeClassifier(max_leaf_nodes=8, random_state=0),
    "majority": lambda: DummyClassifier(strategy="prior"),
    "ridge": lambda: RidgeCV(np.geomspace(0.1, 1000, 9)),
}


@dataclass(frozen=True)
class Problem:
    """Two models are compared on it: a gain is that of the first over the second."""

    metric: str = "accuracy"
    samples: int = 100
    """of each site"""
    signal: float = 1.0
    """0: labels are independent of features, as when they are permuted"""
    first: tuple[str, bool] = ("logistic", True)
    """name of a model, and whether it is trained on the data of all sites"""
    second: tuple[str, bool] = ("logistic", False)
    folds: int = 5


class Tried(NamedTuple):
    """Out-of-fold scores of the two models at every site, and their scores on fresh samples, [sites, folds]."""

    scores: tuple[Scored, Scored]
    fresh: tuple[np.ndarray, np.ndarray]


def crossed(rng: np.random.Generator, p: Problem) -> Tried:
    """One repetition: new samples, divided, and both models trained on all but each fold."""
    sites, fresh = ([_sample(rng, p, d, n) for d in DIRECTIONS] for n in (p.samples, FRESH))
    kind = KFold if p.metric == "rmse" else StratifiedKFold
    dealt = [list(kind(p.folds, shuffle=True, random_state=int(rng.integers(2**31))).split(x, y)) for x, y in sites]
    fold = np.concatenate([_fold_of(own, p.samples) for own in dealt])
    found = [_evaluated(p, model, sites, fresh, dealt) for model in (p.first, p.second)]
    metric, labels = METRICS[p.metric](), np.concatenate([y for _, y in sites])
    scores = [scored(metric, [OutOfFold(_predictions(labels, outputs, SITES), fold)]) for outputs, _ in found]
    return Tried((scores[0], scores[1]), (found[0][1], found[1][1]))


def _sample(rng: np.random.Generator, p: Problem, direction: np.ndarray, n: int) -> Data:
    x = rng.normal(size=(n, FEATURES))
    if p.metric == "rmse":
        return x, p.signal * x @ direction + rng.normal(size=n)
    y = np.arange(n) % 3 == 0
    return x + p.signal * y[:, None] * direction, y.astype(int)


def _fold_of(dealt: list[tuple[np.ndarray, np.ndarray]], n: int) -> np.ndarray:
    fold = np.empty(n, int)
    for k, (_, test) in enumerate(dealt):
        fold[test] = k
    return fold


def _evaluated(
    p: Problem, model: tuple[str, bool], sites: list[Data], fresh: list[Data], dealt: list[Any]
) -> tuple[np.ndarray, np.ndarray]:
    """Outputs for the samples of all sites, out of fold, and the model's scores on fresh samples, [sites, folds]."""
    name, shared = model
    outputs, values = [[np.empty(0)] * len(y) for _, y in sites], np.empty((SITES, p.folds))
    for k in range(p.folds):
        parts = [(x[own[k][0]], y[own[k][0]]) for (x, y), own in zip(sites, dealt, strict=True)]
        together = [np.concatenate(each) for each in zip(*parts, strict=True)]
        common = MODELS[name]().fit(*together) if shared else None
        for i, (x, _) in enumerate(sites):
            fitted = common or MODELS[name]().fit(*parts[i])
            for row, out in zip(dealt[i][k][1], _outputs(fitted, x[dealt[i][k][1]]), strict=True):
                outputs[i][row] = out
            new, labels = fresh[i]
            score = scored(METRICS[p.metric](), [_once(labels, _outputs(fitted, new))])[0]
            values[i, k] = np.nan if score is None else score.values[0]
    return np.array([out for own in outputs for out in own]), values


def _outputs(fitted: Any, x: np.ndarray) -> np.ndarray:
    if hasattr(fitted, "predict_proba"):
        return np.log(np.clip(fitted.predict_proba(x), 1e-9, 1.0))
    return fitted.predict(x)[:, None]


def _once(labels: np.ndarray, outputs: np.ndarray) -> OutOfFold:
    return OutOfFold(_predictions(labels, outputs, 1), np.zeros(len(labels), int))


def _predictions(labels: np.ndarray, outputs: np.ndarray, sites: int) -> Predictions:
    return Predictions(outputs, labels, np.zeros(len(labels)), np.full(sites, len(labels) // sites))

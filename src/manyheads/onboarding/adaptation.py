"""How a new client's model is best fine-tuned: chosen by cross-validation on the client's own training samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from manyheads.baselines import Fold
from manyheads.onboarding.newcomer import Newcomer, Tuning

__all__ = ["adapted", "validated"]

FOLDS_FROM = 10_000
"""number of the first inner fold's model, by which random draws are told apart from those of the learning curve"""


def adapted(newcomer: Newcomer, tuning: Tuning, train: np.ndarray, folds: Sequence[Fold]) -> tuple[Tuning, np.ndarray]:
    """The fine-tuning to use, and the loss of every training sample by models that were tuned without it.

    A tuning that somebody chose is used. In place of the default: the best of head or whole model, and of all steps or a
    tenth of them, if it is better by more than a standard error.
    """
    found = [(one, validated(newcomer, one, train, folds)) for one in [tuning, *_others(tuning, len(train))]]
    usual = found[0]
    if not folds:
        return usual
    best = min(found, key=lambda pair: float(pair[1].mean()))
    if best is usual or not np.isfinite([usual[1], best[1]]).all():  # one that diverges is no better
        return best
    gain = usual[1] - best[1]
    return best if gain.mean() > gain.std(ddof=1) / len(gain) ** 0.5 else usual


def validated(newcomer: Newcomer, tuning: Tuning, train: np.ndarray, folds: Sequence[Fold]) -> np.ndarray:
    """The loss of every training sample that is in a fold; infinite where training diverged."""
    if not folds:
        return np.zeros(0)
    models, encodings = newcomer.tuned(tuning, [train[rows] for rows, _ in folds], first=FOLDS_FROM)
    found = newcomer.predictions(models, encodings, *(train[rows] for _, rows in folds)).losses
    return np.where(np.isfinite(found), found, np.inf)


def _others(tuning: Tuning, samples: int) -> list[Tuning]:
    if tuning.chosen_by != "default":
        return []
    usual = tuning.on(samples)
    scopes = dict.fromkeys([usual.scope, "all"])
    made = [replace(usual, scope=scope, steps=steps) for scope in scopes for steps in (usual.steps, usual.steps // 10)]
    return [Tuning(one, "validation") for one in made if one != usual]

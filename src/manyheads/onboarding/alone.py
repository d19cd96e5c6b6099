"""What a new client can do alone: simple models fitted to its own training samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from manyheads.baselines import BASELINES, Fold, losses
from manyheads.metrics import Predictions
from manyheads.onboarding.newcomer import Newcomer

__all__ = ["Alone", "AloneModel", "best_alone"]


class AloneModel(NamedTuple):
    """A baseline fitted to the training samples."""

    words: str
    """what it is"""
    held_out: Predictions
    """what it predicts for the held-out samples"""
    validation: float | None
    """its cross-validated loss on the training samples; None if they are too few"""


class Alone:
    """The baselines that can be used with a client's samples."""

    def __init__(self, newcomer: Newcomer, seed: int) -> None:
        self.newcomer, self.seed, encoding = newcomer, seed, newcomer.encoding
        like = np.zeros((1, *encoding.shape), encoding.dtype)
        made = {name: BASELINES[name]() for name in dict.fromkeys(["majority", *BASELINES])}
        self.baselines = {name: one for name, one in made.items() if one.unfit(encoding.task, like) is None}

    def models(self, train: np.ndarray, test: np.ndarray, folds: Sequence[Fold]) -> dict[str, AloneModel]:
        """All of them by name, fitted to the training rows; ``folds`` divide these."""
        found = {}
        for name, baseline in self.baselines.items():
            each = [self.predictions(name, train[own], train[rest]).losses for own, rest in folds]
            validation = float(np.concatenate(each).mean()) if each else None
            words = baseline.words(self.newcomer.encoding.task)
            found[name] = AloneModel(words, self.predictions(name, train, test), validation)
        return found

    def predictions(self, name: str, train: np.ndarray, test: np.ndarray) -> Predictions:
        """What a baseline fitted to some rows predicts for others."""
        new, encoding = self.newcomer, self.newcomer.encoding
        own = encoding.of_site(new.site.samples, train)
        x, inputs = (new.data([own], rows).x.flatten(1).cpu().numpy() for rows in (train, test))
        predict = self.baselines[name].fit(x, new.y[train], encoding.task, encoding.outputs, self.seed)
        outputs, y = predict(inputs), new.y[test]
        return Predictions(outputs, y, losses(outputs, y, encoding.task), np.array([len(test)]), encoding.target)


def best_alone(models: dict[str, AloneModel]) -> str | None:
    """The name of the one that validation favours; without any validation, none."""
    known = {name: model.validation for name, model in models.items() if model.validation is not None}
    return min(known, key=lambda name: known[name]) if known else None

"""The same answer for every sample."""

from __future__ import annotations

import numpy as np

from manyheads.baselines.baseline import BASELINES, Baseline, Predict
from manyheads.baselines.probabilities import log_probabilities
from manyheads.core.tasks import task_named

__all__ = ["Majority"]


@BASELINES.register
class Majority(Baseline):
    """The most frequent label (the probabilities are the labels' shares), the mean target, or the same risk for all.

    >>> predict = Majority().fit(np.zeros((4, 1)), np.array([0, 1, 1, 1]), "classification", outputs=2, seed=0)
    >>> np.exp(predict(np.zeros((1, 1)))).round(6).tolist()
    [[0.25, 0.75]]
    """

    name = "majority"
    title = "the most frequent label, or the mean"
    tasks = ("regression", "survival")

    def unfit(self, task: str, x: np.ndarray) -> str | None:
        return super().unfit(task, np.zeros(1))  # of any inputs

    def words(self, task: str) -> str:
        return {"regression": "the mean target", "survival": "the same risk for all"}.get(
            task, "the most frequent label"
        )

    def fit(
        self, x: np.ndarray, y: np.ndarray, task: str, outputs: int, seed: int, groups: np.ndarray | None = None
    ) -> Predict:
        if task_named(task).classes:
            seen, counts = np.unique(y, return_counts=True)
            answer = log_probabilities(counts[None] / len(y), seen, outputs, len(y))
        elif task == "regression":
            answer = y.reshape(len(y), -1).mean(axis=0, keepdims=True, dtype=np.float64)
        else:
            answer = np.zeros((1, outputs))
        return lambda inputs: np.repeat(answer, len(inputs), axis=0)

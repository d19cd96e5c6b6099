"""The outputs of clients' models for their samples: what metrics are computed from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

__all__ = ["Predictions"]


@dataclass(frozen=True)
class Predictions:
    """The outputs of models for the samples of some clients, client after client.

    >>> two = Predictions(np.eye(3), np.array([0, 1, 1]), np.zeros(3), np.array([1, 2]))
    >>> len(two), two.predicted.tolist(), two.client(1).labels.tolist()
    (2, [0, 1, 2], [1, 1])
    """

    outputs: np.ndarray
    """outputs of the models, [samples, outputs]"""
    labels: np.ndarray
    losses: np.ndarray
    """the loss of every sample, as the task reports it, [samples]"""
    sizes: np.ndarray
    """number of samples of each client"""
    target: tuple[float, float] = (0.0, 1.0)
    """mean and standard deviation by which the targets of a regression were scaled"""

    def __len__(self) -> int:
        """The number of clients."""
        return len(self.sizes)

    def client(self, index: int) -> Predictions:
        """The predictions for the samples of one client."""
        return self.take(slice(int(self._offsets[index]), int(self._offsets[index + 1])))

    def take(self, rows: slice | np.ndarray) -> Predictions:
        """The predictions for some samples, as those of one client."""
        labels = self.labels[rows]
        sizes = np.array([len(labels)])
        return replace(self, outputs=self.outputs[rows], labels=labels, losses=self.losses[rows], sizes=sizes)

    def clients(self, chosen: np.ndarray) -> Predictions:
        """The predictions for the samples of the clients that a mask chooses."""
        rows = np.repeat(chosen, self.sizes)
        own = {"outputs": self.outputs[rows], "labels": self.labels[rows], "losses": self.losses[rows]}
        return replace(self, sizes=self.sizes[chosen], **own)

    @cached_property
    def owner(self) -> np.ndarray:
        """The client of each sample, [samples]."""
        return np.repeat(np.arange(len(self)), self.sizes)

    @cached_property
    def _offsets(self) -> np.ndarray:
        return np.concatenate([[0], np.cumsum(self.sizes)])

    @property
    def predicted(self) -> np.ndarray:
        """For each sample, the class of the largest output."""
        return self.outputs.argmax(axis=1)

    @property
    def probabilities(self) -> np.ndarray:
        """The softmax of the outputs."""
        power = np.exp(self.outputs - self.outputs.max(axis=1, keepdims=True))
        return power / power.sum(axis=1, keepdims=True)

    @property
    def class_scores(self) -> dict[int, np.ndarray]:
        """How probable each class is found, by class: the log probability of it for every sample.

        With two classes of the second alone, the positive one, and the log odds in place of the log probability: they are in
        the same order, and tell samples apart of which the model is very sure.
        """
        outputs = self.outputs.astype(float)
        if outputs.shape[1] == 2:
            return {1: outputs[:, 1] - outputs[:, 0]}
        return dict(enumerate((outputs - np.logaddexp.reduce(outputs, axis=1, keepdims=True)).T))

    def against_rest(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """For each class that some of the samples have and some do not: its :attr:`class_scores`, and who has it."""
        classes = np.unique(self.labels)
        if len(classes) < 2:
            return []
        return [(scores, self.labels == c) for c, scores in self.class_scores.items() if c in classes]

    @property
    def values(self) -> np.ndarray:
        """What a regression predicts, in the target's own unit, [samples, targets]."""
        return self._in_unit(self.outputs)

    @property
    def targets(self) -> np.ndarray:
        """What a regression should predict, in the target's own unit, [samples, targets]."""
        return self._in_unit(self.labels)

    def _in_unit(self, scaled: np.ndarray) -> np.ndarray:
        mean, deviation = self.target
        return scaled.reshape(len(scaled), -1).astype(float) * deviation + mean

"""Baselines: models that a client fits to its own samples alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias

import numpy as np

from manyheads.core.errors import UserError
from manyheads.core.registry import Registry
from manyheads.core.tasks import task_named

__all__ = ["BASELINES", "Baseline", "Predict"]

Predict: TypeAlias = Callable[[np.ndarray], np.ndarray]
"""from inputs, [n, features], to outputs as a network's, [n, outputs]: log-probabilities of classes, or values"""


class Baseline(ABC):
    """A model that is tuned by inner cross-validation and fitted to the samples of one client.

    Registered in :data:`BASELINES`, it is one of the ways in which a client can do without the others.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    """what it is, in words"""
    tasks: ClassVar[tuple[str, ...]] = ("regression",)
    """names of the tasks that it is for, beside those with classes"""

    def words(self, task: str) -> str:
        """What it is for this task."""
        return self.title

    def unfit(self, task: str, x: np.ndarray) -> str | None:
        """Why it cannot be used for a task with such inputs, before :func:`~manyheads.baselines.flat_inputs`."""
        if np.issubdtype(x.dtype, np.integer) and x.dtype != np.uint8:
            return "inputs are tokens, not quantities"
        return None if task in self.tasks or task_named(task).classes else f"it is not for {task}"

    @abstractmethod
    def fit(
        self, x: np.ndarray, y: np.ndarray, task: str, outputs: int, seed: int, groups: np.ndarray | None = None
    ) -> Predict:
        """Tune and fit it to inputs [n, features]. Samples of one group are never on both sides of an inner fold.

        Classes that ``y`` lacks get a small probability, so that their log loss is finite.
        """


def _check(cls: Any) -> None:
    if not (isinstance(cls, type) and issubclass(cls, Baseline)):
        raise UserError(f"{cls!r} is no Baseline", fix="derive a class from manyheads.baselines.Baseline")
    if getattr(cls, "__abstractmethods__", None):
        raise UserError(f"{cls.__name__} does not say how it is fitted", fix="write its method fit")


BASELINES: Registry[type[Baseline]] = Registry("baseline", _check)

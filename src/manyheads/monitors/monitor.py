"""Monitors: quantities from theory that are recorded in the history of any run."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Container, Sequence

from torch import Tensor

from manyheads.core.contract import Algorithm
from manyheads.core.errors import UserError
from manyheads.core.quantities import Quantity, quantity_check
from manyheads.core.registry import Registry
from manyheads.core.round_end import RoundEnd
from manyheads.core.trees import State, Tree
from manyheads.data import Federation
from manyheads.models import TriedModel

__all__ = ["MONITORS", "Monitor", "Monitors", "leaves"]


class Monitor(Quantity, ABC):
    """A number after every round; registered in :data:`MONITORS`, it can be named in ``Training.monitor``.

    A monitor that cannot be used with the federation or the model raises a :class:`UserError` when it is made.
    """

    def __init__(self, algorithm: Algorithm, model: TriedModel, federation: Federation, seed: int) -> None:
        self.algorithm, self.model, self.federation, self.seed = algorithm, model, federation, seed

    @abstractmethod
    def __call__(self, end: RoundEnd) -> float | None:
        """The value after a round; None, or a :class:`UserError`, where it is not defined."""

    def body(self, server: State) -> Tree | None:
        """The representation that the server holds, if it holds a whole one."""
        algorithm, params = self.algorithm, self.model.params
        if "global" in algorithm.models:
            model = algorithm.global_model(server)
        else:
            own = algorithm.init_client(params)
            if leaves(own, params.body):
                return None
            model = algorithm.personal_model(server, own)
        return model.select(params.body) if model is not None and params.body else None


MONITORS: Registry[type[Monitor]] = Registry("monitor", quantity_check(Monitor, "__call__"))


class Monitors:
    """The monitors of a run. A quantity that is not defined for a method (which shares no body, say) is None."""

    def __init__(
        self, names: Sequence[str], algorithm: Algorithm, model: TriedModel, federation: Federation, seed: int
    ) -> None:
        found = {m.name: m for m in (MONITORS.find(name, where="monitor") for name in names)}
        self._monitors = [monitor(algorithm, model, federation, seed) for monitor in found.values()]
        self._module = model.module

    def __call__(self, end: RoundEnd) -> dict[str, float | None]:
        self._module.eval()  # what is compared is what predicts
        return {monitor.name: self._value(monitor, end) for monitor in self._monitors}

    @staticmethod
    def _value(monitor: Monitor, end: RoundEnd) -> float | None:
        try:
            value = monitor(end)
        except UserError:  # undefined, e.g. for constant features or a rank-deficient representation
            return None
        return value if value is not None and math.isfinite(value) else None


def leaves(state: State, names: Container[str]) -> dict[str, Tensor]:
    """The leaves of a state that are parameters with these names."""
    return {k: v for k, v in state.flat.items() if k.partition("/")[2] in names}

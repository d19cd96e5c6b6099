"""How much of the initial representation is left."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from torch import Tensor

from manyheads.core.randomness import Purpose, generator
from manyheads.core.round_end import RoundEnd
from manyheads.core.trees import Tree
from manyheads.engines.client_data import ClientData
from manyheads.metrics.representation import linear_cka
from manyheads.monitors.monitor import MONITORS, Monitor

__all__ = ["CKA"]

PROBES = 256
"""training samples on which representations are compared"""


@MONITORS.register
class CKA(Monitor):
    """Alignment of the shared representation with that of the initial model: 1 where nothing was learnt."""

    name = "cka"
    title = "CKA with the initial model"
    meaning = "how much of the initial representation is left: 1 where nothing was learnt"
    bounds = (None, 1.0)

    def __call__(self, end: RoundEnd) -> float | None:
        body = self.body(end.server)
        if body is None or self.model.head_net is None:
            return None
        now, before = (self.model.features(self.model.params.all | b, self._probes) for b in (body, Tree()))
        return linear_cka(now.flatten(1), before.flatten(1))

    @cached_property
    def _probes(self) -> Tensor:
        samples = self.federation.train
        rows = generator(self.seed, Purpose.SAMPLING).permutation(len(samples.y))[:PROBES]
        chosen = type(samples)(samples.x[np.sort(rows)], samples.y[np.sort(rows)], np.array([0, len(rows)]))
        like = next(iter(self.model.params.all.values()))
        return ClientData.of(chosen, self.federation.task, like, self.federation.scaling).x

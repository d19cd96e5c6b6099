"""Quantities of theory along any run, recorded in its history: what the representation and the heads are doing."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from torch import Tensor

from manyheads.core.contract import Algorithm
from manyheads.core.errors import UserError
from manyheads.core.randomness import Purpose, generator
from manyheads.core.trees import State, Tree
from manyheads.data import Federation
from manyheads.engines.client_data import ClientData
from manyheads.metrics.representation import linear_cka, principal_angle_distance
from manyheads.models import Model

__all__ = ["Monitor", "Monitors", "Seen"]

Monitor = Literal["principal_angle", "cka", "head_diversity", "drift"]
PROBES = 256
"""training samples on which representations are compared"""


@dataclass(frozen=True)
class Seen:
    """A round as a monitor sees it."""

    server: State
    """after the round"""
    uploads: State
    """of the round's clients, with a leading client dimension"""
    kept: State
    """what these clients keep, likewise"""


class Monitors:
    """The monitors of a run. A quantity that a method does not have (it shares no body, say) is None."""

    def __init__(
        self, names: Sequence[Monitor], algorithm: Algorithm, model: Model, federation: Federation, seed: int
    ) -> None:
        self._names, self._algorithm, self._model = names, algorithm, model
        self._federation, self._seed = federation, seed
        if "principal_angle" in names and (federation.truth is None or len(model.params.body) != 1):
            raise UserError(
                "the true representation is not known",
                where="monitor",
                given="principal_angle",
                fix="it is for --data linear-tasks with --model linear; use cka for others",
            )

    def __call__(self, seen: Seen) -> dict[str, float | None]:
        return {name: self._value(name, seen) for name in self._names}

    def _value(self, name: Monitor, seen: Seen) -> float | None:
        try:
            return getattr(self, f"_{name}")(seen)
        except UserError:  # undefined here: features that do not vary, a representation of lower rank
            return None

    def _principal_angle(self, seen: Seen) -> float | None:
        """Distance of the shared representation from the true one: the sine of the largest angle, Definition 1."""
        body = self._body(seen.server)
        if body is None:
            return None
        (weight,) = body.values()
        assert self._federation.truth is not None
        return principal_angle_distance(weight.T.double(), self._federation.truth)

    def _cka(self, seen: Seen) -> float | None:
        """Alignment of the shared representation with that of the initial model: 1 where nothing was learnt."""
        body = self._body(seen.server)
        if body is None or self._model.head_net is None:
            return None
        now, before = (self._model.features(self._model.params.all | b, self._probes) for b in (body, Tree()))
        return linear_cka(now.flatten(1), before.flatten(1))

    def _head_diversity(self, seen: Seen) -> float | None:
        """How evenly the clients' heads spread over the directions of the representation.

        Of the weights' deviations from their mean over clients, with covariance S of k dimensions:
        ``(tr S)^2 / (k tr S^2)``, 1 if all directions are used alike, 1/k if one is.
        """
        names = self._model.params.head
        leaves = _leaves(seen.kept, names) or _leaves(seen.uploads, names)
        weights = [w.double() for w in leaves.values() if w.ndim == 3 and len(w) > 1]  # [C, outputs, k]
        if not weights:
            return None
        rows = (weights[-1] - weights[-1].mean(dim=0)).flatten(0, 1)
        S = rows.T @ rows
        square = float((S * S).sum())
        return float(S.trace()) ** 2 / (len(S) * square) if square else None

    def _drift(self, seen: Seen) -> float | None:
        """Root mean square distance of the round's uploads from their mean, relative to the server's state."""
        server = seen.server.flat
        leaves = {k: v.double() for k, v in seen.uploads.flat.items() if k in server and v.is_floating_point()}
        if not leaves or len(next(iter(leaves.values()))) < 2:
            return None
        spread = sum(float((v - v.mean(dim=0)).square().sum()) / len(v) for v in leaves.values())
        size = sum(float(server[k].double().square().sum()) for k in leaves)
        return (spread / size) ** 0.5 if size else None

    def _body(self, server: State) -> Tree | None:
        """The representation that the server holds, if it holds a whole one."""
        algorithm, params = self._algorithm, self._model.params
        if "global" in algorithm.models:
            model = algorithm.global_model(server)
        else:
            own = algorithm.init_client(params)
            if _leaves(own, params.body):
                return None
            model = algorithm.personal_model(server, own)
        return model.select(params.body) if model is not None and params.body else None

    @cached_property
    def _probes(self) -> Tensor:
        samples = self._federation.train
        rows = generator(self._seed, Purpose.SAMPLING).permutation(len(samples.y))[:PROBES]
        chosen = type(samples)(samples.x[np.sort(rows)], samples.y[np.sort(rows)], np.array([0, len(rows)]))
        like = next(iter(self._model.params.all.values()))
        return ClientData.of(chosen, self._federation.task, like, self._federation.scaling).x


def _leaves(state: State, names: Container[str]) -> dict[str, Tensor]:
    """Those leaves of a state that are parameters of these names."""
    return {k: v for k, v in state.flat.items() if k.partition("/")[2] in names}

"""What one worker does: local training, or evaluation, of a chunk of clients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np
import torch

from manyheads.core.contract import Algorithm, ModelKind, Round, check_upload, finite_clients
from manyheads.core.errors import UserError
from manyheads.core.optim import FineTune
from manyheads.core.randomness import Purpose
from manyheads.core.trees import State, Tree
from manyheads.data import Federation, Samples
from manyheads.engines.client_data import ClientData
from manyheads.engines.cohort import LocalCohort, Mode, fine_tuned
from manyheads.engines.evaluation import Outcomes, Scores, evaluate
from manyheads.models import Model

__all__ = ["LOCAL", "Evaluation", "Trained", "Workbench", "model_of"]

LOCAL = "local model"
"""entry of a personal state under which the model after the last local update is kept, if the protocol asks for it"""


@dataclass(frozen=True)
class Trained:
    """Local training of a chunk. Rows of ``upload`` are clients, or one for all if the chunk was pooled."""

    clients: list[int]
    weights: np.ndarray
    upload: State
    client: State
    train_loss: np.ndarray
    bad: dict[int, str]
    """position in the chunk of clients whose result cannot be used, and why"""


@dataclass(frozen=True)
class Evaluation:
    """Which model of which clients is scored on which samples."""

    kind: ModelKind
    tune: FineTune
    split: Literal["test", "validation"]
    new: bool
    """the new clients, instead of those of the training"""


class Workbench:
    """An algorithm, a model and the data, ready to work on clients of any round."""

    def __init__(
        self, algorithm: Algorithm, model: Model, federation: Federation, mode: Mode, device: str, keep_local: bool
    ) -> None:
        self.algorithm, self.model, self.federation, self.mode = algorithm, model, federation, mode
        self.device = torch.device(device)
        self.keep_local = keep_local
        model.module.to(self.device)

    def _data(self, samples: Samples, clients: Sequence[int], augment: bool = False) -> ClientData:
        like = next(iter(self.model.params.all.values())).to(self.device)
        return ClientData.of(samples.select(clients), self.federation.task, like, self.federation.scaling, augment)

    def train(
        self, round: Round, clients: list[int], weights: np.ndarray, download: State, client: State, expected: State
    ) -> Trained:
        """Local training. ``download`` holds what was sent to all and, with a client dimension, to each."""
        download, client = (s.map(lambda v: v.to(self.device)) for s in (download, client))
        data = self._data(self.federation.train, clients, self.federation.augment)
        if self.algorithm.pooled and self.mode != "loop":
            cohort = LocalCohort(self.model, data, clients, round, self.mode, pooled=torch.from_numpy(weights))
            update = self.algorithm.local(cohort, download, client)
            if finite_clients(update.upload, 1).all():
                check_upload(update.upload, expected, 1)
                total = weights.sum(keepdims=True)
                return Trained(clients, total, _home(update.upload), State(), cohort.train_loss[:1], {})
        cohort = LocalCohort(self.model, data, clients, round, self.mode)
        update = self.algorithm.local(cohort, download, client)
        kept = update.client | self._local_model(update.model)
        bad = self._faults(update.upload, kept, expected, weights)
        return Trained(clients, weights, _home(update.upload), _home(kept), cohort.train_loss, bad)

    def _local_model(self, model: Tree | None) -> State:
        return State(**{LOCAL: model}) if self.keep_local and model is not None else State()

    def _faults(self, upload: State, kept: State, expected: State, weights: np.ndarray) -> dict[int, str]:
        try:
            check_upload(upload, expected, len(weights))
        except UserError as error:
            return dict.fromkeys(range(len(weights)), str(error))
        both = State(upload=Tree(upload.flat), kept=Tree(kept.flat))
        # a sum is finite only if all its terms are: one pass over the values instead of four, if nothing is wrong
        sums = both.map(lambda v: v.reshape(len(v), -1).sum(dim=1))
        finite = finite_clients(sums, len(weights))
        if not finite.all():
            finite = finite_clients(both, len(weights))
        faults = dict.fromkeys(np.flatnonzero(~finite.numpy()).tolist(), "values are not finite")
        unfit = np.flatnonzero(~(np.isfinite(weights) & (weights > 0)))
        return faults | {i: f"weight {weights[i]} is not a positive number" for i in unfit.tolist()}

    def evaluate(self, round: Round, clients: list[int], what: Evaluation, server: State, client: State) -> Scores:
        """Score clients of the federation, or of its new clients, after fine-tuning if that is asked for."""
        return self.outcomes(round, clients, what, server, client).sums()

    def outcomes(self, round: Round, clients: list[int], what: Evaluation, server: State, client: State) -> Outcomes:
        """The same, sample by sample."""
        server, client = (s.map(lambda v: v.to(self.device)) for s in (server, client))
        params = model_of(self.algorithm, what.kind, server, client)
        federation = self.federation
        if what.new:
            assert self.federation.new is not None
            federation = self.federation.new
        if what.tune.scope != "none":
            data = self._data(federation.train, clients, federation.augment)
            names = [c + round.population for c in clients] if what.new else clients  # draws of their own
            cohort = LocalCohort(self.model, data, names, round, self.mode, purpose=Purpose.FINETUNE)
            params = fine_tuned(cohort, self.model, params, what.tune)
        return evaluate(self.model, params, self._data(getattr(federation, what.split), clients), self.mode)


def model_of(algorithm: Algorithm, kind: ModelKind, server: State, client: State) -> Tree:
    """The model a client has under a protocol; an error if the method knows no such model."""
    if kind not in algorithm.models:
        raise UserError(
            f"{algorithm.name} has no such model",
            where="evaluate.model",
            given=kind,
            allowed=", ".join(algorithm.models),
        )
    if kind == "local":
        return cast("Tree", client[LOCAL])
    found = algorithm.global_model(server) if kind == "global" else algorithm.personal_model(server, client)
    assert found is not None, f"{algorithm.name} announces a {kind} model and gives none"
    return found


def _home(state: State) -> State:
    return state.map(lambda v: v.detach().cpu())

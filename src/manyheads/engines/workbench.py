"""What one worker does: local training, or evaluation, of a chunk of clients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, cast

import numpy as np
import torch

from manyheads.core.contract import Algorithm, ModelKind, Round, check_upload, finite_clients, weighted_mean
from manyheads.core.errors import UserError
from manyheads.core.optim import FineTune
from manyheads.core.randomness import Purpose
from manyheads.core.trees import State, Tree
from manyheads.data import Federation, Samples
from manyheads.engines.client_data import ClientData
from manyheads.engines.cohort import LocalCohort, Mode, fine_tuned
from manyheads.engines.evaluation import Outcomes, Scores, evaluate
from manyheads.models import Model

__all__ = ["LOCAL", "Evaluation", "Keep", "Trained", "Workbench", "average", "model_of"]

LOCAL = "local model"
"""entry of a personal state under which the model after the last local update is kept, if the protocol asks for it"""


class Keep(NamedTuple):
    """What is wanted of local training beside what the method itself needs."""

    local: bool = False
    """the model after the last local update, as part of the personal state"""
    each: bool = False
    """every client's upload, not only their mean"""


@dataclass(frozen=True)
class Trained:
    """Local training of a chunk. All but ``clients`` and ``losses`` are of those whose results can be used."""

    clients: list[int]
    losses: np.ndarray
    """in training, of each client, or one for all if the chunk was pooled"""
    bad: dict[int, str]
    """clients whose results cannot be used, and why"""
    good: list[int]
    weights: np.ndarray
    upload: State | None
    """one row a client, or a single one, their weighted mean; None if there is no client"""
    client: State


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
        self,
        algorithm: Algorithm,
        model: Model,
        federation: Federation,
        mode: Mode,
        device: str,
        keep: Keep,
    ) -> None:
        self.algorithm, self.model, self.federation, self.mode = algorithm, model, federation, mode
        self.device = torch.device(device)
        self.keep = keep
        model.module.to(self.device)

    def _data(self, samples: Samples, clients: Sequence[int], augment: bool = False) -> ClientData:
        like = next(iter(self.model.params.all.values())).to(self.device)
        return ClientData.of(samples.select(clients), self.federation.task, like, self.federation.scaling, augment)

    def train(
        self,
        round: Round,
        shared: State,
        expected: State,
        clients: list[int],
        weights: np.ndarray,
        own: State,
        client: State,
    ) -> Trained:
        """Local training, from what was sent to all (``shared``) and, with a client dimension, to each (``own``)."""
        download, client = (s.map(lambda v: v.to(self.device)) for s in (shared | own, client))
        data = self._data(self.federation.train, clients, self.federation.augment)
        if self.algorithm.pooled and self.mode != "loop" and not self.model.mixes:
            cohort = LocalCohort(self.model, data, clients, round, self.mode, pooled=torch.from_numpy(weights))
            update = self.algorithm.local(cohort, download, client)
            if finite_clients(update.upload, 1).all():
                check_upload(update.upload, expected, 1)
                return Trained(clients, cohort.train_loss[:1], {}, clients, weights, _home(update.upload), State())
        cohort = LocalCohort(self.model, data, clients, round, self.mode)
        update = self.algorithm.local(cohort, download, client)
        upload, kept = update.upload, update.client | self._local_model(update.model)
        bad = self._faults(upload, kept, expected, weights)
        good = [i for i in range(len(clients)) if i not in bad]
        if bad:
            upload, kept = (s.map(lambda v: v[good]) for s in (upload, kept))
            weights = weights[good]
        if good and not self.keep.each:
            upload = average(upload, weights)
        return Trained(
            clients,
            cohort.train_loss,
            {clients[i]: why for i, why in bad.items()},
            [clients[i] for i in good],
            weights,
            _home(upload) if good else None,
            _home(kept),
        )

    def _local_model(self, model: Tree | None) -> State:
        return State(**{LOCAL: model}) if self.keep.local and model is not None else State()

    def _faults(self, upload: State, kept: State, expected: State, weights: np.ndarray) -> dict[int, str]:
        """Positions of clients whose results cannot be used, and why."""
        try:
            check_upload(upload, expected, len(weights))
        except UserError as error:
            return dict.fromkeys(range(len(weights)), str(error))
        finite = finite_clients(upload, len(weights)) & finite_clients(kept, len(weights))
        faults = dict.fromkeys(np.flatnonzero(~finite.numpy()).tolist(), "values are not finite")
        unfit = np.flatnonzero(~(np.isfinite(weights) & (weights > 0)))
        return faults | {i: f"weight {weights[i]} is not a positive number" for i in unfit.tolist()}

    def evaluate(self, round: Round, what: Evaluation, server: State, clients: list[int], client: State) -> Scores:
        """Score clients of the federation, or of its new clients, after fine-tuning if that is asked for."""
        return self.outcomes(round, what, server, clients, client).sums()

    def outcomes(self, round: Round, what: Evaluation, server: State, clients: list[int], client: State) -> Outcomes:
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


def average(upload: State, weights: np.ndarray) -> State:
    """A single row: the weighted mean of the clients' uploads, which may have been averaged already."""
    if all(len(v) == 1 for v in upload.flat.values()):
        return upload
    return weighted_mean(upload, torch.from_numpy(weights)).map(lambda v: v.unsqueeze(0))


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

"""IFCA: a few models, and every client trains the one that fits its data best."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from manyheads.core.contract import Algorithm, Cohort, ModelKind, Round, Update, Uploads, register
from manyheads.core.fields import BatchSize, Epochs, Steps
from manyheads.core.optim import SGD
from manyheads.core.settings import settings
from manyheads.core.trees import Params, State, Tree

__all__ = ["IFCA"]


@register
@settings
class IFCA(Algorithm):
    """Iterative federated clustering: k models, of which each client trains the one with the least loss on its samples.

    ``j_i <- argmin_j f_i(w_j)``, ``w~_i <- SGD(f_i, w_{j_i})``, ``w_j <- mean of w~_i over the clients with j_i = j``.

    >>> from manyheads import IFCA, simulate
    >>> from manyheads.data import Classes, Digits, federate
    >>> federation = federate(Digits().pool(seed=0), Classes(3), clients=5, seed=0)
    >>> simulate(IFCA(clusters=2), "mlp", federation, rounds=1).rounds
    1

    Reference: Ghosh, Chung, Yin, Ramchandran, An Efficient Framework for Clustered Federated Learning, NeurIPS 2020,
    Algorithm 1, with model averaging.
    """

    name: ClassVar[str] = "ifca"
    paper: ClassVar[str] = "Ghosh et al. 2020, Algorithm 1"
    travels: ClassVar[str] = "all clusters' models down, one model and its cluster up"
    stays: ClassVar[str] = "which cluster it is in, which the server learns too"
    models: ClassVar[tuple[ModelKind, ...]] = ("personal", "local")
    weighting: ClassVar[Literal["samples", "equal"]] = "equal"
    reads_each: ClassVar[bool] = True
    knobs: ClassVar[Mapping[str, tuple[Any, ...]]] = {"clusters": (1, 2, 3, 5)}

    clusters: Annotated[int, Field(ge=1)] = 2
    """number of models, k"""
    epochs: Epochs = 1
    steps: Steps = 0
    batch: BatchSize = 10
    sgd: SGD = SGD()

    def init_server(self, params: Params, population: int) -> State:
        others = range(1, self.clusters)
        return State(models=params.all.map(lambda v: torch.stack([v, *(another(v, j) for j in others)])))

    def init_client(self, params: Params) -> State:
        return State(cluster=torch.tensor(0))

    def expects(self, server: State, round: Round) -> State:
        return State(model=server.models.map(lambda v: v[0]), cluster=torch.tensor(0))

    def settled(self, cohort: Cohort, server: State, client: State) -> State:
        # j_i <- argmin_j F_i(theta_j); a model that is not finite is nobody's
        each = [cohort.losses(server.models.map(lambda v: v[j])) for j in range(self.clusters)]  # noqa: B023
        return State(cluster=torch.stack(each).nan_to_num(nan=torch.inf).argmin(dim=0))

    def local(self, cohort: Cohort, server: State, client: State) -> Update:
        chosen = self.settled(cohort, server, client)
        start = server.models.map(lambda v: v[chosen.cluster])
        model = cohort.sgd(start, opt=self.sgd, batch=self.batch, epochs=self.epochs, steps=self.steps)
        return Update(State(model=model) | chosen, chosen, model=model)

    def merge(self, server: State, uploads: Uploads, round: Round) -> State:
        clusters_K = torch.arange(self.clusters)
        part_CK = (uploads.values.cluster[:, None] == clusters_K) * uploads.weights[:, None]
        total_K = part_CK.sum(dim=0)

        def merged(old: Tensor, new: Tensor) -> Tensor:
            means = torch.tensordot((part_CK / total_K.clamp(min=1e-300)).T.to(new.dtype), new, dims=1)
            return torch.where((total_K > 0).view(-1, *[1] * (old.ndim - 1)), means, old)  # empty: stays as it was

        return State(models=server.models.map(merged, uploads.values.model))

    def personal_model(self, server: State, client: State) -> Tree:
        return server.models.map(lambda v: v[client.cluster])


def another(leaf: Tensor, number: int) -> Tensor:
    """The entries of a leaf in another order: initial weights that are as likely as the given ones."""
    order = torch.randperm(leaf.numel(), generator=torch.Generator().manual_seed(number))
    return leaf.flatten()[order.to(leaf.device)].view_as(leaf)

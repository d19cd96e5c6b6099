"""Fed-MTL: a model for each client, and a matrix of how they are related."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from manyheads.core.contract import Algorithm, Cohort, ModelKind, Round, Update, Uploads, register
from manyheads.core.fields import BatchSize, Epochs, Steps
from manyheads.core.optim import SGD
from manyheads.core.settings import settings
from manyheads.core.trees import Params, State, Tree

__all__ = ["FedMTL"]


@register
@settings
class FedMTL(Algorithm):
    """Multi-task learning: ``min sum_i f_i(w_i) + lam tr(W Omega W^T)``, W the clients' models, Omega their relations.

    Clients: ``w_i <- w_i - lr (grad f_i(w_i) + 2 lam sum_j Omega_ij w_j)``, the others' part being sent by the server.
    Server: Omega in closed form. ``learned``: the best covariance of trace one is ``S = (W^T W)^(1/2) / tr``, and
    ``Omega = ((1 - ridge) S + ridge I/N)^-1 / N``; ``mean``: ``Omega = I - 11^T/N``, which draws all to their mean.
    The server holds N models and an N x N matrix: for N clients of P parameters, 4 N (P + N) bytes.

    >>> from manyheads import FedMTL, simulate
    >>> from manyheads.data import Classes, Digits, federate
    >>> federation = federate(Digits().pool(seed=0), Classes(3), clients=5, seed=0)
    >>> simulate(FedMTL(), "mlp", federation, rounds=1).rounds
    1

    Reference: Smith, Chiang, Sanjabi, Talwalkar, Federated Multi-Task Learning, NeurIPS 2017, equation (1), with the
    update of Zhang, Yeung, A Convex Formulation for Learning Task Relationships in Multi-Task Learning, UAI 2010.
    """

    name: ClassVar[str] = "fedmtl"
    paper: ClassVar[str] = "Smith et al. 2017"
    travels: ClassVar[str] = "the client's model up, the pull of the related ones down"
    stays: ClassVar[str] = "nothing but the data: the server knows every client's model"
    models: ClassVar[tuple[ModelKind, ...]] = ("personal", "local")
    reads_each: ClassVar[bool] = True
    knobs: ClassVar[Mapping[str, tuple[Any, ...]]] = {"lam": (0.001, 0.01, 0.1)}

    epochs: Epochs = 1
    steps: Steps = 0
    batch: BatchSize = 10
    sgd: SGD = SGD()
    lam: Annotated[float, Field(ge=0)] = 0.01
    """weight of the relations"""
    relations: Literal["learned", "mean"] = "learned"
    """Omega: learned from the models, or the one that draws all to their mean"""
    ridge: Annotated[float, Field(gt=0, le=1)] = 0.1
    """keeps Omega's eigenvalues below 1 / ridge"""

    def init_server(self, params: Params, population: int) -> State:
        models = params.all.map(lambda v: v.expand(population, *v.shape).clone())
        eye = torch.eye(population)
        return State(models=models, omega=eye if self.relations == "learned" else eye - 1 / population)

    def init_client(self, params: Params) -> State:
        return State(model=params.all)

    def newcomer(self, params: Params, server: State) -> State:
        return State(model=server.models.map(lambda v: v.mean(dim=0)))

    def download(self, server: State, round: Round) -> State:
        return State()

    def download_each(self, server: State, clients: Sequence[int], round: Round) -> State:
        rows = server.omega[clients]
        own = rows[torch.arange(len(clients)), clients].clamp(min=1e-12)  # 0 for a client alone
        others = rows.clone()
        others[torch.arange(len(clients)), clients] = 0
        # lam tr(W Omega W^T) pulls w_i to -sum_{j != i} Omega_ij w_j / Omega_ii with strength 2 lam Omega_ii
        pull = server.models.map(lambda v: -torch.tensordot((others / own[:, None]).to(v.dtype), v, dims=1))
        return State(anchor=pull, strength=2 * self.lam * own)

    def expects(self, server: State, round: Round) -> State:
        return State(model=server.models.map(lambda v: v[0]))

    def local(self, cohort: Cohort, server: State, client: State) -> Update:
        related = (server.strength, server.anchor)
        model = cohort.sgd(
            client.model, prox=related, opt=self.sgd, batch=self.batch, epochs=self.epochs, steps=self.steps
        )
        return Update(State(model=model), State(model=model), model=model)

    def merge(self, server: State, uploads: Uploads, round: Round) -> State:
        rows = torch.tensor(uploads.clients)
        models = server.models.map(lambda all, new: all.index_copy(0, rows, new), uploads.values.model)
        return State(models=models, omega=self.omega(models) if self.relations == "learned" else server.omega)

    def omega(self, models: Tree) -> Tensor:
        """The relations in closed form, from the Gram matrix of the models."""
        gram = sum((v.double().flatten(1) @ v.double().flatten(1).T for v in models.values()), torch.tensor(0.0))
        values, vectors = torch.linalg.eigh(gram)
        root = values.clamp(min=0).sqrt()
        spectrum = (1 - self.ridge) * root / root.sum().clamp(min=1e-300) + self.ridge / len(gram)
        return (vectors @ (vectors / (len(gram) * spectrum)).T).float()

    def for_models(self, server: State) -> State:
        return State()  # its own model is the client's; the others' are not for it

    def personal_model(self, server: State, client: State) -> Tree:
        return client.model

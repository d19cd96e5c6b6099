"""FedRep: a shared representation, a head for each client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from manyheads.core.contract import Algorithm, Cohort, ModelKind, Update, register
from manyheads.core.fields import BatchSize
from manyheads.core.optim import SGD
from manyheads.core.server import Server
from manyheads.core.settings import settings
from manyheads.core.trees import Params, State, Tree

__all__ = ["FedRep"]


@register
@settings
class FedRep(Algorithm):
    """One shared representation, a head per client: many cheap head updates, then an update of the representation.

    ``h_i <- SGD(f_i(., phi), h_i)`` for ``head_epochs``, then ``phi_i <- SGD(f_i(h_i, .), phi)``, ``phi <- mean phi_i``.

    >>> from manyheads import FedRep, simulate
    >>> from manyheads.data import Classes, Digits, federate
    >>> federation = federate(Digits().pool(seed=0), Classes(3), clients=5, seed=0)
    >>> run = simulate(FedRep(head_epochs=2), "mlp", federation, rounds=1)
    >>> sorted(run.client_model(3)) == sorted(run.model.params.all)
    True

    Reference: Collins, Hassani, Mokhtari, Shakkottai, Exploiting Shared Representations for Personalized Federated
    Learning, ICML 2021, Algorithm 1.
    """

    name: ClassVar[str] = "fedrep"
    paper: ClassVar[str] = "Collins et al. 2021, Algorithm 1"
    travels: ClassVar[str] = "the body"
    stays: ClassVar[str] = "the head"
    weighting: ClassVar[Literal["samples", "equal"]] = "equal"
    models: ClassVar[tuple[ModelKind, ...]] = ("personal", "local")
    knobs: ClassVar[Mapping[str, tuple[Any, ...]]] = {"head_epochs": (1, 3, 10, 30)}
    averaged: ClassVar[tuple[str, ...]] = ("body",)

    head_epochs: Annotated[int, Field(ge=0)] = 10
    """local epochs on the head, the paper's tau"""
    body_epochs: Annotated[int, Field(ge=1)] = 1
    """local epochs on the representation"""
    body_steps: Annotated[int, Field(ge=0)] = 0
    """local steps on the representation; if not 0, instead of epochs"""
    batch: BatchSize = 10
    sgd: SGD = SGD()
    server: Server = None

    def init_server(self, params: Params, population: int) -> State:
        return State(body=params.body)

    def init_client(self, params: Params) -> State:
        return State(head=params.head)

    def local(self, cohort: Cohort, server: State, client: State) -> Update:
        # h_i <- GRD(f_i(h_i, phi), h_i), tau times
        head = cohort.sgd(client.head, given=server.body, opt=self.sgd, batch=self.batch, epochs=self.head_epochs)
        # phi_i <- GRD(f_i(h_i, phi), phi)
        body = cohort.sgd(
            server.body, given=head, opt=self.sgd, batch=self.batch, epochs=self.body_epochs, steps=self.body_steps
        )
        return Update(State(body=body), State(head=head), model=body | head)

    def personal_model(self, server: State, client: State) -> Tree:
        return server.body | client.head

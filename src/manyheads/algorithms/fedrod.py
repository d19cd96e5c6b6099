"""FedRoD: a generic head for all classes, and a personal one on top of it for each client's own."""

from __future__ import annotations

from typing import ClassVar

import torch

from manyheads.core.contract import Algorithm, Cohort, ModelKind, Update, register
from manyheads.core.errors import UserError
from manyheads.core.fields import BatchSize, Epochs, Steps
from manyheads.core.heads import linear_weight
from manyheads.core.optim import SGD
from manyheads.core.server import Server
from manyheads.core.settings import settings
from manyheads.core.trees import Params, State, Tree

__all__ = ["FedRoD"]

ABSENT = -1e4
"""stands for log 0: a class that a client does not have gets no probability, and so no gradient"""


@register
@settings
class FedRoD(Algorithm):
    """Robust decoupling: two heads on one body, whose outputs are added for a client's own predictions.

    The personal head p_i is trained by the cross entropy of ``g(z) + p_i(z)``, all else frozen. Body phi and generic head
    g are trained by the balanced softmax, the cross entropy of ``g(z) + log n_i``, n_i the client's counts of each class,
    so that no client's label frequencies enter them, and averaged by samples.

    >>> from manyheads import FedRoD, simulate
    >>> from manyheads.data import Classes, Digits, federate
    >>> federation = federate(Digits().pool(seed=0), Classes(3), clients=5, seed=0)
    >>> simulate(FedRoD(), "mlp", federation, rounds=1).rounds
    1

    Reference: Chen, Chao, On Bridging Generic and Personalized Federated Learning for Image Classification, ICLR 2022.
    """

    name: ClassVar[str] = "fedrod"
    paper: ClassVar[str] = "Chen and Chao 2022"
    travels: ClassVar[str] = "the body and the generic head"
    stays: ClassVar[str] = "the personal head"
    models: ClassVar[tuple[ModelKind, ...]] = ("personal", "global", "local")
    averaged: ClassVar[tuple[str, ...]] = ("body", "head")

    epochs: Epochs = 1
    steps: Steps = 0
    batch: BatchSize = 10
    sgd: SGD = SGD()
    server: Server = None

    def init_server(self, params: Params, population: int) -> State:
        linear_weight(params.head, "fedrod adds the outputs of two heads")
        return State(body=params.body, head=params.head)

    def init_client(self, params: Params) -> State:
        return State(head=0.0 * params.head)

    def local(self, cohort: Cohort, server: State, client: State) -> Update:
        # p_i by the cross entropy of g(z) + p_i(z), which is the output of one linear layer, g + p_i
        added = cohort.sgd(
            server.head + client.head,
            given=server.body,
            opt=self.sgd,
            batch=self.batch,
            epochs=self.epochs,
            steps=self.steps,
        )
        own = added - server.head
        # phi_i, g_i by the cross entropy of g(z) + log n_i: added to the bias of g, it is added to the outputs
        start = cohort.each(server.head)
        shift, present = self.log_counts(cohort, start)
        both = server.body | (start + shift)
        both = cohort.sgd(both, opt=self.sgd, batch=self.batch, epochs=self.epochs, steps=self.steps)
        body, moved = both.select(server.body), both.select(server.head) - shift
        head = moved.map(lambda new, old, seen: torch.where(seen, new, old), start, present)
        return Update(State(body=body, head=head), State(head=own), model=body | (head + own))

    def log_counts(self, cohort: Cohort, head: Tree) -> tuple[Tree, Tree]:
        """log n_i in place of the bias of each client's head, zeros elsewhere; and which entries have samples."""
        zeros, present = head.map(torch.zeros_like), head.map(lambda v: torch.ones_like(v, dtype=torch.bool))
        counts_CK = cohort.class_counts(next(v.shape[1] for v in head.values() if v.ndim == 3))
        if counts_CK is None:  # no classes, nothing to balance
            return zeros, present
        bias = next((name for name, v in head.items() if v.ndim == 2), None)
        if bias is None:
            raise UserError("fedrod balances classes by the bias of the head, and this head has none")
        logs_CK = counts_CK.log().clamp(min=ABSENT).to(zeros[bias])
        return zeros | {bias: logs_CK}, present | {bias: counts_CK > 0}

    def global_model(self, server: State) -> Tree:
        return server.body | server.head

    def personal_model(self, server: State, client: State) -> Tree:
        return server.body | (server.head + client.head)

"""FedRep for linear regression: exact heads, and a start by the method of moments."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from manyheads.core.contract import Algorithm, Cohort, ModelKind, Round, Update, Uploads, register
from manyheads.core.errors import UserError
from manyheads.core.fields import BatchSize, Rate
from manyheads.core.settings import settings
from manyheads.core.trees import Params, State, Tree

__all__ = ["FedRepLinear"]


@register
@settings
class FedRepLinear(Algorithm):
    """FedRep on ``y = w_i^T B^T x``: least squares for the head, one gradient step for the representation.

    First, if ``start`` is moments, all clients send ``Z_i = 1/m sum y^2 x x^T`` and B is set to the top k eigenvectors
    of their mean: this is round 1. Then, on a fresh batch, ``w_i <- argmin f_i(w, B)``,
    ``B_i <- B - eta grad_B f_i(w_i, B)``, ``B <- mean B_i``. With ``head_steps``, that many gradient steps of ``head_lr``
    stand in for the exact head: 1 gives GD-GD, 10 gives 10GD-GD.

    >>> from manyheads import FedRepLinear, simulate
    >>> from manyheads.data import LinearTasks
    >>> simulate(FedRepLinear(), "linear", LinearTasks(clients=30).federation(seed=0), rounds=2).rounds
    2

    Reference: Collins, Hassani, Mokhtari, Shakkottai, Exploiting Shared Representations for Personalized Federated
    Learning, ICML 2021, Algorithm 2.
    """

    name: ClassVar[str] = "fedrep-linear"
    paper: ClassVar[str] = "Collins et al. 2021, Algorithm 2"
    travels: ClassVar[str] = "the representation B; in the first round the clients' moments"
    stays: ClassVar[str] = "the head w_i"
    models: ClassVar[tuple[ModelKind, ...]] = ("personal", "local")
    weighting: ClassVar[Literal["samples", "equal"]] = "equal"

    eta: Rate = 0.1
    batch: BatchSize = 0
    start: Literal["moments", "given"] = "moments"
    """initial B: by the method of moments, or as in the given model"""
    head_steps: Annotated[int, Field(ge=0)] = 0
    """gradient steps on the head; 0: exact least squares"""
    head_lr: Rate = 0.1

    def everyone(self, round: int) -> bool:
        return self.starts(round)

    def starts(self, round: int) -> bool:
        return self.start == "moments" and round == 1

    def init_server(self, params: Params, population: int) -> State:
        shapes = [tuple(v.shape) for v in params.all.values()]
        if len(shapes) != 2 or len(params.head) != 1 or shapes[1] != (1, shapes[0][0]):
            raise UserError(
                "fedrep-linear needs the linear model y = w^T B^T x", given=f"parameters of shapes {shapes}",
                allowed="[(k, d), (1, k)]", fix="--model linear, on a regression with one target",
            )  # fmt: skip
        return State(body=params.body)

    def init_client(self, params: Params) -> State:
        return State(head=params.head)

    def expects(self, server: State, round: Round) -> State:
        if not self.starts(round.index):
            return server
        (weight,) = server.body.values()
        return State(moments=weight.new_zeros(weight.shape[1], weight.shape[1]))

    def local(self, cohort: Cohort, server: State, client: State) -> Update:
        batch = cohort.draw(self.batch)
        x_CMD, y_CM, share_CM = batch.x, batch.y.flatten(1), batch.weight  # C clients, M samples, D inputs, K features
        if self.starts(cohort.round.index):
            moments = torch.einsum("cm,cmd,cme->cde", share_CM * y_CM.square(), x_CMD, x_CMD)
            return Update(State(moments=moments), client, model=cohort.each(server.body) | client.head)
        ((body_name, body_KD),), ((head_name, head_C1K),) = server.body.items(), client.head.items()
        z_CMK = x_CMD @ body_KD.T
        w_CK = self.head(z_CMK, y_CM, share_CM, head_C1K.squeeze(1))
        error_CM = torch.einsum("cmk,ck->cm", z_CMK, w_CK) - y_CM
        slope_CKD = torch.einsum("cm,ck,cmd->ckd", share_CM * error_CM, w_CK, x_CMD)
        body = Tree({body_name: body_KD - self.eta * slope_CKD})
        head = Tree({head_name: w_CK.unsqueeze(1)})
        return Update(State(body=body), State(head=head), model=body | head)

    def head(self, z_CMK: Tensor, y_CM: Tensor, share_CM: Tensor, w_CK: Tensor) -> Tensor:
        if self.head_steps == 0:
            root = share_CM.sqrt()
            return least_squares(z_CMK * root.unsqueeze(2), y_CM * root)
        for _ in range(self.head_steps):
            error_CM = torch.einsum("cmk,ck->cm", z_CMK, w_CK) - y_CM
            w_CK = w_CK - self.head_lr * torch.einsum("cm,cmk->ck", share_CM * error_CM, z_CMK)
        return w_CK

    def merge(self, server: State, uploads: Uploads, round: Round) -> State:
        if not self.starts(round.index):
            return uploads.mean()
        ((name, weight),) = server.body.items()
        _, vectors = torch.linalg.eigh(uploads.mean().moments)
        top_KD = vectors.T.flip(0)[: len(weight)]
        largest = top_KD.gather(1, top_KD.abs().argmax(dim=1, keepdim=True))
        return State(body=Tree({name: top_KD * largest.sign()}))  # signs are free: the same on every machine

    def personal_model(self, server: State, client: State) -> Tree:
        return server.body | client.head

    def step_sizes(self, lr: float, population: int) -> dict[str, float]:
        return {"eta": lr, "head_lr": lr}


def least_squares(z_CMK: Tensor, y_CM: Tensor) -> Tensor:
    """``argmin_w |Z w - y|`` of every client, the shortest if there are several.

    By the normal equations, corrected once for their rounding, five times as fast for small problems as a singular value
    decomposition, which is left for clients whose problem is nearly singular. Not lstsq, whose default driver differs in
    the last bit from call to call.
    """
    y_CM1, gram_CKK = y_CM.unsqueeze(2), z_CMK.mT @ z_CMK
    root_CKK, failed_C = torch.linalg.cholesky_ex(gram_CKK)
    size_CK = root_CKK.diagonal(dim1=1, dim2=2)
    w_CK1 = torch.cholesky_solve(z_CMK.mT @ y_CM1, root_CKK)
    w_CK1 = w_CK1 + torch.cholesky_solve(z_CMK.mT @ (y_CM1 - z_CMK @ w_CK1), root_CKK)
    singular_C = (failed_C > 0) | (size_CK.amin(dim=1) <= torch.finfo(z_CMK.dtype).eps ** 0.25 * size_CK.amax(dim=1))
    if singular_C.any():
        w_CK1[singular_C] = torch.linalg.pinv(z_CMK[singular_C]) @ y_CM1[singular_C]
    return w_CK1.squeeze(2)

"""FedPAC: features of a class drawn to the same place everywhere, and for each client a combination of the heads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from manyheads.core.contract import Algorithm, Cohort, ModelKind, Round, Update, Uploads, register, weighted_mean
from manyheads.core.errors import UserError
from manyheads.core.features import Align, ClassFeatures
from manyheads.core.fields import BatchSize
from manyheads.core.heads import linear_weight
from manyheads.core.optim import SGD
from manyheads.core.server import Server
from manyheads.core.settings import settings
from manyheads.core.simplex import combinations
from manyheads.core.trees import Params, State, Tree

__all__ = ["FedPAC"]


@register
@settings
class FedPAC(Algorithm):
    """Feature alignment and classifier collaboration: a shared body, and a head for each client made of all heads.

    A client trains its head h_i, then the body by ``f_i(h_i, .) + lam mean_d (z - c_y)^2``, z the features of a sample and
    c_y their mean over all clients' samples of its class. Its next head starts from ``sum_j a_ij h_j``, where ``a_i`` on
    the simplex has the least ``sum_j a_j^2 v_j + |H_i - sum_j a_j H_j|^2``: ``H_i[k] = p_ik mu_ik``, the share of class k
    times its mean features, and v_i is the variance of H_i, which the client's number of samples leaves.
    The server holds N heads: for N clients with heads of P parameters, 4 N P bytes.

    >>> from manyheads import FedPAC, simulate
    >>> from manyheads.data import Classes, Digits, federate
    >>> federation = federate(Digits().pool(seed=0), Classes(3), clients=5, seed=0)
    >>> simulate(FedPAC(), "mlp", federation, rounds=1).rounds
    1

    Reference: Xu, Tong, Huang, Personalized Federated Learning with Feature Alignment and Classifier Collaboration, ICLR
    2023.
    """

    name: ClassVar[str] = "fedpac"
    paper: ClassVar[str] = "Xu et al. 2023"
    travels: ClassVar[str] = (
        "the body and the head; up also the size, the mean features and their variance of each class"
    )
    stays: ClassVar[str] = "nothing but the data: the server knows every client's head"
    models: ClassVar[tuple[ModelKind, ...]] = ("personal", "local")
    reads_each: ClassVar[bool] = True
    knobs: ClassVar[Mapping[str, tuple[Any, ...]]] = {"lam": (0.1, 0.3, 1.0)}
    averaged: ClassVar[tuple[str, ...]] = ("body",)

    head_epochs: Annotated[int, Field(ge=0)] = 1
    """local epochs on the head"""
    body_epochs: Annotated[int, Field(ge=1)] = 5
    """local epochs on the body"""
    batch: BatchSize = 10
    sgd: SGD = SGD()
    lam: Annotated[float, Field(ge=0)] = 1.0
    """weight of the distance of features to the mean of their class"""
    heads: Literal["combined", "own"] = "combined"
    """what a client's head starts from: the combination of all heads, or its own, which then stays with it"""
    fewest: Annotated[int, Field(ge=1)] = 1
    """a client tells nothing of a class of which it has fewer samples"""
    server: Server = None

    def init_server(self, params: Params, population: int) -> State:
        weight_KD = linear_weight(params.head, "fedpac combines heads by the features of each class")
        if not params.body:
            raise UserError("fedpac aligns the features that a body gives, and this model is all head")
        shared = State(body=params.body, centroids=0.0 * weight_KD, known=0.0 * weight_KD[:, 0])
        if self.heads == "own":
            return shared
        return shared | State(heads=params.head.map(lambda v: v.expand(population, *v.shape).clone()))

    def init_client(self, params: Params) -> State:
        return State(head=params.head)

    def newcomer(self, params: Params, server: State) -> State:
        return State(head=params.head if self.heads == "own" else server.heads.map(lambda v: v.mean(dim=0)))

    def download(self, server: State, round: Round) -> State:
        return State(body=server.body, centroids=server.centroids, known=server.known)

    def download_each(self, server: State, clients: Sequence[int], round: Round) -> State:
        return State() if self.heads == "own" else State(head=server.heads.map(lambda v: v[clients]))

    def expects(self, server: State, round: Round) -> State:
        told = State(body=server.body, centroids=server.centroids, counts=server.known.long())
        if self.heads == "own":
            return told
        return told | State(head=server.heads.map(lambda v: v[0]), mixed=server.centroids, variance=server.known[0])

    def local(self, cohort: Cohort, server: State, client: State) -> Update:
        # h_i <- SGD(f_i(., phi), sum_j a_ij h_j)
        start = client.head if self.heads == "own" else server.head
        head = cohort.sgd(start, given=server.body, opt=self.sgd, batch=self.batch, epochs=self.head_epochs)
        # phi_i <- SGD(f_i(h_i, .) + lam |z - c_y|^2 / D, phi)
        align = Align(self.lam * server.known, server.centroids) if self.lam else None
        body = cohort.sgd(server.body, given=head, opt=self.sgd, batch=self.batch, epochs=self.body_epochs, align=align)
        after = self.told(cohort, body, server.centroids)
        upload = State(body=body, centroids=after.means.to(server.centroids), counts=after.counts)
        if self.heads == "combined":
            mixed, variance = statistics(self.told(cohort, server.body, server.centroids))
            upload |= State(head=head, mixed=mixed.to(server.centroids), variance=variance.to(server.centroids))
        return Update(upload, State(head=head), model=body | head)

    def told(self, cohort: Cohort, body: Tree, centroids_KD: Tensor) -> ClassFeatures:
        """Of the features in this body, what may be told: a class with too few samples is as one without any."""
        found = cohort.class_features(body, len(centroids_KD))
        if found is None:
            raise UserError("fedpac aligns the features of classes, and this task has none")
        enough_CK = found.counts >= self.fewest
        return ClassFeatures(found.counts * enough_CK, found.means * enough_CK.unsqueeze(2), found.squares * enough_CK)

    def merge(self, server: State, uploads: Uploads, round: Round) -> State:
        sent = uploads.values
        # c_k <- sum_i n_ik c_ik / sum_i n_ik; a class that nobody tells of keeps the one that it has
        total_K = sent.counts.sum(dim=0)
        share_CK = (sent.counts / total_K.clamp(min=1)).to(sent.centroids)
        found_KD = (share_CK.unsqueeze(2) * sent.centroids).sum(dim=0)
        centroids = torch.where((total_K > 0).unsqueeze(1), found_KD, server.centroids)
        known = torch.where(total_K > 0, 1.0, server.known)
        merged = weighted_mean(State(body=sent.body), uploads.weights) | State(centroids=centroids, known=known)
        if self.heads == "own":
            return merged
        # sum_j a_ij h_j, for the next time
        a_CC, rows = weights(sent), torch.tensor(uploads.clients)
        combined = sent.head.map(lambda h: torch.tensordot(a_CC.to(h), h, dims=1))
        return merged | State(heads=server.heads.map(lambda all, new: all.index_copy(0, rows, new), combined))

    @property
    def fewest_told(self) -> int:
        return self.fewest

    def for_models(self, server: State) -> State:
        return State(body=server.body)  # the others' heads are not for it

    def personal_model(self, server: State, client: State) -> Tree:
        return server.body | client.head


def statistics(features: ClassFeatures) -> tuple[Tensor, Tensor]:
    """H_i, [C, K, D], the share of each class times its mean features; and v_i, [C], the variance of that as a mean."""
    samples_C1 = features.counts.sum(dim=1, keepdim=True).clamp(min=1)
    share_CK = features.counts / samples_C1
    mixed_CKD = share_CK.unsqueeze(2) * features.means
    spread_CK = share_CK * features.squares - mixed_CKD.square().sum(dim=2)
    return mixed_CKD, spread_CK.sum(dim=1).clamp(min=0) / samples_C1.squeeze(1)


def weights(sent: State) -> Tensor:
    """The weights a of the combined heads, [C, C]. Who tells of no class keeps its head, and has no part in others'."""
    tell = torch.nonzero(sent.counts.sum(dim=1)).squeeze(1)
    variance_C, mixed_CF = sent.variance[tell].double().clamp(min=0), sent.mixed[tell].double().flatten(1)
    a_CC = torch.eye(len(sent.counts), dtype=torch.float64)
    a_CC[tell.unsqueeze(1), tell] = torch.from_numpy(combinations(variance_C.numpy(), mixed_CF.numpy()))
    return a_CC

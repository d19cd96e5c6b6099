"""The layers of a ReLU network with a fixed top layer, sample by sample: what the lemmas of Deng et al. 2022 are about."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from manyheads.core.trees import Tree
from manyheads.models import Model

__all__ = ["Layers", "gram", "least_gradient", "products", "spectral", "top_layer"]


@dataclass(frozen=True)
class Layers:
    """A network ``V s(W_L ... s(W_1 x))`` at N inputs."""

    features: list[Tensor]
    """``f_{j,0} = x_j`` to ``f_{j,L}``, each [N, neurons]"""
    backward: list[Tensor]
    """``V D_{j,L} W_L ... D_{j,l+1} W_{l+1} D_{j,l}`` for l = 1 to L, each [N, outputs, m]"""
    top: Tensor
    """V, [outputs, m]"""

    @classmethod
    def of(cls, weights: Tree, top: Tensor, x: Tensor) -> Layers:
        W, features, active = list(weights.values()), [x], []
        for w in W:
            before = features[-1] @ w.T
            active.append((before >= 0).to(x.dtype))
            features.append(before * active[-1])
        backward = [top * active[-1][:, None]]
        for w, on in zip(reversed(W[1:]), reversed(active[:-1]), strict=True):
            backward.append(backward[-1] @ w * on[:, None])
        return cls(features, backward[::-1], top)

    @property
    def outputs(self) -> Tensor:
        return self.features[-1] @ self.top.T


def top_layer(model: Model) -> Tensor:
    """V: the parameter that is not trained."""
    (fixed,) = (p for name, p in model.module.named_parameters() if name not in model.params.all)
    return fixed.detach()


def products(at: Layers, residuals: Tensor) -> Tensor:
    """Inner products of the gradients of any two samples' losses, [N, N]; residuals are ``f_j - y_j``, [N, outputs].

    The gradient of sample j in W_l is ``u_{j,l} f_{j,l-1}^T`` with ``u_{j,l}`` the residual carried back to layer l.
    """
    pairs = zip(at.features[:-1], at.backward, strict=True)
    back = ((f, torch.einsum("no,nom->nm", residuals, b)) for f, b in pairs)
    return torch.stack([(f @ f.T) * (u @ u.T) for f, u in back]).sum(dim=0)


def gram(at: Layers) -> Tensor:
    """Inner products of the gradients of all outputs of all samples, [N outputs, N outputs]."""
    N, d = len(at.features[0]), len(at.top)
    total = torch.zeros(N, d, N, d, dtype=at.top.dtype)
    for f, b in zip(at.features[:-1], at.backward, strict=True):
        flat = b.reshape(N * d, -1)
        total += (flat @ flat.T).reshape(N, d, N, d) * (f @ f.T)[:, None, :, None]
    return total.reshape(N * d, N * d)


def least_gradient(at: Layers) -> float:
    """The least ``|grad L|^2 / (m L / d)`` over all targets: ``L = |r|^2 / 2N`` and ``grad L = J^T r / N``."""
    N, (d, m) = len(at.features[0]), at.top.shape
    return 2 * float(torch.linalg.eigvalsh(gram(at))[0]) / N / (m / d)


def spectral(tree: Tree) -> float:
    """``||W||_2`` of all layers: the largest spectral norm of one."""
    return max(float(torch.linalg.matrix_norm(v, 2)) for v in tree.values())

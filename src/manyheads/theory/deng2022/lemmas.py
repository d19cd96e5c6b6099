"""Lemmas 1, 3 and 7 of Deng et al. 2022: measured quantities over the expressions in the brackets of O(.)."""

from __future__ import annotations

import math
from itertools import combinations, pairwise

import torch
from torch import Tensor

from manyheads.core.trees import Tree
from manyheads.theory.deng2022.network import Layers, products, spectral

__all__ = ["LEMMA_3", "perturbation", "semi_smoothness", "stochastic_gradient"]

LEMMA_3 = ("features_moved", "features", "features_apart", "backward_moved", "backward")


def semi_smoothness(
    moves: list[Tree], losses: list[float], linear: list[float], omega: float, width: int, outputs: int
) -> float:
    """Lemma 1 from one synchronisation to the next: what the linear part leaves, over both terms of the bound together.

    ``omega`` is the distance from the start; norms are spectral, as in the analysis that the lemma is taken from.
    """
    worst, m_d = 0.0, width / outputs
    for move, (old, new), falls in zip(moves, pairwise(losses), linear, strict=True):
        far = spectral(move)
        bound = math.sqrt(old * m_d * math.log(width)) * omega ** (1 / 3) * far + m_d * far**2
        worst = max(worst, (new - old - falls) / bound if bound else 0.0)
    return worst


def perturbation(points: list[tuple[Tree, Layers]]) -> dict[str, float]:
    """Lemma 3 at some points of a run, the first of them its start; the largest over samples, layers and points."""
    start, at_start = points[0]
    L, (d, m) = len(at_start.backward), at_start.top.shape
    far = {id(w): spectral(w - start) for w, _ in points}
    moved = [
        float((f - g).norm(dim=1).max()) / (far[id(w)] * L**2.5 * math.sqrt(math.log(m)))
        for w, at in points[1:]
        for f, g in zip(at.features[1:], at_start.features[1:], strict=True)
    ]
    apart, backward = [], []
    for (w, at), (v, other) in combinations(points, 2):
        omega, between = max(far[id(w)], far[id(v)]), spectral(w - v)
        for f, g in zip(at.features[1:], other.features[1:], strict=True):
            apart.append(float((f - g).norm(dim=1).max()) / (L**1.5 * between))
        scale = omega ** (1 / 3) * L**2 * math.sqrt(m * math.log(m) / d)
        for b, c in zip(at.backward, other.backward, strict=True):
            backward.append(float(torch.linalg.matrix_norm(b - c, 2).max()) / scale)
    long = max(float(f.norm(dim=1).max()) for _, at in points for f in at.features[1:])
    steep = max(float(torch.linalg.matrix_norm(b, 2).max()) for _, at in points for b in at.backward)
    return dict(zip(LEMMA_3, (max(moved), long, max(apart), max(backward), steep / math.sqrt(m / d)), strict=True))


def stochastic_gradient(at: Layers, y: Tensor, clients: int) -> dict[str, float]:
    """Lemma 7 at a synchronised model, exactly, over all draws of one sample from each client.

    Without the factor n that Algorithm 1 gives a sample's gradient and the lemma's proof does not:
    ``E|1/K sum_i g_i|^2 = |grad L|^2 + 1/K^2 sum_i (E|g_i|^2 - |grad L_i|^2)``. The proof leaves out all of this but
    ``1/K^2 sum_i E|g_i|^2``, as if the g_i had no mean.
    """
    residuals = at.outputs - y
    between = products(at, residuals).reshape(clients, -1, clients, len(y) // clients)
    n, loss = between.shape[1], float(residuals.square().sum()) / (2 * len(y))
    own = torch.einsum("inin->in", between)
    noise = (own.mean(dim=1) - torch.einsum("iaib->i", between) / n**2).sum() / clients**2
    mean = float(between.sum() / len(y) ** 2 + noise)
    m_d = at.top.shape[1] / at.top.shape[0]
    return {
        "mean_printed": mean / (m_d * loss / clients),
        "mean": mean / (m_d * loss),
        "largest": _largest(between) / (m_d * n * loss),
    }


def _largest(between: Tensor) -> float:
    """``|1/K sum_i g_i|^2`` is at most ``(1/K sum_i max_j |g_ij|)^2``; no draw can be larger."""
    own = torch.einsum("inin->in", between)
    return float(own.amax(dim=1).sqrt().mean().square())

"""The meta-functions ``F_i(w) = f_i(w - alpha grad f_i(w))`` of Fallah et al. 2020: their bounds, and measurements."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from manyheads.algorithms import PerFedAvg
from manyheads.theory.fallah2020.smoothness import Constants, spectral
from manyheads.theory.landscape import Landscape

__all__ = [
    "CORRECTED", "PRINTED", "bias_F", "bias_without_noise", "gamma_F2", "meta_gradients", "meta_smoothness", "sigma_F2", "smoothness_F", "stochastic_bias",
    "stochastic_error",
]  # fmt: skip

PRINTED, CORRECTED = 192, 96
"""of gamma_G^2 in Lemma 4.4: as it is stated, and as its proof gives it"""


def smoothness_F(c: Constants, alpha: float) -> float:
    """Lemma 4.2: ``F_i`` is smooth with ``L_F = 4 L + alpha rho B``."""
    return 4 * c.L + alpha * c.rho * c.B


def bias_F(c: Constants, algorithm: PerFedAvg) -> float:
    """``||E[stochastic gradient of F_i] - grad F_i|| <= (1 + alpha L) alpha L sigma_G / sqrt(D)``, from Appendix C.

    D' and D'' are independent of D, so all bias is that of ``grad f_i`` at a random ``w - alpha grad f_i(w, D)``.
    """
    moved = algorithm.alpha * c.L
    return (1 + moved) * moved * c.sigma_G / math.sqrt(algorithm.batch)


def sigma_F2(c: Constants, algorithm: PerFedAvg) -> float:
    """``E ||stochastic gradient of F_i - grad F_i||^2``, at most: Lemma 4.3 (exact), G.1 (fo), G.2 (hf)."""
    alpha, D, D1, D2 = algorithm.alpha, algorithm.batch, algorithm.outer_batch, algorithm.hessian_batch
    if algorithm.variant == "exact":
        inner = c.B**2 + c.sigma_G**2 * (1 / D1 + (alpha * c.L) ** 2 / D)
        return 3 * inner * (4 + (alpha * c.sigma_H) ** 2 / D2) - 12 * c.B**2
    if algorithm.variant == "fo":
        return 2 * c.sigma_G**2 * (1 / D1 + (alpha * c.L) ** 2 / D) + 2 * (alpha * c.L * c.B) ** 2
    noise = 2 * (alpha * c.L) ** 2 / D + 2 / D1 + (alpha / algorithm.delta) ** 2 / (2 * D2)
    return 6 * c.sigma_G**2 * noise + 2 * (alpha * c.rho * algorithm.delta) ** 2 * c.B**4


def gamma_F2(c: Constants, alpha: float, factor: float = PRINTED) -> float:
    """Lemma 4.4: ``1/n sum_i ||grad F_i - grad F||^2 <= 3 B^2 alpha^2 gamma_H^2 + 192 gamma_G^2``.

    The proof gives 96 for 192: (50) is ``2 (1 + (alpha L)^2) gamma_G^2``, at most 4 and not 8 times ``gamma_G^2``.
    """
    return 3 * (c.B * alpha * c.gamma_H) ** 2 + factor * c.gamma_G**2


def bias_without_noise(c: Constants, algorithm: PerFedAvg) -> float:
    """The bias of ``fo`` and ``hf`` on full batches, at most: (116) and (127); 0 for ``exact``."""
    alpha = algorithm.alpha
    bias = {"exact": 0.0, "fo": alpha * c.L * c.B, "hf": alpha * c.rho * algorithm.delta * c.B**2}
    return bias[algorithm.variant]


def meta_gradients(clients: Landscape, algorithm: PerFedAvg, w: Tensor) -> Tensor:
    """``grad F_i(w)``, equation (6), or what ``fo`` or ``hf`` puts in its place, on all samples, [C, d]."""
    whole = clients.whole
    return clients.flat(algorithm.direction(clients.cohort, clients.cohort.each(clients.tree(w)), whole, whole, whole))


def meta_smoothness(clients: Landscape, algorithm: PerFedAvg, w: Tensor, h: float = 1e-4) -> float:
    """``||Hessian of F_i(w)||``, largest over clients, by central differences of its gradient."""
    steps = h * torch.eye(len(w), dtype=w.dtype)
    columns = [
        (meta_gradients(clients, algorithm, w + e) - meta_gradients(clients, algorithm, w - e)) / (2 * h) for e in steps
    ]
    hessians = torch.stack(columns, dim=-1)
    return float(spectral((hessians + hessians.mT) / 2).max())


def stochastic_error(clients: Landscape, algorithm: PerFedAvg, w: Tensor, draws: int) -> float:
    """``E ||stochastic gradient of F_i - grad F_i||^2`` at w, largest over clients, from many draws of D, D', D''."""
    cohort, sizes = clients.cohort, (algorithm.batch, algorithm.outer_batch, algorithm.hessian_batch)
    true, at = meta_gradients(clients, replace(algorithm, variant="exact"), w), cohort.each(clients.tree(w))
    square = torch.zeros(len(clients), dtype=w.dtype)
    for _ in range(draws):
        drawn = algorithm.direction(cohort, at, *(cohort.draw(size) for size in sizes))
        square += (clients.flat(drawn) - true).square().sum(dim=1) / draws
    return float(square.max())


def stochastic_bias(clients: Landscape, algorithm: PerFedAvg, w: Tensor, draws: int) -> float:
    """``||E[stochastic gradient of F_i] - grad F_i||`` at w for ``exact``, largest over clients, from draws of D.

    The estimate is linear in the gradient on D' and in the Hessian on D'', whose means are those on all samples.
    """
    cohort, whole = clients.cohort, clients.whole
    exact = replace(algorithm, variant="exact")
    at, mean = cohort.each(clients.tree(w)), torch.zeros(len(clients), len(w), dtype=w.dtype)
    for _ in range(draws):
        mean += clients.flat(exact.direction(cohort, at, cohort.draw(exact.batch), whole, whole)) / draws
    return float((mean - meta_gradients(clients, exact, w)).norm(dim=1).max())

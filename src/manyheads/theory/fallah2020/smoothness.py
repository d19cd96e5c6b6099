"""The constants of Fallah et al. 2020, Assumptions 2 to 5: estimated along a run, or known for softmax regression."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from manyheads.data import Federation
from manyheads.metrics import total_variation
from manyheads.theory.landscape import Landscape, points_of

__all__ = ["Constants", "View", "estimate", "known_for_softmax", "spectral", "view_at"]


@dataclass(frozen=True)
class Constants:
    """The constants of the assumptions, the largest over clients."""

    L: float
    """gradients are L-Lipschitz (11b)"""
    rho: float
    """Hessians are rho-Lipschitz (13)"""
    B: float
    """gradients are at most B long (11a)"""
    sigma_G: float
    """standard deviation of the gradient of one sample (14)"""
    sigma_H: float
    """standard deviation of the Hessian of one sample, in the spectral norm (15)"""
    gamma_G: float
    """root mean square distance of a client's gradient from the mean one (16a)"""
    gamma_H: float
    """root mean square distance of a client's Hessian from the mean one (16b)"""


@dataclass(frozen=True)
class View:
    """All first and second derivatives at one point of a run, and one step of every client away from it."""

    w: Tensor
    gradients: Tensor
    """of the clients at w, [C, d]"""
    hessians: Tensor
    """of the clients at w, [C, d, d]"""
    step: Tensor
    """``w - alpha grad f_i(w)``, [C, d]"""
    step_gradients: Tensor
    step_hessians: Tensor
    point_gradients: Tensor
    """of the single samples z at w, [Z, d]"""
    point_hessians: Tensor


def spectral(matrices: Tensor) -> Tensor:
    """Largest absolute eigenvalue of symmetric matrices."""
    return torch.linalg.eigvalsh(matrices).abs().amax(dim=-1)


def view_at(clients: Landscape, points: Landscape, w: Tensor, alpha: float) -> View:
    """The derivatives at w; ``points`` are the distinct samples, each as a client."""
    gradients = clients.gradients(w)
    step = w - alpha * gradients
    return View(
        w,
        gradients,
        clients.hessians(w),
        step,
        clients.gradients(step),
        clients.hessians(step),
        points.gradients(w),
        points.hessians(w),
    )


def estimate(views: list[View], shares: np.ndarray) -> Constants:
    """The largest values at the points of a run. Suprema over all w are at least as large."""
    p = torch.from_numpy(shares)
    each = [_at(view, p) for view in views]
    rho = max(_hessian_slope(view.w, view.step, view.hessians, view.step_hessians) for view in views)
    for a, b in pairwise(views):
        rho = max(rho, _hessian_slope(a.w, b.w, a.hessians, b.hessians))
    return Constants(rho=rho, **{name: max(e[name] for e in each) for name in each[0]})


def _at(view: View, p: Tensor) -> dict[str, float]:
    apart_G = view.point_gradients[None] - view.gradients[:, None]  # [C, Z, d]
    apart_H = torch.stack([spectral(view.point_hessians - own) for own in view.hessians])  # [C, Z]
    between_G = view.gradients - view.gradients.mean(dim=0)
    between_H = spectral(view.hessians - view.hessians.mean(dim=0))
    return {
        "L": float(torch.maximum(spectral(view.hessians), spectral(view.step_hessians)).max()),
        "B": float(torch.maximum(view.gradients.norm(dim=1), view.step_gradients.norm(dim=1)).max()),
        "sigma_G": float((p * apart_G.square().sum(dim=2)).sum(dim=1).max().sqrt()),
        "sigma_H": float((p * apart_H.square()).sum(dim=1).max().sqrt()),
        "gamma_G": float(between_G.square().sum(dim=1).mean().sqrt()),
        "gamma_H": float(between_H.square().mean().sqrt()),
    }


def _hessian_slope(a: Tensor, b: Tensor, at_a: Tensor, at_b: Tensor) -> float:
    """``||H_i(a) - H_i(b)|| / ||a - b||``, largest over the clients."""
    far = (a - b).norm(dim=-1).expand(len(at_a))
    moved = far > 0
    return float((spectral(at_a - at_b)[moved] / far[moved]).max()) if moved.any() else 0.0


def known_for_softmax(federation: Federation) -> Constants:
    """Constants of softmax regression with a bias that hold at every w, from the data alone.

    With ``x~ = (x, 1)`` and p the predicted probabilities, the gradient of one sample is ``(p - e_y) x~^T`` and
    ``||p - e_y||^2 <= 2``; its Hessian is ``(diag p - p p^T) (x) x~ x~^T`` and ``||diag p - p p^T|| <= 1/2``. The third
    derivative along a unit u is the third central moment of the numbers u under p; they span at most sqrt(2), so it is
    at most ``sqrt(2)^3 / (6 sqrt(3)) = sqrt(2 / 27)``, a moment that two points maximise.
    """
    own = [
        federation.train.client(i)[0].reshape(-1, math.prod(federation.sample_shape)) for i in range(len(federation))
    ]
    own = [np.concatenate([x, np.ones((len(x), 1))], axis=1) for x in own]
    long = [np.linalg.norm(x, axis=1) for x in own]
    most = float(max(n.max() for n in long))
    apart = _mean_square_variation(points_of(federation)[1])
    return Constants(
        L=max(0.5 * float(np.linalg.eigvalsh(x.T @ x / len(x))[-1]) for x in own),
        rho=math.sqrt(2 / 27) * max(float(np.mean(n**3)) for n in long),
        B=math.sqrt(2) * max(float(n.mean()) for n in long),
        sigma_G=math.sqrt(2 * max(float(np.mean(n**2)) for n in long)),  # a variance is at most the second moment
        sigma_H=0.5 * most**2,  # ||X - Y|| <= max(||X||, ||Y||) of positive semidefinite matrices
        gamma_G=2 * math.sqrt(2) * most * apart,  # equation (19a)
        gamma_H=most**2 * apart,  # equation (19b)
    )


def _mean_square_variation(shares: np.ndarray) -> float:
    """``sqrt(1/n sum_i ||p_i - p||_TV^2)``."""
    mean = shares.mean(axis=0)
    return math.sqrt(np.mean([total_variation(own, mean) ** 2 for own in shares]))

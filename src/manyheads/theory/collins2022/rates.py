"""The rate at which FedAvg learns the representation: the proof's leading term, a sharper one, closed forms, the limit.

What B has outside the true subspace, E, is multiplied by the prior weight in every round, so that the rate is the largest
eigenvalue of the prior weight's limit. There sqrt(alpha) B is orthonormal up to O(alpha^2) and, in the basis of B_*, the
heads of client i are ``sqrt(alpha) mean w`` at its first step and ``sqrt(alpha) w_i`` at the tau - 1 others. With C the
covariance of the true heads,

    prior weight = mean_i (I - alpha^2 mean w mean w^T) (I - alpha^2 w_i w_i^T)^(tau - 1)
                 = I - alpha^2 ((tau - 1) C + tau mean w mean w^T) + O(alpha^4 tau^2).

The first line holds for every tau. Along w_i the power goes to 0 once alpha^2 |w_i|^2 tau is above 1: a client has then
learned all that it can from its own head, and more local steps add nothing.
"""

from __future__ import annotations

import numpy as np

from manyheads.core.errors import UserError
from manyheads.theory.collins2022.linear_fedavg import LocalUpdates, Problem

__all__ = ["closed_form", "limit_rate", "printed_term", "sharp_term"]

ROUNDS = 300
"""of the way to the fixed point; with tiny steps it is not reached, which changes the rate by O(alpha^4) only"""
SETTLED = 1e-10


def printed_term(problem: Problem, alpha: float, tau: int) -> float:
    """``1 - alpha^2 (tau - 1) mu^2``, the leading term of the proof."""
    return float(1 - alpha**2 * (tau - 1) * problem.diversity**2)


def sharp_term(problem: Problem, alpha: float, tau: int) -> float:
    """``1 - alpha^2 lambda_min((tau - 1) C + tau mean w mean w^T)``: the proof drops the second matrix."""
    centred = problem.heads - problem.mean
    spread = centred.T @ centred / len(centred)
    return float(1 - alpha**2 * np.linalg.eigvalsh((tau - 1) * spread + tau * np.outer(problem.mean, problem.mean))[0])


def closed_form(problem: Problem, alpha: float, tau: float) -> float | None:
    """The largest eigenvalue of the prior weight above; ``tau`` may be infinite. None if local steps diverge."""
    lengths = np.square(problem.heads).sum(axis=1)
    if alpha**2 * lengths.max() >= 2:
        return None
    gone = (1 - (1 - alpha**2 * lengths) ** (tau - 1)) / lengths
    first = np.eye(len(problem.mean)) - alpha**2 * np.outer(problem.mean, problem.mean)
    rest = np.eye(len(problem.mean)) - (problem.heads.T * gone) @ problem.heads / len(problem.heads)
    return _largest(first @ rest)


def limit_rate(problem: Problem, alpha: float, tau: int) -> float | None:
    """The exact rate: of the prior weight at the fixed point of FedAvg with all clients inside the true subspace."""
    inside, everyone = Problem(np.eye(len(problem.mean)), problem.heads), list(range(len(problem.heads)))
    body, head = inside.body / np.sqrt(alpha), np.sqrt(alpha) * problem.mean
    try:
        for _ in range(ROUNDS):
            local = LocalUpdates.of(inside, body, head, everyone, alpha, tau)
            before, (body, head) = body, local.averaged()
            if np.abs(body - before).max() * np.sqrt(alpha) < SETTLED:
                break
    except UserError:  # it diverges
        return None
    return _largest(local.weights()[0])


def _largest(matrix: np.ndarray) -> float:
    return float(np.abs(np.linalg.eigvals(matrix)).max())

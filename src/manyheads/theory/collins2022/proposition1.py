"""Proposition 1 of Collins et al. 2022: how to construct a representation that D-GD cannot learn.

D-GD moves B by ``-alpha (B w - B_* mean w_*) w^T``. If ``B_* mean w_*`` lies in the column space of B_0, B never leaves
that space, so it stays as far from the rest of B_* as it was. The paper proves 0.7 delta_0 by comparing two such B_*;
in exact arithmetic one is enough, and the distance stays delta_0 as long as B keeps its rank.
"""

from __future__ import annotations

import numpy as np

from manyheads.core.errors import UserError
from manyheads.metrics import principal_angle_distance
from manyheads.theory.collins2022.linear_fedavg import Problem, d_gd_step

__all__ = ["hard_body", "lower_bound"]


def hard_body(body: np.ndarray, heads: np.ndarray, delta0: float, rng: np.random.Generator) -> np.ndarray:
    """B_* with orthonormal columns, ``dist(B_0, B_*) = delta0`` and ``B_* mean w_*`` in the column space of B_0."""
    d, k = body.shape
    if not 1 < k < d or not 0 < delta0 <= 0.5:
        raise UserError(
            "Proposition 1 is about other problems", given=f"d {d}, k {k}, delta_0 {delta0:g}",
            allowed="d > k > 1, 0 < delta_0 <= 1/2",
        )  # fmt: skip
    inside = np.linalg.qr(body)[0] @ np.linalg.qr(rng.normal(size=(k, k)))[0]  # a random basis of the space of B_0
    away = rng.normal(size=d)
    away -= inside @ (inside.T @ away)
    tilted = inside.copy()
    tilted[:, 1] = np.sqrt(1 - delta0**2) * inside[:, 1] + delta0 * away / np.linalg.norm(away)
    mean = heads.mean(axis=0, keepdims=True).T
    # orthonormal V whose first column is the direction of the mean head: B_* maps that to tilted[:, 0], in the space
    frame = np.linalg.qr(np.hstack([mean, rng.normal(size=(k, k - 1))]))[0]
    return tilted @ frame.T


def lower_bound(
    body: np.ndarray, heads: np.ndarray, delta0: float, alpha: float, rounds: int, rng: np.random.Generator
) -> float:
    """The distance that D-GD ends at on such a representation."""
    problem = Problem(hard_body(body, heads, delta0, rng), heads)
    head = np.zeros(body.shape[1])
    for _ in range(rounds):
        body, head = d_gd_step(problem, body, head, alpha)
    return principal_angle_distance(body, problem.body)

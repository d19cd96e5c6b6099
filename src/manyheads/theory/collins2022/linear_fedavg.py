"""FedAvg with population gradients on multi-task linear regression, and the quantities of its analysis.

The loss of client i is ``f_i(B, w) = 1/2 |B w - B_* w_{*,i}|^2`` (Collins et al. 2022, Section 3). Everything is float64
and computed for all clients of a round at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from manyheads.core.errors import UserError

__all__ = ["LocalUpdates", "Problem", "d_gd_step", "spectral_norms"]

DIVERGED = 1e4
# S local steps (0 to tau), C clients, D inputs, K features


@dataclass(frozen=True)
class Problem:
    """The ground truth and its constants (Assumptions 1 and 2, Definition 1)."""

    body: np.ndarray
    """B_*, [D, K], orthonormal columns"""
    heads: np.ndarray
    """w_{*,i}, [M, K]"""

    @cached_property
    def mean(self) -> np.ndarray:
        return self.heads.mean(axis=0)

    @cached_property
    def largest(self) -> float:
        """L_max: the largest norm of a true head"""
        return float(np.linalg.norm(self.heads, axis=1).max())

    @cached_property
    def diversity(self) -> float:
        """mu: the square root of the smallest eigenvalue of the heads' covariance; 0 if they do not span"""
        centred = self.heads - self.mean
        if len(self.heads) <= len(self.mean):  # k + 1 heads are needed to span k centred directions
            return 0.0
        return float(np.linalg.svd(centred / np.sqrt(len(self.heads)), compute_uv=False)[-1])

    @cached_property
    def condition(self) -> float:
        """kappa_max = L_max / mu"""
        return self.largest / self.diversity if self.diversity > 0 else np.inf

    @cached_property
    def deviation(self) -> float:
        """gamma: the root mean square distance of the heads from their mean"""
        return float(np.sqrt(np.square(self.heads - self.mean).sum(axis=1).mean()))

    @cached_property
    def spread(self) -> float:
        """H: H^4 is the mean of |w_i w_i^T - mean of these|^2, in spectral norm"""
        return float(np.square(spectral_norms(self.outer - self.outer.mean(axis=0))).mean() ** 0.25)

    @cached_property
    def outer(self) -> np.ndarray:
        """w_i w_i^T, [M, K, K]"""
        return self.heads[:, :, None] * self.heads[:, None, :]

    def outside(self, body: np.ndarray) -> np.ndarray:
        """The part of ``body`` outside the true subspace; its norm is that of ``B_{*,perp}^T B``."""
        return body - self.body @ (self.body.T @ body)

    def distances(self, bodies: np.ndarray) -> np.ndarray:
        """Principal angle distances of many well-conditioned bodies, [..., D, K], from the true one."""
        gram = np.swapaxes(bodies, -1, -2) @ bodies
        try:
            root = np.linalg.cholesky(gram)  # B = Q root^T
        except np.linalg.LinAlgError:
            raise UserError(
                "FedAvg diverged: a local representation lost its rank", fix="take a smaller alpha"
            ) from None
        whitened = np.linalg.solve(root, np.swapaxes(self.outside(bodies), -1, -2))
        return np.sqrt(spectral_norms(whitened @ np.swapaxes(whitened, -1, -2)))

    def gradient_norm(self, body: np.ndarray, head: np.ndarray) -> float:
        """The norm of the gradient of the global loss (7), over B and w."""
        error = body @ head - self.body @ self.mean
        return float(np.hypot(np.linalg.norm(body.T @ error), np.linalg.norm(error) * np.linalg.norm(head)))


@dataclass(frozen=True)
class LocalUpdates:
    """One round: the local steps of all its clients from (B_t, w_t)."""

    bodies: np.ndarray
    """B_{t,i,s}, [S, C, D, K]"""
    heads: np.ndarray
    """w_{t,i,s}, [S, C, K]"""
    truth: np.ndarray
    """w_{*,i}, [C, K]"""
    alpha: float

    @classmethod
    def of(
        cls, problem: Problem, body: np.ndarray, head: np.ndarray, cohort: list[int], alpha: float, tau: int
    ) -> LocalUpdates:
        truth = problem.heads[cohort]
        targets = truth @ problem.body.T
        bodies = np.empty((tau + 1, len(cohort), *body.shape))
        heads = np.empty((tau + 1, len(cohort), len(head)))
        bodies[0], heads[0] = body, head
        with np.errstate(over="ignore", invalid="ignore"):
            for s in range(tau):
                error = (bodies[s] @ heads[s][:, :, None])[:, :, 0] - targets
                bodies[s + 1] = bodies[s] - alpha * error[:, :, None] * heads[s][:, None, :]
                heads[s + 1] = heads[s] - alpha * (error[:, None, :] @ bodies[s])[:, 0]
        # unless it diverges, B has entries of at most about 1 / sqrt(alpha)
        if not np.abs(bodies[-1]).max() * np.sqrt(alpha) < DIVERGED:
            raise UserError(
                "FedAvg diverged", given=f"step size {alpha:g}, {tau} local steps", fix="take a smaller alpha"
            )
        return cls(bodies, heads, truth, alpha)

    def averaged(self) -> tuple[np.ndarray, np.ndarray]:
        """B_{t+1} and w_{t+1}."""
        return self.bodies[-1].mean(axis=0), self.heads[-1].mean(axis=0)

    @cached_property
    def deltas(self) -> np.ndarray:
        """|I - alpha B_{t,i,s}^T B_{t,i,s}|, [S, C]."""
        gram = np.swapaxes(self.bodies, -1, -2) @ self.bodies
        return spectral_norms(np.eye(gram.shape[-1]) - self.alpha * gram)

    def weights(self) -> tuple[np.ndarray, np.ndarray]:
        """The prior and the signal weight: ``B_{t+1} = B_t prior + B_* signal``, [K, K] each (Section 4)."""
        clients, features = self.truth.shape
        prior = np.broadcast_to(np.eye(features), (clients, features, features))
        signal = np.zeros((clients, features, features))
        for head in self.heads[:-1]:
            shrink = np.eye(features) - self.alpha * head[:, :, None] * head[:, None, :]
            prior = prior @ shrink
            signal = signal @ shrink + self.alpha * self.truth[:, :, None] * head[:, None, :]
        return prior.mean(axis=0), signal.mean(axis=0)

    def head_diversity(self) -> float:
        """As mu, of the heads after the local steps, divided by sqrt(alpha): near mu when they are as diverse as w_*."""
        centred = self.heads[-1] - self.heads[-1].mean(axis=0)
        smallest = np.linalg.eigvalsh(centred.T @ centred / len(centred))[0]
        return float(np.sqrt(max(smallest, 0.0) / self.alpha))


def d_gd_step(problem: Problem, body: np.ndarray, head: np.ndarray, alpha: float) -> tuple[np.ndarray, np.ndarray]:
    """One round of D-GD with all clients: FedAvg with one local step, which depends on the heads through their mean only."""
    average = Problem(problem.body, problem.mean[None])
    return LocalUpdates.of(average, body, head, [0], alpha, 1).averaged()


def spectral_norms(symmetric: np.ndarray) -> np.ndarray:
    """The spectral norms of a stack of symmetric matrices."""
    return np.abs(np.linalg.eigvalsh(symmetric)).max(axis=-1)

"""The induction hypotheses of Theorem 1 of Collins et al. 2022 (Appendix B.1), checked along a run."""

from __future__ import annotations

from typing import Any

import numpy as np

from manyheads.theory.collins2022.linear_fedavg import LocalUpdates, Problem
from manyheads.theory.facts import number

__all__ = ["C3", "Hypotheses"]

C3 = 4800
"""the constant c_3 of the proof; all others are written out in the hypotheses"""
ROUNDING = 1e-12
"""distances below are rounding errors and are not compared"""


class Hypotheses:
    """For each hypothesis the largest ratio of what it bounds to its bound: it holds while that is at most 1."""

    def __init__(self, problem: Problem, alpha: float, tau: int, delta0: float) -> None:
        self.problem, self.alpha = problem, alpha
        length, kappa, e0 = problem.largest, problem.condition, 1 - delta0**2
        drift = alpha**2 * tau * length**2 * kappa**2 / e0 if e0 > 0 else np.inf
        self.shrink = 1 - 0.04 * alpha**2 * tau * problem.diversity**2 * e0
        self.limits = {
            "local A1: |w_s - alpha B_{s-1}^T B_* w_*|": 4 * C3 * np.sqrt(alpha) * length * drift,
            "local A2: |w_s|": 2 * np.sqrt(alpha) * length,
            "local A3: |I - alpha B_s^T B_s|": 2 * C3 * drift,
            "local A4: dist(B_s) / dist(B_t)": 1.1,
            "A1: |w - alpha (I + Delta) B^T B_* mean w_*|": 91 * alpha**2.5 * tau * length**3,
            "A2: |w|": 2 * np.sqrt(alpha) * length,
            "A3: |I - alpha B^T B|": C3 * drift,
            "A4: |B_perp^T B_t| / |B_perp^T B_{t-1}|": self.shrink,
            "A5: dist / (1 - 0.04 alpha^2 tau mu^2 E_0)^(t-1)": 1.0,
        }
        self.local, self.globally = list(self.limits)[:4], list(self.limits)[4:]
        self.largest: dict[str, tuple[float, int]] = {}
        """the largest value and its round"""
        self.failed: dict[str, int] = {}
        """the first round in which a hypothesis does not hold"""
        self.energy = np.nan

    def check_local(self, t: int, local: LocalUpdates, dist: float) -> None:
        """Hypotheses about the local steps of round t, all clients, s = 1 to tau."""
        signal = self.alpha * (local.truth @ self.problem.body.T)[:, None, :] @ local.bodies[:-1]
        heads = np.linalg.norm(local.heads[1:], axis=2)
        away = np.linalg.norm(local.heads[1:] - signal[:, :, 0], axis=2)
        self._note(t, self.local[0], away.max())
        self._note(t, self.local[1], heads.max())
        self._note(t, self.local[2], local.deltas[1:].max())
        if dist > ROUNDING:
            self._note(t, self.local[3], self.problem.distances(local.bodies[1:]).max() / dist)

    def check_global(
        self, t: int, body: np.ndarray, head: np.ndarray, cohort: list[int], delta: float, dist: float
    ) -> None:
        """Hypotheses about (B_t, w_t), t >= 1; ``cohort`` are the clients of the round that starts there."""
        before, self.energy = self.energy, float(np.linalg.norm(self.problem.outside(body), 2))
        if t == 0:
            return
        signal = body.T @ self.problem.body @ self.problem.heads[cohort].mean(axis=0)
        gram = self.alpha * body.T @ body
        self._note(t, self.globally[0], float(np.linalg.norm(head - self.alpha * (2 * signal - gram @ signal))))
        self._note(t, self.globally[1], float(np.linalg.norm(head)))
        self._note(t, self.globally[2], delta)
        if dist > ROUNDING:
            self._note(t, self.globally[3], self.energy / before)
            self._note(t, self.globally[4], dist / self.shrink ** (t - 1))

    def _note(self, t: int, name: str, value: float) -> None:
        if not value <= self.largest.get(name, (-np.inf, 0))[0]:
            self.largest[name] = (float(value), t)
        if not value <= self.limits[name]:
            self.failed.setdefault(name, t)

    def facts(self) -> list[dict[str, Any]]:
        """One entry for each hypothesis, in the form of a condition."""
        return [
            {
                "name": name,
                "holds": name not in self.failed,
                "value": number(value),
                "needs": f"<= {self.limits[name]:.12g}" if name.startswith("A4") else f"<= {self.limits[name]:.4g}",
                "ratio": number(value / self.limits[name]) if self.limits[name] else None,
                "largest_in_round": t,
                "first_failure": self.failed.get(name),
            }
            for name, (value, t) in self.largest.items()
        ]

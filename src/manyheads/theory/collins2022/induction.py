"""The induction hypotheses of Theorem 1 of Collins et al. 2022 (Appendix B.1) and Lemma 8, checked along a run."""

from __future__ import annotations

from typing import Any

import numpy as np

from manyheads.theory.collins2022.linear_fedavg import LocalUpdates, Problem
from manyheads.theory.facts import number

__all__ = ["C3", "LEMMA_8", "Hypotheses"]

C3 = 4800
"""the constant c_3 of the proof; all others are written out in the hypotheses"""
ROUNDING = 1e-12
"""distances below are rounding errors and are not compared"""
LEMMA_8 = 0.1
"""alpha sigma_min^2(B_t^T B_*) is at least this share of E_0"""


class Hypotheses:
    """For each hypothesis the largest ratio of what it bounds to its bound: it holds while that is at most 1.

    A limit is vacuous if it would hold for a run that learns nothing: with heads of 0, a B of 0, or a B that stays.
    """

    def __init__(self, problem: Problem, alpha: float, tau: int, delta0: float) -> None:
        self.problem, self.alpha, self.delta0 = problem, alpha, delta0
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
        no_head, no_body = (np.sqrt(alpha) * length, "heads of 0 would do"), (1.0, "B = 0 would do")
        self.trivial = {
            self.local[0]: no_head, self.local[2]: no_body, self.globally[0]: no_head, self.globally[2]: no_body
        }  # fmt: skip
        """from which value on a limit says nothing, and why"""
        self.e0, self.inside, self.last = e0, (np.inf, 0), 0
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
        kept = self.alpha * float(np.linalg.norm(body.T @ self.problem.body, -2)) ** 2
        self.inside, self.last = min(self.inside, (kept, t)), t
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

    def vacuous(self, name: str) -> str:
        """Why the limit says nothing; empty if it says something."""
        if name == self.globally[4]:
            stays = self.delta0 <= self.shrink ** max(0, self.last - 1)
            return f"a B that stays would do for {self.last} rounds" if stays else ""
        value, why = self.trivial.get(name, (np.inf, ""))
        return why if self.limits[name] >= value else ""

    def facts(self) -> list[dict[str, Any]]:
        """One entry for each hypothesis, in the form of a condition."""
        return [
            {
                "name": name,
                "holds": name not in self.failed,
                "value": number(value),
                "needs": self._needs(name),
                "vacuous": bool(self.vacuous(name)),
                "ratio": number(value / self.limits[name]) if self.limits[name] else None,
                "largest_in_round": t,
                "first_failure": self.failed.get(name),
            }
            for name, (value, t) in self.largest.items()
        ]

    def _needs(self, name: str) -> str:
        digits = ".12g" if name.startswith("A4") else ".4g"
        why = self.vacuous(name)
        return f"<= {self.limits[name]:{digits}}" + (f", vacuous: {why}" if why else "")

    def lemma8(self) -> dict[str, Any]:
        """``sigma_min^2(B_t^T B_*) >= 0.1 E_0 / alpha``: the least value met, as a share of E_0 / alpha."""
        value, t = self.inside
        share = number(value / self.e0) if self.e0 > 0 else None
        return {"holds": value >= LEMMA_8 * self.e0, "smallest": share, "needs": LEMMA_8, "smallest_in_round": t}

"""Proposition E.1 and Corollary E.2 of Fallah et al. 2020: how far local iterates drift apart within a round."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from manyheads.algorithms import PerFedAvg
from manyheads.core.trees import State
from manyheads.theory.fallah2020.meta import gamma_F2, sigma_F2, smoothness_F
from manyheads.theory.fallah2020.similarity import against
from manyheads.theory.fallah2020.smoothness import Constants
from manyheads.theory.landscape import Landscape, Traced

__all__ = ["DRIFTS", "drift", "drift_bounds", "local_drifts"]

DRIFTS = ("local_drift", "local_drift_square")
"""monitors of a round's end"""


def drift_bounds(c: Constants, algorithm: PerFedAvg) -> dict[str, list[float]]:
    """The bounds of the mean distance and of the mean squared distance after t = 1 to tau local steps.

    ``mean`` and ``square`` are (59a) and (59b), the latter with phi = 1/(2 tau) as in Corollary E.2. ``recursion_mean``
    and ``recursion_square`` are the recursions (67) and (80) themselves, from 0: the proof drops the -1 of their sums,
    and with it that there is no drift without steps.
    """
    L, beta, tau = smoothness_F(c, algorithm.alpha), algorithm.beta, algorithm.steps
    sigma2, gamma2 = sigma_F2(c, algorithm), gamma_F2(c, algorithm.alpha)
    phi, t = 1 / (2 * tau), np.arange(1, tau + 1)
    mean, both = (math.sqrt(sigma2) + math.sqrt(gamma2)) / L, 2 * sigma2 + gamma2
    a, b = 1 + 2 * beta * L, 1 + phi + 16 * (1 + 1 / phi) * (beta * L) ** 2
    added = 4 * (1 + 1 / phi) * beta**2 * both
    return {
        "mean": (a**t * mean).tolist(),
        "square": (b**t * both / (4 * L**2)).tolist(),
        "recursion_mean": ((a**t - 1) * mean).tolist(),
        "recursion_square": ((b**t - 1) / (b - 1) * added).tolist(),
    }


def local_drifts(clients: Landscape, algorithm: PerFedAvg, start: Tensor, round: int) -> Tensor:
    """``|w^i_t - w_t|`` of all clients after each local step of a round, t = 1 to tau, repeated from its start, [tau, C]."""
    cohort = clients.cohort_at(round, Traced)
    assert isinstance(cohort, Traced)
    end = algorithm.local(cohort, State(model=clients.tree(start)), State()).upload.model
    points = [clients.flat(w) for w in (*cohort.visited[1:], end)]
    return start.new_tensor([(w - w.mean(dim=0)).norm(dim=1).tolist() for w in points])


def drift(
    clients: Landscape,
    algorithm: PerFedAvg,
    c: Constants,
    starts: Sequence[tuple[int, Tensor]],
    monitors: dict[str, list[float | None]],
) -> dict[str, Any]:
    """Local steps of some rounds (number, start) beside (59), and the drift at the end of every round beside (60)."""
    bounds = drift_bounds(c, algorithm)
    apart = [local_drifts(clients, algorithm, w, round) for round, w in starts]
    mean = np.max([d.mean(dim=1).numpy() for d in apart], axis=0)
    square = np.max([d.square().mean(dim=1).numpy() for d in apart], axis=0)
    steps = [
        {"step": t + 1, "drift": float(mean[t]), "drift_square": float(square[t])}
        | {f"bound_{name}": values[t] for name, values in bounds.items()}
        for t in range(algorithm.steps)
    ]
    return {"steps": steps, "rows": list(_rows(c, algorithm, steps, monitors))}


def _rows(
    c: Constants, algorithm: PerFedAvg, steps: list[dict[str, float]], monitors: dict[str, list[float | None]]
) -> Iterator[dict[str, Any]]:
    L, sigma2, gamma2 = smoothness_F(c, algorithm.alpha), sigma_F2(c, algorithm), gamma_F2(c, algorithm.alpha)
    words = {"drift": "drift of local iterates", "drift_square": "their mean square drift"}
    for key, part, number, name in (("drift", "a", 67, "mean"), ("drift_square", "b", 80, "square")):
        for label, bound in ((f"Proposition E.1 (59{part})", name), (f"Recursion ({number})", f"recursion_{name}")):
            worst = max(steps, key=lambda row: row[key] / row[f"bound_{bound}"] if row[f"bound_{bound}"] else math.inf)
            yield against(label, words[key], worst[key], worst[f"bound_{bound}"])
    limits = (2 * (math.sqrt(sigma2) + math.sqrt(gamma2)) / L, (2 * sigma2 + gamma2) / L**2)
    for monitor, part, limit in zip(DRIFTS, "ab", limits, strict=True):
        seen = [value for value in monitors[monitor] if value is not None]  # None: one client in the round
        what = f"{words[monitor.removeprefix('local_')]}, all rounds"
        yield against(f"Corollary E.2 (60{part})", what, max(seen, default=0.0), limit)

"""Fresh batches in every round, as Theorem 1 has them, against the same samples in all rounds, as clients have them.

Close to the truth, one round of FedRep with exact heads is linear in what B has outside the true subspace, E:
``E <- E - eta T(E)``, ``T(E) = 1/n sum_i A_i E w_i w_i^T``, ``A_i = X_i^T (I - P_i) X_i / m``, where P_i projects on the
features that client i's head is fitted to, ``X_i B_*``. With fresh Gaussian samples the mean of A_i is ``(1 - k/m) I``: a
fitted head takes k of m degrees of freedom. Hence the contraction ``1 - eta (1 - k/m) sigma_min^2``, for B orthonormal. With
fixed samples it is ``1 - eta lambda_min(T)``, which is slower, and may be 0.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from manyheads.algorithms import FedRepLinear
from manyheads.metrics import principal_angle_distance
from manyheads.theory.collins2021.fresh import fresh_rounds
from manyheads.theory.collins2021.tasks import Tasks, enough_for_a_sweep, train_fedrep
from manyheads.theory.facts import condition, fitted_contraction
from manyheads.theory.paper import Say

if TYPE_CHECKING:
    import altair as alt

    from manyheads.theory.collins2021.paper import Collins2021

__all__ = ["batches_figure", "batches_sweep", "limit_rate", "limit_rate_of_fixed"]

NOISE, ROUNDS = 1e-3**0.5, 200
LOW, HIGH = 1e-9, 0.05
"""the distances between which the rate is fitted: closer than Theorem 1's, where a round is linear"""


def limit_rate(heads: np.ndarray, eta: float, samples: int = 0, body: np.ndarray | None = None) -> float:
    """The contraction of FedRep with fresh Gaussian batches of m samples (0: the population), close to the truth.

    ``1 - eta (1 - k/m) lambda_min(1/n sum_i w_i w_i^T)``, w_i the heads that belong to ``body``, ``B_*^T B``, [k, k]. Steps
    are orthogonal to B, so that it stays orthonormal up to their squares; then the eigenvalue is sigma_min^2.

    >>> round(limit_rate(np.eye(2), eta=0.5), 12), round(limit_rate(np.eye(2), eta=0.5, samples=4), 12)
    (0.75, 0.875)
    """
    own = heads if body is None else np.linalg.solve(body, heads.T).T
    smallest = np.linalg.eigvalsh(own.T @ own / len(own))[0]
    return float(1 - eta * (max(0.0, 1 - heads.shape[1] / samples) if samples else 1.0) * smallest)


def limit_rate_of_fixed(tasks: Tasks, eta: float) -> float:
    """The same with the samples of ``tasks`` in all rounds: ``1 - eta lambda_min(T)``, T on the directions outside B_*."""
    x, body = tasks.drawn[0], tasks.truth.body
    outside = np.linalg.qr(np.hstack([body, np.eye(tasks.dim)]))[0][:, tasks.rank : tasks.dim]
    features = x @ body
    away = x - features @ np.linalg.pinv(features) @ x
    inner = np.einsum("cma,cmb->cab", away @ outside, away @ outside) / tasks.samples
    heads = tasks.truth.heads
    whole = np.einsum("cab,ck,cl->akbl", inner, heads, heads) / tasks.clients
    size = outside.shape[1] * tasks.rank
    return float(1 - eta * np.linalg.eigvalsh(whole.reshape(size, size))[0])


def batches_sweep(paper: Collins2021, say: Say) -> dict[str, Any]:
    """FedRep from fresh and from fixed samples, m from k + 1 to 2 d, without and with noise."""
    enough_for_a_sweep(paper.clients, paper.dim, paper.rank)
    k = paper.rank
    rows, series = [], {}
    for noise in (0.0, NOISE):
        for m in (k + 1, 2 * k + 1, paper.dim // 2, 2 * paper.dim):
            say(f"{m} samples per client, noise {noise:.2g}: {ROUNDS} rounds, twice")
            tasks = Tasks(paper.clients, paper.dim, k, m, noise, paper.seed)
            eta = float(paper.clients / (4 * np.linalg.norm(tasks.truth.heads, ord=2) ** 2))
            bodies = fresh_rounds(
                FedRepLinear(eta=eta), tasks.truth, cohort=paper.clients, samples=m, noise=noise, seed=paper.seed
            )
            *_, last = seen = list(islice(bodies, ROUNDS))
            fresh = [principal_angle_distance(body, tasks.truth.body) for body in seen]
            fixed = list(train_fedrep(tasks, ROUNDS, watch=True).distances)
            fit, fit_fixed = (None if noise else fitted_contraction(dist, LOW, HIGH) for dist in (fresh, fixed))
            rows.append(
                {
                    "noise": noise,
                    "samples": m,
                    "fresh": fresh[-1],
                    "fixed": fixed[-1],
                    "rate_fresh": fit["contraction"] if fit else None,
                    "limit_fresh": limit_rate(tasks.truth.heads, eta, m, tasks.truth.body.T @ last),
                    "rate_fixed": fit_fixed["contraction"] if fit_fixed else None,
                    "limit_fixed": limit_rate_of_fixed(tasks, eta),
                }
            )
            series[f"{m} samples, {'noise' if noise else 'no noise'}"] = {"fresh": fresh, "fixed": fixed}
    return {"rows": rows, "series": series, "outcome": _outcome(rows)}


def _outcome(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    few, *_, many = exact = [row for row in rows if not row["noise"]]
    noisy = [row for row in rows if row["noise"]][-2:]
    rated = {kind: [r for r in exact if r[f"rate_{kind}"] is not None] for kind in ("fresh", "fixed")}
    off = {
        kind: max((abs(r[f"rate_{kind}"] - r[f"limit_{kind}"]) for r in found), default=np.inf)
        for kind, found in rated.items()
    }
    slower = min(r["limit_fixed"] - r["limit_fresh"] for r in exact)
    floors = [row["fixed"] / row["fresh"] for row in noisy]
    return [
        condition("m = k + 1 fresh samples a round are enough: distance", few["fresh"] < 0.1, few["fresh"], "< 0.1"),
        condition("m = k + 1 fixed samples are not: distance", few["fixed"] > 0.5, few["fixed"], "> 0.5"),
        condition("fresh: rate against 1 - eta (1 - k/m) sigma_min^2, largest difference", off["fresh"] < 0.01,
                  off["fresh"], "< 0.01"),
        condition("fixed: rate against 1 - eta lambda_min(T), largest difference", off["fixed"] < 0.02, off["fixed"],
                  "< 0.02"),
        condition("fixed samples are slower: least difference of the limit rates", slower > 0, slower, "> 0"),
        condition("with noise fixed samples end further away: least ratio", min(floors) > 1, min(floors), "> 1"),
        condition("without noise, many samples: both find the truth, distance", max(many["fixed"], many["fresh"]) < 1e-5,
                  max(many["fixed"], many["fresh"]), "< 1e-5"),
    ]  # fmt: skip


def batches_figure(facts: dict[str, Any]) -> alt.HConcatChart:
    """Distance over rounds, without noise and with it; fixed samples are dashed."""
    import altair as alt

    from manyheads.theory.figures import lines, rows_of

    panels = []
    for noise in ("no noise", "noise"):
        found = {name.partition(",")[0]: pair for name, pair in facts["series"].items() if name.endswith(f", {noise}")}
        series = {f"{name}, {kind}": pair[kind] for name, pair in found.items() for kind in ("fresh", "fixed")}
        dashed = [name for name in series if name.endswith("fixed")]
        y = f"distance ({'labels with noise' if noise == 'noise' else 'no noise'})"
        panels.append(lines(rows_of(series), y, "round", log=True, dashed=dashed))
    return alt.hconcat(*panels).resolve_scale(color="independent", strokeDash="independent")

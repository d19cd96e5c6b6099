"""Collins et al. 2021: FedRep learns the shared linear representation at a linear rate, from few samples per client."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from manyheads.algorithms import FedRepLinear
from manyheads.core.randomness import Purpose, generator
from manyheads.core.settings import settings
from manyheads.data import LinearTasks, Truth
from manyheads.metrics import principal_angle_distance
from manyheads.theory.collins2021.batches import batches_figure, batches_sweep, limit_rate
from manyheads.theory.collins2021.crossover import map_figure, map_sweep
from manyheads.theory.collins2021.few_samples import newcomer_errors, sample_sweep
from manyheads.theory.collins2021.fresh import fresh_rounds
from manyheads.theory.collins2021.misfits import rank_figure, rank_sweep, shared_figure, shared_sweep
from manyheads.theory.collins2021.single_model import fedavg_figure, fedavg_sweep, irreducible_error
from manyheads.theory.collins2021.subsets import Extremes, extreme_singular_values
from manyheads.theory.collins2021.tasks import normalised
from manyheads.theory.facts import condition, fitted_contraction, number, numbers, within
from manyheads.theory.paper import Say, Sweep

if TYPE_CHECKING:
    import altair as alt

__all__ = ["Collins2021"]

LOW, HIGH = 1e-10, 0.5
"""the distances between which the rate is fitted"""
DIVERGED = 1e8
"""an entry of B, which starts orthonormal"""
METHODS = {"FedRep": 0, "GD-GD": 1, "10GD-GD": 10}
"""gradient steps on the head; 0: exact"""


@settings
class Collins2021:
    """FedRep for linear regression with fresh batches: Theorem 1, the samples it needs, and new clients.

    Reference: Collins, Hassani, Mokhtari, Shakkottai, Exploiting Shared Representations for Personalized Federated
    Learning, ICML 2021.
    """

    name: ClassVar[str] = "collins2021"
    title: ClassVar[str] = "Collins et al. 2021: FedRep on a shared linear representation (Theorem 1)"
    sweeps: ClassVar[Mapping[str, Sweep]] = {
        "fedavg": Sweep("FedAvg learns the representation too, from two local steps on", fedavg_sweep, fedavg_figure),
        "map": Sweep("where FedRep beats each client alone, by clients, dimensions, samples", map_sweep, map_figure),
        "batches": Sweep("fresh batches against the same samples in all rounds", batches_sweep, batches_figure),
        "rank": Sweep("a representation with too few or too many features", rank_sweep, rank_figure),
        "shared": Sweep("a representation that is shared only approximately", shared_sweep, shared_figure),
    }

    dim: Annotated[int, Field(ge=2)] = 20
    """input dimension, d"""
    rank: Annotated[int, Field(ge=1)] = 2
    """dimension of the representation, k"""
    clients: Annotated[int, Field(ge=2)] = 50
    """number of clients, n"""
    participation: Annotated[float, Field(gt=0, le=1)] = 1.0
    """fraction of the clients in each round, r"""
    samples: Annotated[int, Field(ge=1)] = 100
    """fresh samples per client and round, m"""
    noise: Annotated[float, Field(ge=0)] = 0.0
    """standard deviation of the noise on the labels"""
    normalise: bool = True
    """true heads of length sqrt(k), as Assumption 3 has them; otherwise standard normal"""
    eta: Annotated[float, Field(ge=0)] = 0.0
    """step size of the representation; 0: the largest that Theorem 1 allows"""
    head_eta: Annotated[float, Field(gt=0)] = 0.3
    """step size of the head, of GD-GD and 10GD-GD"""
    rounds: Annotated[int, Field(ge=1)] = 200
    """communication rounds after the start, T"""
    only: Literal["all", "convergence", "samples", "newcomers"] = "all"
    """what is measured: the theorem, distances by samples per client, errors of new clients"""
    seed: Annotated[int, Field(ge=0)] = 0
    """everything random comes from it"""

    def run(self, say: Say) -> dict[str, Any]:
        """Theorem 1 on a run, the distance by samples per client, and the errors of new clients."""
        facts: dict[str, Any] = {}
        if self.only in ("all", "convergence"):
            facts |= self._convergence(say)
        if self.only in ("all", "samples"):
            facts["samples"] = sample_sweep(self.dim, self.rank, self.clients, self.seed, say)
        if self.only in ("all", "newcomers"):
            say("new clients")
            facts["newcomers"] = newcomer_errors(self.dim, self.rank, self.clients, self.seed)
        return facts

    @staticmethod
    def figure(facts: dict[str, Any]) -> alt.ConcatChart:
        """The parts that were measured: Theorem 1, distance and error by samples per client, new clients."""
        from manyheads.theory.collins2021.figure import figure

        return figure(facts)

    @property
    def cohort(self) -> int:
        """rn"""
        return max(1, round(self.participation * self.clients))

    def truth(self) -> Truth:
        """B_* with orthonormal columns and heads of length sqrt(k)."""
        truth = LinearTasks(clients=self.clients, dim=self.dim, rank=self.rank).truth(self.seed)
        return normalised(truth) if self.normalise else truth

    def _convergence(self, say: Say) -> dict[str, Any]:
        truth = self.truth()
        sigma = extreme_singular_values(truth.heads, self.cohort, generator(self.seed, Purpose.SAMPLING, 0))
        eta = self.eta or 1 / (4 * sigma.largest[1] ** 2)
        runs = {name: self._distances(name, truth, eta, say) for name in METHODS}
        dist = {name: found for name, (found, _) in runs.items()}
        start = dist["FedRep"][0] or 0.0
        e0 = 1 - start**2
        # (10), with the largest value that sigma_min can have: the strictest form
        factor = max(0.0, 1 - eta * e0 * sigma.smallest[1] ** 2 / 2)
        bound = start * factor ** (np.arange(self.rounds + 1) / 2)
        measured = np.array([np.inf if v is None else v for v in dist["FedRep"]])
        violations = int((measured > np.maximum(bound, 1e-14)).sum())
        conditions, ratio = self._conditions(truth, sigma, eta, e0)
        return {
            "problem": {
                "E_0": e0,
                "dist_0": start,
                "sigma_min": list(sigma.smallest),
                "sigma_max": list(sigma.largest),
                "sigma_exact": sigma.exact,
                "kappa": number(_kappa(sigma)),
                "eta": eta,
                "failure_probability": _failure(self.rank, self.cohort, self.dim, self.rounds),
            },
            "conditions": conditions,
            "within_assumptions": within(conditions),
            "bound": {
                "contraction": float(np.sqrt(factor)),
                "violations": violations,
                "rounds": self.rounds,
                "verdict": _verdict(violations, within(conditions), ratio),
            },
            "measured": {
                name: fitted_contraction([v for v in values if v is not None], LOW, HIGH)
                for name, values in dist.items()
            },
            "limit": {
                "population": limit_rate(truth.heads, eta),
                "batches": limit_rate(truth.heads, eta, self.samples, truth.body.T @ runs["FedRep"][1]),
            },
            "single_model": {"irreducible": irreducible_error(truth.heads)},
            "series": {"bound": numbers(bound), **dist},
        }

    def _distances(self, name: str, truth: Truth, eta: float, say: Say) -> tuple[list[float | None], np.ndarray]:
        """The distance after each round, from the start on, None from where the method diverged; and the last B."""
        say(f"{name}: {self.rounds} rounds")
        algorithm = FedRepLinear(eta=eta, head_steps=METHODS[name], head_lr=self.head_eta)
        bodies = fresh_rounds(
            algorithm, truth, cohort=self.cohort, samples=self.samples, noise=self.noise, seed=self.seed
        )
        dist: list[float | None] = []
        last = truth.body
        for body in islice(bodies, self.rounds + 1):
            if not np.abs(body).max() < DIVERGED:
                say(f"{name} diverged in round {len(dist)}")
                break
            dist.append(principal_angle_distance(body, truth.body))
            last = body
        return dist + [None] * (self.rounds + 1 - len(dist)), last

    def _conditions(
        self, truth: Truth, sigma: Extremes, eta: float, e0: float
    ) -> tuple[list[dict[str, Any]], float | None]:
        k, d, rn = self.rank, self.dim, self.cohort
        lengths = np.linalg.norm(truth.heads, axis=1)
        scale = _kappa(sigma) ** 4 / e0**2 * (k**3 * np.log(rn) + k**2 * d / rn) if e0 > 0 else np.inf
        ratio = number(self.samples / scale)
        most, maybe = (1 / (4 * s**2) for s in (sigma.largest[1], sigma.largest[0]))
        small_enough = True if eta <= most * (1 + 1e-12) else (False if eta > maybe else None)
        diverse = True if sigma.smallest[0] > 0 else (False if sigma.smallest[1] == 0 else None)
        off = float(np.abs(lengths - np.sqrt(k)).max())
        return [
            condition("labels without noise (Section 4)", self.noise == 0, self.noise, "0"),
            condition("client diversity: sigma_min (Assumption 2)", diverse, sigma.smallest[1], "> 0"),
            condition("client normalisation: | |w_i| - sqrt(k) | (Assumption 3)", off < 1e-9, off, "0"),
            condition("step size: eta", small_enough, eta, f"<= {most:.4g}"),
            condition("start: E_0", e0 > 0, e0, "> 0"),
            condition(
                "samples: m, as a multiple of the bound with c = 1", None, ratio, ">= c, a constant without a name"
            ),
        ], ratio


def _kappa(sigma: Extremes) -> float:
    return sigma.largest[0] / sigma.smallest[1] if sigma.smallest[1] > 0 else np.inf


def _failure(k: int, rn: int, d: int, rounds: int) -> float:
    """An upper bound of the probability that Theorem 1 fails."""
    return float(min(1.0, rounds * np.exp(-100 * min(k**2 * np.log(rn), d))))


def _verdict(violations: int, inside: bool | None, ratio: float | None) -> str:
    if not violations:
        return "bound (10) holds in every round"
    if inside is False:
        return f"bound (10) does not hold in {violations} rounds; the run is outside the assumptions"
    share = "no multiple" if ratio is None else f"{ratio:.2g} times"
    return (
        f"bound (10) does not hold in {violations} rounds; m is {share} what the theorem asks for with c = 1, so whether "
        "the run is within the assumptions is open"
    )

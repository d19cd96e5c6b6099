"""Figure 3: exact heads (FedRep) against one and ten gradient steps on them, for several numbers of clients."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice, pairwise
from typing import Annotated, Any, ClassVar, Literal

import altair as alt
import numpy as np
from pydantic import Field

from manyheads.algorithms import FedRepLinear
from manyheads.core.settings import settings
from manyheads.metrics import principal_angle_distance
from manyheads.reproduce.claims import Check, Claim, above
from manyheads.reproduce.collins2021.linear import Noise, standard_deviation
from manyheads.reproduce.drawing import banded, row
from manyheads.reproduce.experiment import Experiment, Facts, Measured, Place, Scale, register
from manyheads.theory import Collins2021
from manyheads.theory.collins2021.fresh import fresh_rounds

__all__ = ["Figure3"]

METHODS = {"FedRep": 0, "10GD-GD": 10, "GD-GD": 1}
"""gradient steps on the head; 0: exact"""
AUTHORS: dict[str, dict[int, float]] = {
    "FedRep": {10: 0.4, 100: 4.0, 1000: 60.0},
    "GD-GD": {10: 0.12, 100: 0.75, 1000: 1.0},
    "10GD-GD": {10: 0.01, 100: 0.4, 1000: 0.25},
}
"""step sizes in the authors' notebook, by the number of clients"""
By = Literal["theorem", "authors"]
EVERY = 2
"""rounds between two distances that are kept"""
STILL = 0.1
"""decades: a distance that falls by less hardly moves"""
SMALLER = 1e8
"""entries of B, which starts orthonormal, are smaller unless a method diverged"""


@register
@settings
class Figure3(Experiment):
    """Distance from the true representation over rounds, a panel for each number of clients."""

    name: ClassVar[str] = "collins2021.figure3"
    title: ClassVar[str] = "FedRep's exact heads against gradient steps on the heads, for more and more clients"
    about: ClassVar[
        str
    ] = """Multi-task linear regression, d 10, k 2, a tenth of the n clients in each of 200 rounds with 5 fresh samples
        each, start by the method of moments (Algorithm 2). Principal angle distance (not squared) over rounds; the band goes
        from the least to the greatest trial. The fourth n is not known: 10000. Upper row: the same steps for all methods, 1/(4k)
        for the representation, the largest that Theorem 1 allows whichever clients take part, and 0.2 for heads (with 0.3, one
        in fifty thousand batches of five samples makes gradient descent on the head diverge). Lower row: the authors' tuned
        steps, one for both head and representation, converted from heads of length sqrt(k/n), the scale at which all of them
        are stable, to heads of length sqrt(k) (Assumption 3): the representation's is divided by n. N(., 1e-3) is read as a
        variance."""
    scales: ClassVar[Mapping[Scale, Mapping[str, Any]]] = {
        "quick": {"seeds": 5, "clients": (10, 100, 1000), "rounds": 100},
        "paper": {},
    }
    minutes: ClassVar[Mapping[Scale, float]] = {"quick": 0.2, "paper": 1}

    seeds: int = 10
    clients: tuple[int, ...] = (10, 100, 1000, 10_000)
    dim: int = 10
    rank: int = 2
    samples: int = 5
    participation: Annotated[float, Field(gt=0, le=1)] = 0.1
    rounds: int = 200
    noise: Annotated[float, Field(ge=0)] = 1e-3
    noise_is: Noise = "variance"
    """what the paper's N(., 1e-3) gives: the variance, as notation has it, or the standard deviation"""
    head_lr: float = 0.2
    """step size of the heads of GD-GD and 10GD-GD"""
    early: int = 50
    """round in which distances are compared, before they are down to the noise"""

    def parts(self) -> list[str]:
        return [_part(by, n, name) for by in ("theorem", "authors") for n in self.panels(by) for name in METHODS]

    def panels(self, by: By) -> list[int]:
        """The numbers of clients; the authors' steps are known for some."""
        return [n for n in self.clients if by == "theorem" or n in AUTHORS["FedRep"]]

    def measure(self, part: str, seed: int, place: Place) -> Facts:
        by, n, name = _read(part)
        truth = Collins2021(dim=self.dim, rank=self.rank, clients=n, seed=seed).truth()
        eta, head_lr = 1 / (4 * self.rank), self.head_lr
        if by == "authors":
            eta, head_lr = AUTHORS[name][n] / n, AUTHORS[name][n]
        bodies = fresh_rounds(
            FedRepLinear(eta=eta, head_steps=METHODS[name], head_lr=head_lr),
            truth,
            cohort=max(1, round(self.participation * n)),
            samples=self.samples,
            noise=standard_deviation(self.noise, self.noise_is),
            seed=seed,
        )
        distance: list[float | None] = []
        for body in islice(bodies, 0, self.rounds + 1, EVERY):
            place.say(f"round {EVERY * len(distance)}/{self.rounds}")
            finite = np.abs(body).max() < SMALLER
            distance.append(principal_angle_distance(body, truth.body) if finite else None)
        return {"distance": distance, "eta": eta}

    def claims(self, found: Measured) -> list[Claim]:
        gradient = [name for name in METHODS if name != "FedRep"]
        ends = (min(self.clients), max(self.clients))
        return [
            Claim(
                "the more clients there are, the faster FedRep converges",
                tuple(self._more_clients(found, "theorem", "FedRep")),
            ),
            Claim(
                "GD-GD and 10GD-GD do not scale with the number of clients",
                tuple(self._falls_less(found, "theorem", name, *ends) for name in gradient),
                "with steps by the theorem they do as FedRep does. With the authors' steps they do not: one step size serves both "
                "the head, where stability limits it whatever n is, and the representation, where on the scale of Assumption 3 it "
                "is divided by n (lower row of the figure)",
            ),
            Claim(
                "exact heads converge fastest, then those by ten steps, then those by one",
                tuple(c for n in self.clients for c in self._order(found, "theorem", n, list(METHODS))),
                "ten steps of 0.2 bring a head so near to the best one that 10GD-GD and FedRep are about equally fast; with "
                "n = 10 a single client takes part in a round, and differences between trials are larger than those between methods",
            ),
            *self._found_here(found, gradient),
        ]  # fmt: skip

    def _found_here(self, found: Measured, gradient: list[str]) -> list[Claim]:
        panels = self.panels("authors")
        if len(panels) < 2:
            return []
        few, more = min(panels), max(panels)
        falls = {name: self._early(found, "authors", more, name)[1] for name in gradient}
        still = [
            above(f"{name}: falls by less than {STILL:g} decades with n {more}", np.full_like(fall, STILL), fall)
            for name, fall in falls.items()
        ]
        checks = (self._falls_less(found, "authors", "FedRep", more, few), *still)
        return [Claim("with the authors' steps, FedRep alone gains by more clients", checks, found_here=True)]

    def _early(self, found: Measured, by: By, n: int, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Logarithms of the distance in an early round, and by how much it fell until then, for each seed.

        After a divergence the distance counts as 1, the largest there is.
        """
        curves = [facts["distance"] for facts in found.get(_part(by, n, name), {}).values()]
        at = min(self.early, self.rounds)
        start, early = (np.log10([1.0 if c[t] is None else c[t] for c in curves]) for t in (0, at // EVERY))
        return early, start - early

    def _more_clients(self, found: Measured, by: By, name: str) -> list[Check]:
        return [
            above(f"n {more}: {name} below its distance with n {few}", self._early(found, by, few, name)[0],
                  self._early(found, by, more, name)[0], unit=" decades")
            for few, more in pairwise(self.panels(by))
        ]  # fmt: skip

    def _falls_less(self, found: Measured, by: By, name: str, few: int, more: int) -> Check:
        """Whether the distance falls no more with ``more`` clients than with ``few``."""
        what = f"{name}: falls less with n {more} than with n {few}"
        return above(what, self._early(found, by, few, name)[1], self._early(found, by, more, name)[1], unit=" decades")

    def _order(self, found: Measured, by: By, n: int, names: list[str]) -> list[Check]:
        return [
            above(f"n {n}: {fast} below {slow}", self._early(found, by, n, slow)[0],
                  self._early(found, by, n, fast)[0], unit=" decades")
            for fast, slow in pairwise(names)
        ]  # fmt: skip

    def figure(self, found: Measured) -> Any:
        words: dict[By, str] = {"theorem": "steps by Theorem 1", "authors": "authors' steps"}
        lines = [
            alt.hconcat(*(self._panel(found, by, n, f"n = {n}, {words[by]}") for n in self.panels(by))).resolve_scale(
                y="shared"
            )
            for by in words
            if self.panels(by)
        ]
        return alt.vconcat(*lines)

    def _panel(self, found: Measured, by: By, n: int, title: str) -> Any:
        rows = [
            row(name, seed, EVERY * t, y)
            for name in METHODS
            for seed, facts in found.get(_part(by, n, name), {}).items()
            for t, y in enumerate(facts["distance"])
        ]
        return banded(rows, "distance", "round", title=title, log=True, width=210, height=180)


def _part(by: By, n: int, name: str) -> str:
    return f"{by} n {n}: {name}"


def _read(part: str) -> tuple[By, int, str]:
    by, _, n, name = part.replace(":", "").split()
    return by, int(n), name  # type: ignore[return-value]

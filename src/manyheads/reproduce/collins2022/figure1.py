"""Figure 1: FedAvg with two local steps learns the representation at a linear rate, distributed GD does not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from manyheads.core.settings import settings
from manyheads.reproduce.claims import Claim, above, holds
from manyheads.reproduce.collins2022.linear import PopulationRuns, iterates, line_of, tau_of
from manyheads.reproduce.drawing import banded, row
from manyheads.reproduce.experiment import Facts, Measured, Place, Scale, register
from manyheads.theory.facts import fitted_contraction

__all__ = ["Figure1"]

LOW, HIGH = 1e-10, 0.5
"""distances between which the decay is fitted"""


@register
@settings
class Figure1(PopulationRuns):
    """Distance from the true representation over rounds."""

    name: ClassVar[str] = "collins2022.figure1"
    title: ClassVar[str] = "FedAvg learns the shared linear representation, D-GD does not"
    about: ClassVar[
        str
    ] = """Multi-task linear regression with population gradients, all clients in every round, B_0 the Q of a
        Gaussian matrix divided by sqrt(alpha), w_0 = 0. Principal angle distance of the global representation from the true
        one over rounds; the band goes from the least to the greatest trial."""
    scales: ClassVar[Mapping[Scale, Mapping[str, Any]]] = {"quick": {"seeds": 3, "rounds": 200}, "paper": {}}
    minutes: ClassVar[Mapping[Scale, float]] = {"quick": 0.1, "paper": 0.2}

    def measure(self, part: str, seed: int, place: Place) -> Facts:
        return {"distance": [each.distance for each in iterates(self.setting(part, seed))]}

    def claims(self, found: Measured) -> list[Claim]:
        falls, stays = [], []
        for part, runs in found.items():
            tau = tau_of(part)
            first, last = ([facts["distance"][at] for facts in runs.values()] for at in (0, -1))
            if tau == 1:
                kept = np.divide(last, first)
                words = f"last distance / first: {kept.min():.4f} to {kept.max():.4f} over {len(kept)} seeds"
                stays.append(holds(f"{line_of(tau)}: at least 0.95 of the start is left", kept.min() >= 0.95, words))
                continue
            fits = [fitted_contraction(facts["distance"], LOW, HIGH) for facts in runs.values()]
            r2 = [fit["r2"] if fit else 0.0 for fit in fits]
            rates = [fit["contraction"] for fit in fits if fit]
            words = f"r² of a line through log distance: {min(r2):.4f} to {max(r2):.4f}"
            words += f", factor a round {min(rates):.4f} to {max(rates):.4f}" if rates else ""
            falls.append(holds(f"{line_of(tau)}: log distance is a straight line, r² of 0.98", min(r2) >= 0.98, words))
            drop = above(
                f"{line_of(tau)}: falls by a factor of 100", np.log10(first), np.log10(last), by=2, unit=" decades"
            )
            falls.append(drop)
        return [
            Claim("FedAvg's distance falls linearly on a logarithmic scale", tuple(falls)),
            Claim("D-GD's distance stays at its start", tuple(stays)),
        ]

    def figure(self, found: Measured) -> Any:
        rows = [
            row(line_of(tau_of(part)), seed, t, value)
            for part, runs in found.items()
            for seed, facts in runs.items()
            for t, value in enumerate(facts["distance"])
        ]
        return banded(rows, "distance from the true representation", "round", log=True, width=420, height=260)

"""Deng et al. 2022: what the theory of Local SGD on deep ReLU networks says of a run, and what the run does."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from manyheads.core.randomness import Purpose, generator
from manyheads.core.settings import as_dict, build, settings
from manyheads.data import Federation, Samples
from manyheads.theory.deng2022.by_data import by_data, by_data_figure
from manyheads.theory.deng2022.lemmas import LEMMA_3
from manyheads.theory.deng2022.local_sgd import local_sgd, local_sgd_figure
from manyheads.theory.deng2022.measure import measure
from manyheads.theory.deng2022.separation import separated, separation
from manyheads.theory.facts import condition, within
from manyheads.theory.paper import Say, Sweep

if TYPE_CHECKING:
    import altair as alt

__all__ = ["Deng2022"]


@settings
class Deng2022:
    """Local GD and Local SGD on a deep ReLU network whose top layer is fixed: Theorems 1 and 2, Lemmas 1 to 9.

    Inputs are random on the unit sphere, at least ``separation`` apart, with random targets of norm 1. The paper names no
    constants: what it bounds by O(.) or Omega(.) is shown as the measured quantity over the expression in the brackets,
    which has to stay in a band as width, depth and the number of local steps change.

    Reference: Deng, Kamani, Mahdavi, Local SGD Optimizes Overparameterized Neural Networks in Polynomial Time, AISTATS
    2022.
    """

    name: ClassVar[str] = "deng2022"
    title: ClassVar[str] = "Deng et al. 2022: Local SGD trains wide ReLU networks at a linear rate (Theorems 1 and 2)"
    sweeps: ClassVar[Mapping[str, Sweep]] = {
        "data": Sweep("gradients and rates by K, n and phi: Lemma 2 needs K n", by_data, by_data_figure),
        "local-sgd": Sweep(
            "Local SGD at Theorem 2's own step size: its rate, and Lemmas 7 and 9", local_sgd, local_sgd_figure
        ),
    }

    width: Annotated[int, Field(ge=2)] = 256
    """neurons per layer, m"""
    depth: Annotated[int, Field(ge=1)] = 2
    """hidden layers, L"""
    tau: Annotated[int, Field(ge=1)] = 5
    """local steps per round"""
    widths: tuple[Annotated[int, Field(ge=2)], ...] = (32, 64, 128)
    """other widths to compare with"""
    depths: tuple[Annotated[int, Field(ge=1)], ...] = (1, 3)
    """other depths to compare with"""
    taus: tuple[Annotated[int, Field(ge=1)], ...] = (1, 2, 10)
    """other numbers of local steps to compare with"""
    gradient: Literal["full", "single"] = "full"
    """full: Local GD, Theorem 1; single: Local SGD, n times the gradient of one sample, Theorem 2"""
    step: Annotated[float, Field(gt=0)] = 4.0
    """eta = step * d / (m L tau); of Local SGD, divided by n too"""
    clients: Annotated[int, Field(ge=2)] = 4
    """number of clients, K"""
    samples: Annotated[int, Field(ge=1)] = 5
    """samples per client, n"""
    dim: Annotated[int, Field(ge=2)] = 20
    """length of the inputs"""
    outputs: Annotated[int, Field(ge=1)] = 5
    """length of the targets, d: the fixed top layer is N(0, 1/d)"""
    separation: Annotated[float, Field(ge=0, lt=2)] = 0.5
    """least distance of two inputs"""
    rounds: Annotated[int, Field(ge=10)] = 60
    """communication rounds, R"""
    views: Annotated[int, Field(ge=2)] = 5
    """rounds whose local steps are followed"""
    seed: Annotated[int, Field(ge=0)] = 0
    """everything random comes from it"""

    @property
    def eta(self) -> float:
        """The step size. It shrinks as 1/(m tau), as both theorems have it."""
        return self.step * self.outputs / (self.width * self.depth * self.tau * self.scale)

    @property
    def single(self) -> bool:
        return self.gradient == "single"

    @property
    def scale(self) -> int:
        """What Algorithm 1 multiplies a gradient by: n if it is that of one sample."""
        return self.samples if self.single else 1

    def federation(self) -> Federation:
        rng = generator(self.seed, Purpose.DATA)
        count = self.clients * self.samples
        x = separated(rng, count, self.dim, self.separation)
        y = rng.normal(size=(count, self.outputs))
        y /= np.linalg.norm(y, axis=1, keepdims=True)
        samples = Samples(x, y, np.arange(self.clients + 1) * self.samples)
        return Federation("deng2022", samples, samples, "regression", self.outputs)

    def run(self, say: Say) -> dict[str, Any]:
        """The run itself, then the same with other widths, depths and numbers of local steps."""
        phi = separation(self.federation().train.x)
        conditions = self._conditions(phi)
        base = measure(self, phi, say)
        others = {"width": self.widths, "tau": self.taus, "depth": self.depths}
        runs = {name: {getattr(self, name): base} for name in others}
        for name, values in others.items():
            for value in values:
                if value not in runs[name]:
                    changed = build(Deng2022, as_dict(self) | {name: value}, where=self.name)
                    runs[name][value] = measure(changed, phi, say)
        return {
            "phi": phi,
            "eta": self.eta,
            "conditions": conditions,
            "within_assumptions": within(conditions),
            **base,
            **{f"by_{name}": [_compared(name, v, found[v]) for v in sorted(found)] for name, found in runs.items()},
            "losses": {
                name: {str(v): found[v]["series"]["loss"] for v in sorted(found)} for name, found in runs.items()
            },
        }

    @staticmethod
    def figure(facts: dict[str, Any]) -> alt.VConcatChart | alt.ConcatChart:
        """The loss at several widths and numbers of local steps, and what has to stay in a band as the width grows."""
        from manyheads.theory.deng2022.figure import figure

        return figure(facts)

    def _conditions(self, phi: float) -> list[dict[str, Any]]:
        """What the run's theorem asks for, hidden constants taken as 1."""
        n, L, log_m, d = self.samples, self.depth, math.log(self.width), self.outputs
        power, logs, phis = (18, 5, 3) if self.single else (16, 3, 5)
        wide = self.clients * d * n**power * L**12 * log_m**logs / phi**phis
        scale = d * phi / (self.tau * n**3 * log_m**2) if self.single else d * n**2 / (phi * self.tau)
        conditions = [
            condition("separated inputs: phi (Assumption 1)", phi > 0, phi, "> 0"),
            condition("width: m", self.width >= wide, self.width, f"of order {wide:.1e} or more"),
        ]
        if self.single:  # the proof loses a factor 1/phi of the distance from the start
            wide /= phi**2
            needs = f"of order {wide:.1e} or more"
            conditions.append(condition("width: m, with the proof's 1/phi", self.width >= wide, self.width, needs))
        needs = f"of order {scale / self.width:.2e}, constant not named"
        conditions.append(condition("step size: eta", None, self.eta, needs))
        if not self.single:
            stable = f"of order {d / (2 * self.tau * L**2 * self.width):.2e} or less, not named"
            conditions.append(condition("step size: eta, in the proof (A.2.2)", None, self.eta, stable))
        return conditions


def _compared(name: str, value: int, found: dict[str, Any]) -> dict[str, Any]:
    """A run as a row of a table."""
    measured, fit, ratios = found["measured"], found["measured"]["fit"], found["ratios"]
    chosen = (
        "gradient_upper", "gradient_lower", "deviation", "outputs", "outputs_m_d", "distance", "semi_smoothness", *LEMMA_3,
        "stochastic_mean", "stochastic_largest",
    )  # fmt: skip
    return {
        name: value,
        "rate": measured["rate"],
        "r2": fit["r2"] if fit else None,
        "last_loss": measured["last_loss"],
        "from_start": measured["distance_frobenius"],
        **{key: ratios[key] for key in chosen},
    }

"""Figure 3: D-GD reaches a stationary point of the global loss, FedAvg does not, and yet serves new clients better."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal

import altair as alt
import numpy as np
from pydantic import Field

from manyheads.core.optim import FineTune
from manyheads.core.settings import settings
from manyheads.reproduce.claims import Check, Claim, above, holds
from manyheads.reproduce.collins2022.linear import PopulationRuns, errors_of_new_client, iterates, line_of, tau_of
from manyheads.reproduce.drawing import banded, row
from manyheads.reproduce.experiment import Facts, Measured, Place, Scale, register
from manyheads.theory.facts import fitted_contraction

__all__ = ["Figure3"]

EVERY = 10
"""rounds between two gradient norms that are kept"""
LOW, HIGH = 1e-12, 1e-3
"""gradient norms between which the decay is fitted"""
HEAD_ALONE = ", head alone"
Scope = Literal["all", "head"]
SCOPES: tuple[Scope, ...] = ("all", "head")


@register
@settings
class Figure3(PopulationRuns):
    """Gradient norm of the global loss over rounds, and the error of a fine-tuned new client against its samples."""

    name: ClassVar[str] = "collins2022.figure3"
    title: ClassVar[str] = "D-GD minimises the global loss, FedAvg's model serves a new client better"
    about: ClassVar[
        str
    ] = """The runs of Figure 1. Left: norm of the gradient of the global loss over rounds. Right: squared distance of a
        new client's model from the truth after 200 steps of gradient descent with step 0.01 on its n samples, with noise of
        variance 0.01: mean and standard deviation over trials, each with a training and a new client of its own. As equation
        (4) has it, the whole model is tuned; dashed: the head alone. The paper does not say how many rounds were run: 2000,
        since D-GD's gradient falls slowly; nor which n: 10 to 1000. Inputs have d dimensions, as in Section 5.1 (in Appendix C,
        x ~ N(0, I_k) is a slip)."""
    scales: ClassVar[Mapping[Scale, Mapping[str, Any]]] = {
        "quick": {"seeds": 5, "samples": (10, 50, 200)},
        "paper": {},
    }
    minutes: ClassVar[Mapping[Scale, float]] = {"quick": 0.1, "paper": 0.4}

    rounds: int = 2000
    samples: tuple[int, ...] = (10, 20, 50, 100, 200, 500, 1000)
    """numbers n of the new client's samples"""
    noise: Annotated[float, Field(ge=0)] = 0.01
    """variance of the noise on the new client's labels"""
    tune_steps: int = 200
    tune_lr: float = 0.01

    def measure(self, part: str, seed: int, place: Place) -> Facts:
        setting, gradient = self.setting(part, seed), []
        for t, iterate in enumerate(iterates(setting)):
            if t % EVERY == 0:
                gradient.append(iterate.gradient)
            if t % 100 == 0:
                place.say(f"round {t}/{self.rounds}")
        facts: Facts = {"gradient": gradient, "distance": iterate.distance}
        for scope in SCOPES:
            tune = FineTune(scope=scope, steps=self.tune_steps, batch=0, lr=self.tune_lr, momentum=0.0)
            facts[scope] = errors_of_new_client(setting, iterate, self.samples, np.sqrt(self.noise), tune)
        return facts

    def claims(self, found: Measured) -> list[Claim]:
        gradients = {part: _gradients(part, [f["gradient"] for f in runs.values()]) for part, runs in found.items()}
        vanishes = [check for part, checks in gradients.items() if tau_of(part) == 1 for check in checks]
        stays = [check for part, checks in gradients.items() if tau_of(part) > 1 for check in checks]
        return [
            Claim("D-GD converges linearly to a stationary point of the global loss", tuple(vanishes)),
            Claim("FedAvg does not converge to a stationary point of the global loss", tuple(stays)),
            Claim("FedAvg's model, fine-tuned, is closer to a new client's truth for every n", self._lower(found)),
            Claim(
                "on FedAvg's representation it is better to tune the head alone, on D-GD's worse from n = d on",
                self._head_alone(found),
                found_here=True,
            ),
        ]

    def _lower(self, found: Measured) -> tuple[Check, ...]:
        """FedAvg below D-GD for each n, by the logarithms of their errors."""
        d_gd = _logs(found.get("tau 1", {}), "all")
        return tuple(
            above(f"n {n}: {line_of(tau_of(part))} below D-GD", high, low, unit=" decades")
            for part, runs in found.items()
            if tau_of(part) > 1
            for n, high, low in zip(self.samples, d_gd, _logs(runs, "all"), strict=False)
        )

    def _head_alone(self, found: Measured) -> tuple[Check, ...]:
        checks = []
        for part, runs in found.items():
            whole, head = (_logs(runs, scope) for scope in SCOPES)
            for n, all_, alone in zip(self.samples, whole, head, strict=True):
                name = f"n {n}: {line_of(tau_of(part))}: head alone"
                if tau_of(part) > 1:
                    checks.append(above(f"{name} below the whole model", all_, alone, unit=" decades"))
                elif n >= self.dim:
                    checks.append(above(f"{name} above the whole model", alone, all_, unit=" decades"))
        return tuple(checks)

    def figure(self, found: Measured) -> Any:
        runs = [(line_of(tau_of(p)), seed, facts) for p, each in found.items() for seed, facts in each.items()]
        left = [row(name, seed, EVERY * t, y) for name, seed, f in runs for t, y in enumerate(f["gradient"])]
        right = [
            row(name + (HEAD_ALONE if scope == "head" else ""), seed, n, y)
            for scope in SCOPES
            for name, seed, f in runs
            for n, y in zip(self.samples, f[scope], strict=True)
        ]
        like = {f"{name}{HEAD_ALONE}": name for name, _, _ in runs}
        return alt.hconcat(
            banded(left, "gradient norm of the global loss", "round", log=True),
            banded(
                right, "squared distance from the truth", "samples of the new client, n",
                log_x=True, points=True, like=like, spread="deviation",
            ),
        ).resolve_scale(color="independent", strokeDash="independent")  # fmt: skip


def _logs(runs: Mapping[int, Facts], scope: Scope) -> np.ndarray:
    """Logarithms of the new clients' errors, [n, seed]."""
    return np.log10([facts[scope] for facts in runs.values()]).T


def _gradients(part: str, curves: list[list[float]]) -> list[Check]:
    """Whether gradient norms fall linearly on a logarithmic scale to nothing (one local step), or come to a stand."""
    name, first, last = line_of(tau_of(part)), *(np.array([curve[at] for curve in curves]) for at in (0, -1))
    left = last / first
    words = f"last / first: {left.min():.1e} to {left.max():.1e} over {len(left)} seeds"
    if tau_of(part) > 1:
        half = [curve[len(curve) // 2 :] for curve in curves]
        moved = max(abs(b / a - 1) for curve in half for a, b in pairwise(curve))
        return [
            holds(f"{name}: at least a tenth of the first gradient is left", left.min() >= 0.1, words),
            holds(f"{name}: it stands still in the second half", moved < 1e-6, f"largest relative change {moved:.1e}"),
        ]
    fits = [fitted_contraction(curve, LOW, HIGH) for curve in curves]
    r2 = [fit["r2"] if fit else 0.0 for fit in fits]
    rates = [fit["contraction"] ** (1 / EVERY) for fit in fits if fit]
    line = f"r² of a line through log gradient below {HIGH:g}: {min(r2):.4f} to {max(r2):.4f}"
    line += f", factor a round {min(rates):.4f} to {max(rates):.4f}" if rates else ""
    return [
        holds(f"{name}: the gradient falls by a factor of 1000", left.max() <= 1e-3, words),
        holds(f"{name}: log gradient is a straight line, r² of 0.98", min(r2) >= 0.98, line),
    ]

"""What Deng et al. 2022 bound, measured on a run."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from manyheads.algorithms import LocalSGD
from manyheads.core.trees import State, Tree
from manyheads.data import Federation
from manyheads.models import Model, ReluNet, build_model
from manyheads.run import Evaluate, simulate
from manyheads.theory.deng2022.lemmas import perturbation, semi_smoothness, stochastic_gradient
from manyheads.theory.deng2022.network import Layers, spectral, top_layer
from manyheads.theory.facts import fitted_contraction, number
from manyheads.theory.landscape import Landscape, Traced
from manyheads.theory.paper import Say

if TYPE_CHECKING:
    from manyheads.theory.deng2022.paper import Deng2022

__all__ = ["measure", "network"]

SMALLEST = 1e-24
"""losses below are rounding: the run is over"""


def network(paper: Deng2022) -> tuple[Federation, Model]:
    """The clients, and the network at its start."""
    federation = paper.federation()
    spec = ReluNet(width=paper.width, depth=paper.depth)
    return federation, build_model(spec, federation.sample_shape, federation.outputs, paper.seed, "float64")


def measure(paper: Deng2022, phi: float, say: Say) -> dict[str, Any]:
    """One run and the ratios of its quantities to the expressions that bound them."""
    say(f"width {paper.width}, depth {paper.depth}, {paper.tau} local steps")
    federation, model = network(paper)
    algorithm = LocalSGD(gradient=paper.gradient, steps=paper.tau, lr=paper.eta)
    states: list[State] = []
    simulate(
        algorithm, model, federation, rounds=paper.rounds, seed=paper.seed, evaluate=Evaluate(every=paper.rounds),
        on_round=lambda end: states.append(end.server),
    )  # fmt: skip
    land = Landscape(model, federation, paper.seed)
    path = [model.params.all, *(state.model for state in states)]
    loss = [float(land.losses(land.flat(w)).mean()) for w in path]
    done = next((c for c, value in enumerate(loss) if value < SMALLEST), len(loss))
    path, loss = path[:done], loss[:done]
    slopes = [land.gradients(land.flat(w)).mean(dim=0) for w in path]
    far = [float(land.flat(w - path[0]).norm()) for w in path]
    chosen = np.unique(np.linspace(0, min(done, paper.rounds) - 1, paper.views).astype(int)).tolist()
    omega = max(spectral(path[c] - path[0]) for c in (*chosen, -1))
    local = [{"round": c + 1} | _local(paper, land, algorithm, path[c], c + 1, loss[c], omega) for c in chosen]
    found = _summary(paper, phi, loss, [float(g.square().sum()) for g in slopes], far, omega, local)
    moves = [b - a for a, b in pairwise(path)]
    linear = [float(slope @ land.flat(move)) for slope, move in zip(slopes, moves, strict=False)]  # none from the last
    found["ratios"] |= {
        "semi_smoothness": semi_smoothness(moves, loss, linear, omega, paper.width, paper.outputs),
        **_layers(paper, model, federation, [path[c] for c in chosen]),
    }
    return found


def _layers(paper: Deng2022, model: Model, federation: Federation, path: list[Tree]) -> dict[str, float]:
    """Lemma 3 at some points of a run, and Lemma 7, the largest over them."""
    x, y = (torch.from_numpy(v) for v in (federation.train.x, federation.train.y))
    points = [(w, Layers.of(w, top_layer(model), x)) for w in path]
    drawn = [stochastic_gradient(at, y, paper.clients) for _, at in points]
    largest = {f"stochastic_{key}": max(at[key] for at in drawn) for key in drawn[0]}
    return perturbation(points) | largest


def _summary(
    paper: Deng2022,
    phi: float,
    loss: list[float],
    square: list[float],
    far: list[float],
    omega: float,
    local: list[dict[str, Any]],
) -> dict[str, Any]:
    """Of a run: losses, squared gradient norms and distances from the start after each round, and some rounds' steps."""
    m_d, n = paper.width / paper.outputs, paper.samples
    upper = [g / (m_d * v) for g, v in zip(square, loss, strict=True)]
    lower = [u * n**2 / phi for u in upper]
    fit = fitted_contraction(loss, SMALLEST, math.inf)
    rate = -math.log(fit["contraction"]) if fit else math.nan
    gain = paper.eta * paper.scale * paper.tau * m_d * phi / n**2
    return {
        "measured": {
            "fit": fit,
            "rate": number(rate),
            "first_loss": loss[0],
            "last_loss": loss[-1],
            "largest_local_growth": max(at["growth"] for at in local),
            "local_losses_fall": all(at["falls"] for at in local),
            "distance_spectral": omega,
            "distance_frobenius": max(far),
        },
        "ratios": {
            "rate": number(rate / gain),
            "gradient_upper": max(upper),
            "gradient_lower": min(lower),
            "distance": max(far) / (n**2 / phi * math.sqrt(loss[0] / m_d)),
            "deviation": max(at["deviation_ratio"] for at in local),
            "semi_lipschitz": max(at["semi_ratio"] for at in local),
            "outputs": max(at["outputs_ratio"] for at in local),
            "outputs_m_d": max(at["outputs_ratio"] for at in local) / m_d,
        },
        "series": {
            "loss": loss,
            "gradient_upper": upper,
            "gradient_lower": lower,
            "distance_frobenius": far,
        },
        "local": local,
    }


def _local(
    paper: Deng2022, land: Landscape, algorithm: LocalSGD, start: Tree, round: int, loss: float, omega: float
) -> dict[str, Any]:
    """The local steps of one round, repeated: local losses, deviation (Lemma 4), gradient changes (Lemma 5)."""
    cohort = land.cohort_at(round, Traced)
    end = algorithm.local(cohort, State(model=start), State()).model
    assert isinstance(cohort, Traced)
    assert end is not None
    first, visited = land.flat(start), [land.flat(params) for params in cohort.visited]
    relative = [land.losses(w) / land.losses(first) for w in (*visited, land.flat(end))]
    deviation = [float((w - first).square().sum(dim=1).mean()) for w in visited]
    m_d, L, last = (
        paper.width / paper.outputs,
        paper.depth,
        visited[-1],
    )  # last: iteration t_c + tau - 1, the last of the round
    change = float((land.gradients(last) - land.gradients(first)).square().sum(dim=1).mean())
    outputs = float((land.outputs(last) - land.outputs(first)).square().sum(dim=2).max())
    own = [cohort.visited[-1].map(lambda v, i=i: v[i]) for i in range(len(land))]
    apart = float(np.mean([spectral(params - start) ** 2 for params in own]))
    slack = omega ** (2 / 3) * L**5 + omega**2 * L**6
    semi = m_d * (L**4 * apart + slack * math.log(paper.width) * loss)
    losses = torch.stack(relative)
    return {
        "growth": float(losses.max()),
        "falls": bool((losses.diff(dim=0) <= 1e-12).all()),
        "local_loss": losses.mean(dim=1).tolist(),
        "deviation": deviation,
        # n times a sample's gradient moves a model n times as far
        "deviation_ratio": max(deviation) / ((paper.eta * paper.scale * paper.tau) ** 2 * m_d * paper.samples * loss),
        "semi_ratio": change / semi if semi else 0.0,
        "outputs_ratio": outputs / (L**3 * apart) if apart else 0.0,
    }

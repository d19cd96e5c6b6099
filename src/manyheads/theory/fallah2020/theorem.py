"""Theorem 4.5 and the lemmas of Fallah et al. 2020 beside what a run measures."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
from torch import Tensor

from manyheads.algorithms import PerFedAvg
from manyheads.theory.facts import fitted_power
from manyheads.theory.fallah2020.meta import (
    CORRECTED,
    PRINTED,
    bias_F,
    bias_without_noise,
    gamma_F2,
    meta_gradients,
    meta_smoothness,
    sigma_F2,
    smoothness_F,
    stochastic_bias,
    stochastic_error,
)
from manyheads.theory.fallah2020.similarity import against
from manyheads.theory.fallah2020.smoothness import Constants, View
from manyheads.theory.landscape import Landscape

__all__ = ["lemmas", "theorem"]

LEMMA: dict[Literal["exact", "fo", "hf"], str] = {"exact": "Lemma 4.3", "fo": "Lemma G.1", "hf": "Lemma G.2"}
EQUATION: dict[Literal["fo", "hf"], str] = {"fo": "Equation (116)", "hf": "Equation (127)"}


def theorem(
    clients: Landscape,
    algorithm: PerFedAvg,
    c: Constants,
    estimated: Constants,
    path: list[Tensor],
    iterates: list[Tensor],
) -> dict[str, Any]:
    """Theorem 4.5 by the scheme of Remark 4.6: a random local iterate of every round stands for all of them."""
    exact = replace(algorithm, variant="exact")
    square = [float(meta_gradients(clients, exact, w).mean(dim=0).square().sum()) for w in iterates]
    loss = [float(clients.losses(w - algorithm.alpha * clients.gradients(w)).mean()) for w in path]
    rounds = np.arange(1, len(iterates) + 1)
    mean = np.cumsum(square) / rounds
    # F* >= 0 as the losses are cross entropies, so F(w_0) - F* <= F(w_0)
    initial = 4 * loss[0] / (algorithm.beta * algorithm.steps * rounds)
    terms = _terms(c, algorithm, float(initial[-1]))
    terms_corrected = _terms(c, algorithm, float(initial[-1]), CORRECTED)
    bound, corrected = (initial + t["sigma_F"] + t["gamma_F"] for t in (terms, terms_corrected))
    return {
        "bound": {
            "value": float(bound[-1]),
            "violations": int((mean > bound).sum()),
            "terms": terms,
            "dominant": max(terms, key=lambda term: terms[term]),
            "value_corrected": float(corrected[-1]),
            "violations_corrected": int((mean > corrected).sum()),
            "terms_corrected": terms_corrected,
            "terms_with_estimated_constants": _terms(estimated, algorithm, float(initial[-1])),
        },
        "measured": {
            "mean_gradient_square": float(mean[-1]),
            "exponent_of_K": _exponent(rounds, mean),
            "first_loss": loss[0],
            "last_loss": loss[-1],
        },
        "series": {
            "round": rounds.tolist(),
            "loss": loss[1:],
            "gradient_square": square,
            "mean_gradient_square": mean.tolist(),
            "bound": bound.tolist(),
            "bound_corrected": corrected.tolist(),
            "bound_first_term": initial.tolist(),
        },
    }


def _terms(c: Constants, algorithm: PerFedAvg, initial: float, factor: float = PRINTED) -> dict[str, float]:
    """The terms of the bound ``4 (F(w_0) - F*) / (beta tau K) + 60 sigma_F^2 + 60 gamma_F^2``."""
    gamma2 = gamma_F2(c, algorithm.alpha, factor)
    return {"initial": initial, "sigma_F": 60 * sigma_F2(c, algorithm), "gamma_F": 60 * gamma2}


def lemmas(
    clients: Landscape, algorithm: PerFedAvg, c: Constants, views: list[View], draws: int
) -> list[dict[str, Any]]:
    """Every lemma's quantity at the points of a run beside its bound; means over ``draws`` stochastic gradients."""
    exact = replace(algorithm, variant="exact")
    true = [meta_gradients(clients, exact, view.w) for view in views]
    apart = max(float((g - g.mean(dim=0)).square().sum(dim=1).mean()) for g in true)
    smooth = max(meta_smoothness(clients, exact, view.w) for view in views)
    rows = [
        against("Lemma 4.2", "smoothness of F_i", smooth, smoothness_F(c, algorithm.alpha)),
        against("Lemma 4.4", "mean square distance of the gradients of F_i", apart, gamma_F2(c, algorithm.alpha)),
        against("Lemma 4.4, with 96", "the same", apart, gamma_F2(c, algorithm.alpha, CORRECTED)),
    ]
    ends = (views[0].w, views[-1].w)
    bias = max(stochastic_bias(clients, exact, w, draws) for w in ends)
    rows.append(against("Appendix C", "bias of the exact gradient", bias, bias_F(c, exact)))
    for variant, lemma in LEMMA.items():
        method = replace(algorithm, variant=variant)
        error = max(stochastic_error(clients, method, w, draws) for w in ends)
        rows.append(against(lemma, f"mean square error of the {variant} gradient", error, sigma_F2(c, method)))
    for variant, equation in EQUATION.items():
        method = replace(algorithm, variant=variant)
        gaps = [(meta_gradients(clients, method, v.w) - g).norm(dim=1) for v, g in zip(views, true, strict=True)]
        bias = max(float(gap.max()) for gap in gaps)
        rows.append(against(equation, f"bias of {variant} on all samples", bias, bias_without_noise(c, method)))
    return rows


def _exponent(rounds: np.ndarray, mean: np.ndarray) -> float:
    """Slope of log(mean) against log(K) over the second half: -1 for a mean that falls like the bound's first term."""
    half = len(rounds) // 2
    return fitted_power(rounds[half:].tolist(), mean[half:].tolist())

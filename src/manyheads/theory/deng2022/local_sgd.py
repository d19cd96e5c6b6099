"""Theorem 2 of Deng et al. 2022 at its own step size, and what Lemmas 7 and 9 of its proof leave out."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from manyheads.core.errors import UserError
from manyheads.theory.deng2022.lemmas import stochastic_gradient
from manyheads.theory.deng2022.measure import measure, network
from manyheads.theory.deng2022.network import Layers, products, top_layer
from manyheads.theory.deng2022.separation import cap, separation
from manyheads.theory.facts import condition, fitted_power
from manyheads.theory.paper import Say

if TYPE_CHECKING:
    import altair as alt

    from manyheads.theory.deng2022.paper import Deng2022

__all__ = ["local_sgd", "local_sgd_figure"]

WIDTHS = (32, 64, 128, 256)
CLIENTS = (2, 4, 8, 16, 32)
TARGET = 100.0
"""length of the targets of the worst cases: long, so that the network's first outputs do not matter"""
RADIUS = 0.5
"""of the cap that the inputs of the worst cases lie in, so that their gradients are nearly parallel"""
STARTS = 10
"""networks that Lemma 9's growth is averaged over"""
RISES = 0.5
"""a power above is a rise that no constant makes up for"""


def local_sgd(paper: Deng2022, say: Say) -> dict[str, Any]:
    """Rates at ``eta = d phi / (m tau n^3 log^2 m)``, by width, and the worst cases of Lemma 9, by width, and 7, by K."""
    if paper.samples < 2:
        raise UserError(
            "a sample alone contradicts no other", where="samples", given=paper.samples, allowed="2 or more"
        )
    single = replace(paper, gradient="single", views=2)
    by_width = [_at_own_step(replace(single, width=m), say) for m in WIDTHS]
    by_clients = [_aligned(replace(single, clients=K)) for K in CLIENTS]
    rate = min(row["rate_times_R0"] for row in by_width)
    growth = {
        key: fitted_power(WIDTHS, [row[key] for row in by_width]) for key in ("growth_as_printed", "growth_without_m")
    }
    mean = {key: fitted_power(CLIENTS, [row[key] for row in by_clients]) for key in ("mean_as_printed", "mean")}
    most = f"> {RISES}"
    return {
        "by_width": by_width,
        "by_clients": by_clients,
        "outcome": [
            condition("Theorem 2 at its own step size: rate times R_0, constants taken as 1, least over widths", rate >= 1, rate, ">= 1"),
            condition(
                "Lemma 9 as printed: log growth of a local loss over phi / (m n^2.5 log^2 m) rises with m, power",
                growth["growth_as_printed"] > RISES, growth["growth_as_printed"], most,
            ),
            condition(
                "without the m, it does not", growth["growth_without_m"] < RISES, growth["growth_without_m"], f"< {RISES}"
            ),
            condition(
                "Lemma 7 as printed: E|mean gradient|^2 over m loss / (d K) rises with K, power",
                mean["mean_as_printed"] > RISES, mean["mean_as_printed"], most,
            ),
            condition("without the K, it does not", mean["mean"] < RISES, mean["mean"], f"< {RISES}"),
        ],
    }  # fmt: skip


def own_step(paper: Deng2022, phi: float) -> Deng2022:
    """The paper with Theorem 2's step size, ``eta = d phi / (m tau n^3 log^2 m)``."""
    return replace(paper, step=paper.depth * phi / (paper.samples * math.log(paper.width)) ** 2)


def _at_own_step(setting: Deng2022, say: Say) -> dict[str, Any]:
    phi = separation(setting.federation().train.x)
    own, n, log_m = own_step(setting, phi), setting.samples, math.log(setting.width)
    rate, R0 = measure(own, phi, say)["measured"]["rate"], n**5 * log_m**2 / phi**2
    worst = [_growth(replace(setting, seed=setting.seed + start)) for start in range(STARTS)]
    growth, exponent = (float(np.mean(values)) for values in zip(*worst, strict=True))
    return {
        "width": setting.width,
        "eta": own.eta,
        "rate": rate,
        "R0": R0,
        "rate_times_R0": rate * R0,
        "growth": growth,
        "growth_as_printed": growth / (exponent / setting.width),
        "growth_without_m": growth / exponent,
    }


def _worst(setting: Deng2022) -> tuple[Layers, torch.Tensor, float]:
    """Inputs in a cap, all with the same long target: the layers, the targets, and phi."""
    federation, model = network(setting)
    x = cap(federation.train.x, RADIUS)
    y = torch.zeros(len(x), setting.outputs, dtype=torch.float64)
    y[:, 0] = TARGET
    return Layers.of(model.params.all, top_layer(model), torch.from_numpy(x)), y, separation(x)


def _growth(setting: Deng2022) -> tuple[float, float]:
    """``log L_i(W_i) / L_i(W)`` after tau local steps that all draw the worst sample, and ``phi / (n^2.5 log^2 m)``.

    One client, whose first sample wants the opposite of the others, a tenth as far. At a step size this small the change is
    linear in it: ``tau eta n |<grad L_i, grad l_j>| / L_i``.
    """
    layers, y, phi = _worst(replace(setting, clients=2))
    n = setting.samples
    y[0] *= -0.1
    mine = Layers([f[:n] for f in layers.features], [b[:n] for b in layers.backward], layers.top)
    residuals = mine.outputs - y[:n]
    along = products(mine, residuals).mean(dim=0)  # <grad L_i, grad l_j>
    loss = float(residuals.square().sum()) / (2 * n)
    growth = own_step(setting, phi).eta * setting.tau * n * float((-along).max()) / loss
    return growth, phi / (n**2.5 * math.log(setting.width) ** 2)


def _aligned(setting: Deng2022) -> dict[str, Any]:
    """Clients that agree: the gradients of all samples are nearly parallel."""
    layers, y, phi = _worst(setting)
    found = stochastic_gradient(layers, y, setting.clients)
    return {
        "clients": setting.clients, "phi": phi, "mean_as_printed": found["mean_printed"], "mean": found["mean"],
        "largest": found["largest"],
    }  # fmt: skip


def local_sgd_figure(facts: dict[str, Any]) -> alt.HConcatChart | alt.ConcatChart:
    """The rate times R_0, Lemma 9's growth and Lemma 7's mean over what the paper prints and what is right."""
    from manyheads.theory.figures import lines

    def rows(table: str, x: str, named: dict[str, str]) -> list[dict[str, Any]]:
        return [{"line": line, "x": row[x], "y": row[key]} for line, key in named.items() for row in facts[table]]

    rate = rows("by_width", "width", {"rate times R_0": "rate_times_R0"})
    growth = {"φ / (m n^2.5 log² m), as printed": "growth_as_printed", "φ / (n^2.5 log² m)": "growth_without_m"}
    mean = {"m loss / (d K), as printed": "mean_as_printed", "m loss / d": "mean"}
    charts = (
        lines(rate, "at Theorem 2's own step size", "width m", log_x=True, points=True),
        lines(rows("by_width", "width", growth), "Lemma 9: log growth over", "width m", log=True, log_x=True, points=True),
        lines(rows("by_clients", "clients", mean), "Lemma 7: E|mean gradient|² over", "clients K", log=True, log_x=True,
              points=True),
    )  # fmt: skip
    return (charts[0] | charts[1] | charts[2]).resolve_scale(color="independent", strokeDash="independent")

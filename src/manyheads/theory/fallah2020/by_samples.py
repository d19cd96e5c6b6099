"""gamma_G and gamma_H against the number of samples (Fallah et al. 2020, after Theorem 4.5)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from manyheads.theory.facts import condition, fitted_power
from manyheads.theory.fallah2020.similarity import similarity
from manyheads.theory.fallah2020.smoothness import view_at
from manyheads.theory.landscape import Landscape, points_of
from manyheads.theory.paper import Say

if TYPE_CHECKING:
    import altair as alt

    from manyheads.theory.fallah2020.paper import Fallah2020

__all__ = ["by_samples", "by_samples_figure"]

SAMPLES = (40, 80, 160, 320, 640)
"""with fewer samples than points, total variation is near 1, its largest value, and falls more slowly than gamma"""
DRAWS = 5
"""federations that each row is a root mean square over"""
HALF = (-0.6, -0.4)
"""powers that count as -1/2"""
LEVEL = -0.25
"""a power above is a curve that levels off"""


def by_samples(paper: Fallah2020, say: Say) -> dict[str, Any]:
    """gamma at the first model, and its bounds (19), where clients draw from one distribution and where not.

    The paper says that more samples make them smaller if all distributions are the same. A client's gradient is a mean
    of as many independent ones, so they fall as one over the root of their number; otherwise they level off.
    """
    same = [_row(replace(paper, heterogeneity=0.0, samples=n), say) for n in SAMPLES]
    mixed = [_row(replace(paper, heterogeneity=max(paper.heterogeneity, 0.5), samples=n), say) for n in SAMPLES]
    low, high = HALF
    outcome = []
    for key, words in (("gamma_G", "gamma_G"), ("gamma_H", "gamma_H"), ("tv_G", "the bound (19a) of gamma_G")):
        power = fitted_power(SAMPLES, [row[key] for row in same])
        name = f"one distribution: {words} falls as 1 / sqrt(samples), power"
        outcome.append(condition(name, low < power < high, power, f"{low} to {high}"))
    power = fitted_power(SAMPLES, [row["gamma_G"] for row in mixed])
    outcome.append(condition("several: gamma_G levels off, power", power > LEVEL, power, f"> {LEVEL}"))
    share = max(row[f"gamma_{x}"] / row[f"tv_{x}"] for row in (*same, *mixed) for x in "GH")
    outcome.append(condition("gamma over (19), the largest", share <= 1, share, "<= 1"))
    return {"one_distribution": same, "several": mixed, "outcome": outcome}


def _row(setting: Fallah2020, say: Say) -> dict[str, Any]:
    """Root mean squares over several draws of the samples."""
    say(f"heterogeneity {setting.heterogeneity:g}, {setting.samples} samples a client")
    found = [_at_start(replace(setting, seed=setting.seed + draw)) for draw in range(DRAWS)]
    mean = {key: math.sqrt(np.mean([one[key] ** 2 for one in found])) for key in found[0]}
    return {"samples": setting.samples, **mean}


def _at_start(setting: Fallah2020) -> dict[str, float]:
    federation, model = setting.problem()
    clients, points = (Landscape(model, of, setting.seed) for of in (federation, points_of(federation)[0]))
    view = view_at(clients, points, clients.flat(model.params.all), setting.alpha)
    G, H = similarity(federation, [view], transport=False)["similarity"]
    return {"gamma_G": G["measured"], "tv_G": G["bound"], "gamma_H": H["measured"], "tv_H": H["bound"]}


def by_samples_figure(facts: dict[str, Any]) -> alt.HConcatChart | alt.ConcatChart:
    """gamma_G and its bounds over the number of samples, for one distribution and for several."""
    from manyheads.theory.figures import lines

    charts = []
    for key, title in (("one_distribution", "one distribution"), ("several", "several distributions")):
        named = {"gamma_G": "gamma_G", "(19a), from total variation": "tv_G", "gamma_H": "gamma_H", "(19b)": "tv_H"}
        rows = [
            {"line": line, "x": row["samples"], "y": row[name]} for line, name in named.items() for row in facts[key]
        ]
        rows += [{"line": "1 / sqrt(samples)", "x": row["samples"],
                  "y": facts[key][0]["gamma_G"] * math.sqrt(facts[key][0]["samples"] / row["samples"])}
                 for row in facts[key]]  # fmt: skip
        dashed = ("1 / sqrt(samples)",)
        chart = lines(rows, title, "samples per client", log=True, log_x=True, points=True, dashed=dashed)
        charts.append(chart)
    return (charts[0] | charts[1]).resolve_scale(color="independent", strokeDash="independent")

"""Lemma 2 of Deng et al. 2022 by the number of clients, of samples, by how these are split, and by their separation."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from manyheads.theory.deng2022.measure import measure, network
from manyheads.theory.deng2022.network import Layers, least_gradient, top_layer
from manyheads.theory.deng2022.separation import near, separation
from manyheads.theory.facts import condition, fitted_power
from manyheads.theory.paper import Say

if TYPE_CHECKING:
    import altair as alt

    from manyheads.theory.deng2022.paper import Deng2022

__all__ = ["by_data", "by_data_figure"]

COUNTS = (2, 4, 8, 16)
"""numbers of clients, and of samples per client"""
PHIS = (0.1, 0.2, 0.4, 0.8)
WIDE = 1024
"""width for the separation: inputs that close are told apart by a share phi / pi of the neurons only"""
FALLS = -0.5
"""a power of K below is a fall that no constant makes up for"""
PROPORTIONAL = (0.7, 1.4)
"""powers that count as the first"""


def by_data(paper: Deng2022, say: Say) -> dict[str, Any]:
    """``|grad L|^2`` over ``m phi L / (d n^2)``, the least over all targets, and the rate of runs at the same step size.

    The gradient of L depends on all K n samples together. Where only one of them has an error, L is 1/(K n) of its
    loss and ``|grad L|^2`` is 1/(K n)^2 of its squared gradient: the ratio of the two falls with K.
    """
    by_clients = [_row(replace(paper, clients=K), say) for K in COUNTS]
    by_samples = [_row(replace(paper, samples=n), say) for n in COUNTS]
    total = paper.clients * paper.samples
    splits = [K for K in range(2, total + 1) if total % K == 0]
    by_split = [_row(replace(paper, clients=K, samples=total // K), say) for K in splits]
    by_phi = _by_phi(paper)
    printed, corrected = (fitted_power(COUNTS, [row[key] for row in by_clients]) for key in ("as_printed", "with_K_n"))
    by_n = fitted_power(COUNTS, [row["with_K_n"] for row in by_samples])
    least = [row["least"] for row in by_split]
    rate = fitted_power(COUNTS, [row["rate"] for row in by_clients])
    phi = fitted_power(PHIS, [row["least"] for row in by_phi])
    low, high = PROPORTIONAL
    return {
        "by_clients": by_clients,
        "by_samples": by_samples,
        "by_split": by_split,
        "by_phi": by_phi,
        "outcome": [
            condition("Lemma 2 as printed, with n: its ratio falls with K, to the power", printed < FALLS, printed, f"< {FALLS}"),
            condition("with K n for n: its ratio does not fall with K, power", corrected >= 0, corrected, ">= 0"),
            condition("nor with n, power", by_n >= 0, by_n, ">= 0"),
            condition(
                "how samples are split among clients does not matter: largest over least",
                max(least) < min(least) * (1 + 1e-9),
                max(least) / min(least),
                "1",
            ),
            condition("in proportion to phi: power", low < phi < high, phi, f"{low} to {high}"),
            condition("the rate of Local GD falls with K, to the power", rate < FALLS, rate, f"< {FALLS}"),
        ],
    }  # fmt: skip


def _row(setting: Deng2022, say: Say) -> dict[str, Any]:
    """One number of clients and samples: the least ratio at the start, and a run."""
    say(f"{setting.clients} clients with {setting.samples} samples")
    federation, model = network(setting)
    phi, n, N = separation(federation.train.x), setting.samples, setting.samples * setting.clients
    least = least_gradient(Layers.of(model.params.all, top_layer(model), torch.from_numpy(federation.train.x)))
    found = measure(replace(setting, views=2), phi, lambda _: None)
    return {
        "clients": setting.clients,
        "samples": n,
        "phi": phi,
        "least": least,
        "as_printed": least * n**2 / phi,
        "with_K_n": least * N**2 / phi,
        "along_run": min(found["series"]["gradient_upper"]),
        "rate": found["measured"]["rate"],
        "rate_as_printed": found["ratios"]["rate"],
    }


def _by_phi(paper: Deng2022) -> list[dict[str, Any]]:
    """One input moved to the distance phi of another; all others stay farther apart."""
    federation, model = network(replace(paper, width=WIDE))
    x, V, rows = federation.train.x, top_layer(model), []
    for phi in PHIS:
        moved = np.vstack([x[:-1], near(x[0], x[-1], phi)])
        least = least_gradient(Layers.of(model.params.all, V, torch.from_numpy(moved)))
        rows.append({"phi": separation(moved), "least": least, "over_phi": least / phi})
    return rows


def by_data_figure(facts: dict[str, Any]) -> alt.HConcatChart | alt.ConcatChart:
    """Lemma 2's ratio with n and with K n over K, the rates of the runs, and the least gradient over phi."""
    from manyheads.theory.figures import lines

    clients, samples, phis = facts["by_clients"], facts["by_samples"], facts["by_phi"]
    K = [{"line": f"with {name}", "x": row["clients"], "y": row[key]}
         for name, key in (("n, as printed", "as_printed"), ("K n", "with_K_n")) for row in clients]  # fmt: skip
    rates = [{"line": f"over {word}", "x": row[key], "y": row["rate"]}
             for word, key, rows in (("clients K", "clients", clients), ("samples n", "samples", samples)) for row in rows]  # fmt: skip
    least = [{"line": "least over all targets", "x": row["phi"], "y": row["least"]} for row in phis]
    slope = [{"line": "in proportion to phi", "x": row["phi"], "y": phis[0]["over_phi"] * row["phi"]} for row in phis]
    charts = (
        lines(K, "|grad|² / (m φ loss / (d n²)), least", "clients K", log=True, log_x=True, points=True),
        lines(rates, "rate of Local GD a round", "clients K or samples n", log=True, log_x=True, points=True),
        lines([*least, *slope], "|grad|² / (m loss / d), least", "φ", log=True, log_x=True, points=True,
              dashed=("in proportion to phi",)),
    )  # fmt: skip
    return (charts[0] | charts[1] | charts[2]).resolve_scale(color="independent", strokeDash="independent")

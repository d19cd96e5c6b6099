"""Where FedRep beats each client alone: a map over clients n, dimensions d and samples m.

A count of unknowns explains it. B has ``k (d - k)`` free directions, and of the m samples of a client k are spent on its
head, so B can be found from ``n (m - k) >= k (d - k)`` on. With plenty of samples both methods find the truth up to noise,
and their errors go as the unknowns per client: ``k + k (d - k) / n`` against d. FedRep's is smaller as soon as n > k.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from manyheads.theory.collins2021.tasks import Tasks, enough_for_a_sweep, fitted, train_fedrep
from manyheads.theory.facts import condition
from manyheads.theory.paper import Say

if TYPE_CHECKING:
    import altair as alt

    from manyheads.theory.collins2021.paper import Collins2021

__all__ = ["map_figure", "map_sweep"]

NOISE, ROUNDS = 1e-3**0.5, 150
CLIENTS = (3, 10, 30, 100)
SAMPLES = (3, 4, 6, 10, 20, 40, 80)
ENOUGH = 4
"""times as many equations as unknowns; a start by the method of moments needs more than the count"""
SPREAD = 5
"""times as many clients as features; the heads of fewer may be nearly parallel, and B then has fewer unknowns"""
NO_GAIN = 0.6
"""decades by which two errors of a few clients differ by chance"""
AS_COUNTED = 0.35
"""decades"""


def map_sweep(paper: Collins2021, say: Say) -> dict[str, Any]:
    """The median errors of FedRep and of clients alone in every cell; clients and samples beyond k only."""
    enough_for_a_sweep(paper.clients, paper.dim, paper.rank)
    k, rows = paper.rank, []
    for d in (paper.dim // 2, paper.dim, 2 * paper.dim):
        for n in (v for v in CLIENTS if v > k):
            say(f"d = {d}, {n} clients")
            for m in (v for v in SAMPLES if v > k):
                tasks = Tasks(n, d, k, m, NOISE, paper.seed)
                errors = train_fedrep(tasks, ROUNDS).errors(tasks)
                alone = np.square(fitted(*tasks.drawn) - tasks.weights).sum(axis=1)
                rows.append(
                    {
                        "dim": d,
                        "clients": n,
                        "samples": m,
                        "equations_per_unknown": n * (m - k) / (k * (d - k)),
                        "error": float(np.median(errors)),
                        "error_local": float(np.median(alone)),
                        "decades": float(np.log10(np.median(errors) / np.median(alone))),
                    }
                )
    spread = [r for r in rows if r["clients"] >= SPREAD * k]
    determined = [r["decades"] for r in spread if r["equations_per_unknown"] >= ENOUGH]
    short = [r["decades"] for r in spread if r["equations_per_unknown"] < 1]
    plenty = [r for r in spread if r["samples"] >= 4 * r["dim"]]
    counted = [r["decades"] - np.log10((k + k * (r["dim"] - k) / r["clients"]) / r["dim"]) for r in plenty]
    most, least, off = max(determined, default=None), min(short, default=None), max(map(abs, counted), default=None)
    return {
        "rows": rows,
        "outcome": [
            condition(
                f"FedRep wins wherever n (m - k) >= {ENOUGH} k (d - k), n >= {SPREAD} k: largest log10 of the ratio of errors",
                None if most is None else most < 0,
                most,
                "< 0",
            ),
            condition(
                f"it does not where n (m - k) < k (d - k), n >= {SPREAD} k: least log10",
                None if least is None else least > -NO_GAIN,
                least,
                f"> -{NO_GAIN}",
            ),
            condition(
                "with many samples the ratio is (k + k (d - k) / n) / d: largest difference in decades",
                None if off is None else off < AS_COUNTED,
                off,
                f"< {AS_COUNTED}",
            ),
        ],
    }


def map_figure(facts: dict[str, Any]) -> alt.HConcatChart:
    """A panel for each d: colour is the ratio of errors; in brackets where there are fewer equations than unknowns."""
    import altair as alt

    from manyheads.theory.figures import heat

    panels, most = [], max(abs(row["decades"]) for row in facts["rows"])
    for d in dict.fromkeys(row["dim"] for row in facts["rows"]):
        cells = [
            {
                "x": row["samples"],
                "y": row["clients"],
                "value": row["decades"],
                "text": ("({:.1f})" if row["equations_per_unknown"] < 1 else "{:.1f}").format(row["decades"]),
            }
            for row in facts["rows"]
            if row["dim"] == d
        ]
        panels.append(
            heat(
                cells,
                f"samples per client (d = {d})",
                "clients",
                "log10 of FedRep's error over that of clients alone",
                most,
            )
        )
    return alt.hconcat(*panels).resolve_scale(color="shared")

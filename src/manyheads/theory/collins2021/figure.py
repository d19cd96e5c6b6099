"""The figure of Collins et al. 2021."""

from __future__ import annotations

from typing import Any

import altair as alt

from manyheads.theory.figures import lines, rows_of

__all__ = ["figure"]


def figure(facts: dict[str, Any]) -> alt.ConcatChart:
    """The parts that were measured: Theorem 1, distance and error by samples per client, new clients."""
    charts: list[alt.Chart] = []
    if "series" in facts:
        series = {k: v for k, v in facts["series"].items() if k != "bound"} | {"bound (10)": facts["series"]["bound"]}
        dashed = ["bound (10)", "10GD-GD"]
        charts.append(lines(rows_of(series), "distance from the true representation", "round", log=True, dashed=dashed))
    if "samples" in facts:
        cells, base = facts["samples"], facts["settings"]
        dist = [
            {"line": f"{row['clients']} clients, d = {row['dim']}", "x": row["samples"], "y": row["dist"]}
            for row in cells
        ]
        error = [
            {"line": line, "x": row["samples"], "y": row[key]}
            for line, key in (("FedRep", "error"), ("each client alone", "error_local"))
            for row in cells
            if (row["clients"], row["dim"]) == (base["clients"], base["dim"])
        ]
        charts.append(lines(dist, "distance after training", "samples per client", log=True, points=True))
        charts.append(lines(error, "squared error (median client)", "samples per client", log=True, points=True))
    if "newcomers" in facts:
        new = [
            {"line": line, "x": row["samples"], "y": row[key]}
            for line, key in (("head on FedRep's representation", "head"), ("alone", "local"))
            for row in facts["newcomers"]
        ]
        charts.append(
            lines(new, "squared error (median new client)", "samples of the new client", log=True, points=True)
        )
    return alt.concat(*charts, columns=2).resolve_scale(color="independent", strokeDash="independent")

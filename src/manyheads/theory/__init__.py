"""Theorems of papers on a run: their quantities, their assumptions, and their bounds beside what is measured."""

from __future__ import annotations

from typing import Any

from manyheads.core.errors import UserError
from manyheads.core.registry import Registry
from manyheads.core.settings import as_dict
from manyheads.engines.threads import one_thread
from manyheads.theory.collins2021 import Collins2021
from manyheads.theory.collins2022 import Collins2022
from manyheads.theory.deng2022 import Deng2022
from manyheads.theory.fallah2020 import Fallah2020
from manyheads.theory.paper import Paper, Say

__all__ = ["PAPERS", "Collins2021", "Collins2022", "Deng2022", "Fallah2020", "figure_of", "sweep", "theory"]

PAPERS = Registry[type[Any]]("paper")
"""settings classes of the kind :class:`manyheads.theory.paper.Paper`, by name"""
for _paper in (Collins2021, Collins2022, Deng2022, Fallah2020):
    PAPERS.register(_paper)


@one_thread()
def theory(paper: Paper, say: Say = lambda _: None) -> dict[str, Any]:
    """A paper's facts on a run, with the settings that they belong to.

    >>> facts = theory(Collins2022(dim=20, rank=2, clients=10, rounds=100))
    >>> facts["paper"], facts["series"]["dist"][-1] < 1e-3, facts["d_gd"]["dist"][-1] > 0.9
    ('collins2022', True, True)
    """
    return {"paper": paper.name, "settings": as_dict(paper), **paper.run(say)}


@one_thread()
def sweep(paper: Paper, name: str, say: Say = lambda _: None) -> dict[str, Any]:
    """The facts of one of a paper's sweeps, with the settings that they belong to."""
    if name not in paper.sweeps:
        allowed = ", ".join(paper.sweeps) or "this paper has none"
        raise UserError("unknown sweep", where=f"{paper.name}.sweep", given=name, allowed=allowed)
    return {"paper": paper.name, "sweep": name, "settings": as_dict(paper), **paper.sweeps[name].run(paper, say)}


def figure_of(facts: dict[str, Any]) -> Any:
    """The altair chart of the facts of a paper, or of one of its sweeps."""
    paper = PAPERS.find(facts["paper"])
    return paper.sweeps[facts["sweep"]].figure(facts) if "sweep" in facts else paper.figure(facts)

"""The sweeps of ``manyheads theory NAME --sweep``, each an experiment: ``theory.NAME-SWEEP``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

from pydantic import Field

from manyheads.core.settings import as_dict, settings
from manyheads.reproduce.claims import Check, Claim
from manyheads.reproduce.experiment import Experiment, Facts, Measured, Place, Scale, register
from manyheads.theory import PAPERS, figure_of, sweep
from manyheads.theory.paper import Paper

__all__ = ["SweepOfPaper"]

ABOUT = "`manyheads theory {} --sweep {}` with its usual settings, explained in [Theory](theory.md); drawn is seed 0."


@settings
class SweepOfPaper(Experiment):
    """A sweep, what it states as checks. The first seed is drawn."""

    paper: ClassVar[type[Any]]
    sweep: ClassVar[str]
    scales: ClassVar[Mapping[Scale, Mapping[str, Any]]] = {"quick": {}}
    minutes: ClassVar[Mapping[Scale, float]] = {"quick": 2.0}

    seeds: Annotated[int, Field(ge=1)] = 3

    def parts(self) -> list[str]:
        return [self.sweep]

    def recipe(self, part: str, seed: int) -> Facts:
        return {"theory": self.paper.name, "sweep": part, **as_dict(self.paper(seed=seed))}

    def measure(self, part: str, seed: int, place: Place) -> Facts:
        return sweep(self.paper(seed=seed), part, place.say)

    def claims(self, found: Measured) -> list[Claim]:
        checks = []
        for rows in zip(*(run["outcome"] for run in found[self.sweep].values()), strict=True):
            held = [row["holds"] for row in rows]
            words = f"{_values(rows)} ({len(rows)} seeds)"
            checks.append(Check(rows[0]["name"], False if False in held else None if None in held else True, words))
        return [Claim(self.paper.sweeps[self.sweep].about, tuple(checks))]

    def figure(self, found: Measured) -> Any:
        return figure_of(next(iter(found[self.sweep].values())))


def _values(rows: Sequence[Facts]) -> str:
    """What was found and what is needed, which may differ by seed."""
    found = ["-" if row["value"] is None else f"{row['value']:.3g}" for row in rows]
    if len({row["needs"] for row in rows}) == 1:
        return f"{', '.join(found)}; needs {rows[0]['needs']}"
    return ", ".join(f"{value} needs {row['needs']}" for value, row in zip(found, rows, strict=True))


def _experiment(of: type[Paper], name: str) -> type[SweepOfPaper]:
    title = f"{of.title.partition(':')[0]}: {of.sweeps[name].about}"
    facts: dict[str, Any] = {"name": f"theory.{of.name}-{name}", "title": title, "about": ABOUT.format(of.name, name)}
    facts |= {"paper": of, "sweep": name, "__module__": __name__, "__doc__": title}
    return settings(type(f"{of.__name__}{name.title()}", (SweepOfPaper,), facts))


for _paper in map(PAPERS.find, PAPERS):
    for _name in _paper.sweeps:
        register(_experiment(_paper, _name))

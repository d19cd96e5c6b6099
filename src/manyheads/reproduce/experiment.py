"""What an experiment of a paper is: typed settings, parts that are measured, claims, a picture, perhaps a table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import Field

from manyheads.core.errors import UserError
from manyheads.core.registry import Registry
from manyheads.core.settings import as_dict, changed, settings
from manyheads.engines.engine import Engine
from manyheads.reproduce.claims import Claim

__all__ = ["EXPERIMENTS", "Cell", "Experiment", "Facts", "Measured", "Place", "Scale", "register"]

Scale = Literal["quick", "reduced", "paper"]
Facts = dict[str, Any]
"""what is measured of one part with one seed, as plain JSON values"""
Measured = Mapping[str, Mapping[int, Facts]]
"""facts by part and seed; parts that were not run are missing"""
E = TypeVar("E", bound="Experiment")


@dataclass(frozen=True)
class Place:
    """Where an experiment works, and how it tells how far it is."""

    folder: Path
    """for the folders of runs; runs with the same settings are shared by all experiments"""
    say: Callable[[str], None] = lambda _: None
    engine: Engine = Engine()


@dataclass(frozen=True)
class Cell:
    """One row of the table beside the paper's."""

    row: str
    column: str
    ours: Sequence[float]
    """a value for each seed"""
    paper: float | None
    """None: the paper gives none"""
    explained: str = ""
    """why it differs from the paper's, where that is known"""


@settings
class Experiment(ABC):
    """One figure or table. The defaults of the fields are the paper's settings; :attr:`scales` says what others change.

    An experiment of this project's own has no scale ``paper``; its defaults are its settings.

    A part is what can be measured by itself: one method, one line, one panel. Its facts must follow from the settings,
    the part and the seed alone.
    """

    name: ClassVar[str]
    """PAPER.FIGURE, or GROUP.NAME"""
    title: ClassVar[str]
    """what is drawn, in one line"""
    about: ClassVar[str]
    """what the paper's figure shows and how, in a few sentences; differences from the paper's settings"""
    scales: ClassVar[Mapping[Scale, Mapping[str, Any]]]
    """the settings that each scale changes"""
    minutes: ClassVar[Mapping[Scale, float]]
    """cost of each scale on two cores, roughly"""
    unit: ClassVar[str] = ""
    """of the table's numbers"""
    judged: ClassVar[bool] = True
    """whether something is claimed of it; otherwise it is only measured"""

    seeds: Annotated[int, Field(ge=1)] = 1
    """number of seeds, from 0 on"""

    @classmethod
    def at(cls: type[E], scale: Scale, seeds: int | None = None) -> E:
        """The experiment at a scale."""
        if scale not in cls.scales:
            raise UserError("no such scale", where=cls.name, given=scale, allowed=", ".join(cls.scales))
        made = changed(cls(), cls.scales[scale])
        return changed(made, {"seeds": seeds}) if seeds else made

    @abstractmethod
    def parts(self) -> list[str]:
        """The names of the parts, in the order in which they are measured."""

    def needs(self) -> Iterable[Mapping[str, Any]]:
        """The data, as tables of a source's name and settings, that must be there before any work starts."""
        return ()

    @abstractmethod
    def measure(self, part: str, seed: int, place: Place) -> Facts:
        """Measure a part with one seed. Called again after an interruption, it goes on where it was."""

    def recipe(self, part: str, seed: int) -> Facts:
        """All settings on which a part's facts depend; facts measured by another recipe are not used."""
        return {k: v for k, v in as_dict(self).items() if k != "seeds"} | {"part": part, "seed": seed}

    @abstractmethod
    def claims(self, found: Measured) -> list[Claim]:
        """The paper's claims, judged."""

    @abstractmethod
    def figure(self, found: Measured) -> Any:
        """An altair chart in the paper's layout."""

    def table(self, found: Measured) -> list[Cell]:
        """Our numbers beside the paper's, where it gives numbers."""
        return []

    def smaller(self) -> str:
        """How this scale differs from the paper's, in words; empty at the paper's scale, and where there is no paper."""
        if "paper" not in self.scales:
            return ""
        paper, own = as_dict(type(self)()), as_dict(self)
        names = [f.name for f in fields(self) if own.get(f.name) != paper.get(f.name)]
        return ", ".join(f"{n.replace('_', ' ')} {_short(own[n])} (paper: {_short(paper[n])})" for n in names)


def _short(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


EXPERIMENTS: Registry[type[Experiment]] = Registry("experiment")
register = EXPERIMENTS.register

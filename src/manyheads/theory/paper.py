"""What every paper of this package offers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeAlias

__all__ = ["Paper", "Say", "Sweep"]

Say: TypeAlias = Callable[[str], None]
"""takes a line about progress"""


@dataclass(frozen=True)
class Sweep:
    """One thing varied: what happens, as tables and a picture, and what is stated about it, judged."""

    about: str
    """what is varied and what is seen, in one line"""
    run: Callable[[Any, Say], dict[str, Any]]
    """the facts of a paper's sweep, as plain JSON values; ``outcome`` are conditions, one for each statement"""
    figure: Callable[[dict[str, Any]], Any]
    """an altair chart of the facts that :func:`manyheads.theory.sweep` gives"""


class Paper(Protocol):
    """A settings class whose fields are the flags of ``manyheads theory NAME``."""

    name: ClassVar[str]
    title: ClassVar[str]
    sweeps: ClassVar[Mapping[str, Sweep]]
    """by the name that ``--sweep`` takes"""

    def run(self, say: Say) -> dict[str, Any]:
        """The facts, as plain JSON values."""

    @staticmethod
    def figure(facts: dict[str, Any]) -> Any:
        """An altair chart of the facts that ``theory`` gives."""

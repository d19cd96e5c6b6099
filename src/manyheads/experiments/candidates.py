"""A candidate: a step size, and values of further settings, that a method may be trained with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Candidate"]


@dataclass(frozen=True)
class Candidate:
    """A step size, and values of further settings; what is not among them keeps the method's own value.

    >>> str(Candidate(0.03, (("mu", 0.1),)))
    'step size 0.03, mu 0.1'
    """

    rate: float | None
    """step size; None: the method's own"""
    knobs: tuple[tuple[str, Any], ...] = ()
    """values of settings, by path"""

    def __str__(self) -> str:
        rate = [] if self.rate is None else [f"step size {self.rate:g}"]
        return ", ".join([*rate, *(f"{name} {value}" for name, value in self.knobs)])

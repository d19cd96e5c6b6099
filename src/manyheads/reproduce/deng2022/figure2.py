"""Figure 2: with more local steps between synchronizations the loss falls slower, the more so when clients differ."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Any, ClassVar

from pydantic import Field

from manyheads.core.settings import settings
from manyheads.reproduce.claims import Claim
from manyheads.reproduce.deng2022.curves import ABOUT, PANELS, Curves, Line, more_when_heterogeneous, order
from manyheads.reproduce.experiment import Measured, Scale, register

__all__ = ["Figure2"]


@register
@settings
class Figure2(Curves):
    """Training loss over iterations for different synchronization gaps."""

    name: ClassVar[str] = "deng2022.figure2"
    title: ClassVar[str] = "Local SGD converges slower, per iteration, with a larger synchronization gap"
    about: ClassVar[str] = (
        """One hidden layer of 50 neurons; fully synchronous SGD (tau 1), and tau local steps between synchronizations.
        """
        + ABOUT
        + """1. How much a larger gap costs depends on it: with a step size of 0.1, the losses with tau 50 and with tau 10 differ
        after 500 iterations by 0.008 when homogeneous, by 0.22 when heterogeneous (3 seeds)."""
    )
    scales: ClassVar[Mapping[Scale, Mapping[str, Any]]] = {
        "quick": {"iterations": 100, "taus": (1, 10, 50)},
        "paper": {},
    }
    minutes: ClassVar[Mapping[Scale, float]] = {"quick": 1, "paper": 12}

    width: Annotated[int, Field(ge=1)] = 50
    """neurons, m"""
    taus: tuple[int, ...] = (1, 5, 10, 20, 50)
    """local steps between synchronizations"""

    def lines(self) -> Mapping[str, Line]:
        return {_named(tau): Line(self.width, 1, tau) for tau in self.taus}

    def claims(self, found: Measured) -> list[Claim]:
        names = list(self.lines())
        slower = [c for panel in PANELS for few, many in pairwise(names) for c in order(found, panel, many, few)]
        more = more_when_heterogeneous(found, names[-1], names[0])
        return [
            Claim("a larger gap converges slower: the training loss is higher after as many iterations", tuple(slower)),
            Claim("the gap slows convergence more when the clients' data differ", tuple(more)),
        ]


def _named(tau: int) -> str:
    return "synchronous SGD" if tau == 1 else f"tau {tau}"

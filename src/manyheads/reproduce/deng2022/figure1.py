"""Figure 1: wider networks converge faster, the more so when the clients' data differ."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Any, ClassVar

from pydantic import Field

from manyheads.core.settings import settings
from manyheads.reproduce.claims import Claim
from manyheads.reproduce.deng2022.curves import ABOUT, PANELS, Curves, Line, more_when_heterogeneous, order
from manyheads.reproduce.experiment import Measured, Scale, register

__all__ = ["Figure1"]


@register
@settings
class Figure1(Curves):
    """Training loss over iterations for networks of one hidden layer of different width."""

    name: ClassVar[str] = "deng2022.figure1"
    title: ClassVar[str] = "Local SGD converges faster with a wider network"
    about: ClassVar[str] = (
        """One hidden layer of m neurons, tau 10 for all widths (the paper names no tau, and of the widths the least
        and the greatest). """
        + ABOUT
        + "1, by the mean of m 50 and m 1000."
    )
    scales: ClassVar[Mapping[Scale, Mapping[str, Any]]] = {
        "quick": {"iterations": 100, "widths": (50, 200, 1000)},
        "paper": {},
    }
    minutes: ClassVar[Mapping[Scale, float]] = {"quick": 2, "paper": 20}

    widths: tuple[int, ...] = (50, 100, 200, 500, 1000)
    """numbers of neurons, m"""
    tau: Annotated[int, Field(ge=1)] = 10
    """local steps between synchronizations"""

    def lines(self) -> Mapping[str, Line]:
        return {f"m {width}": Line(width, 1, self.tau) for width in self.widths}

    def claims(self, found: Measured) -> list[Claim]:
        names = list(self.lines())
        faster = [c for panel in PANELS for few, many in pairwise(names) for c in order(found, panel, few, many)]
        better = [c for panel in PANELS for c in order(found, panel, names[-1], names[0], "test_accuracy")]
        more = more_when_heterogeneous(found, names[0], names[-1])
        more += more_when_heterogeneous(found, names[-1], names[0], "test_accuracy")
        return [
            Claim(
                "a wider network converges faster: its training loss is lower after as many iterations", tuple(faster)
            ),
            Claim("the widest network has a better final accuracy than the narrowest", tuple(better)),
            Claim("the width has more impact when the clients' data differ", tuple(more)),
        ]

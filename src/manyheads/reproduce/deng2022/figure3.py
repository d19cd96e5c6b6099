"""Figure 3: a deep network needs more neurons in each layer to converge like one of a single layer."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from manyheads.core.settings import settings
from manyheads.reproduce.claims import Claim, above
from manyheads.reproduce.deng2022.curves import ABOUT, PANELS, Curves, Line, final, order
from manyheads.reproduce.experiment import Measured, Scale, register

__all__ = ["Figure3"]

CLOSE = 2.0
"""points of accuracy"""


@register
@settings
class Figure3(Curves):
    """Training loss over iterations for five hidden layers of different width, and for a single one."""

    name: ClassVar[str] = "deng2022.figure3"
    title: ClassVar[str] = "Five layers need to be wider than a single one to converge like it"
    about: ClassVar[str] = (
        """Five hidden layers of m neurons each, and one of 50; tau 10 (the paper names none). """
        + ABOUT
        + "0.1, by the mean of five layers of 10 and of 100 neurons; with 0.3 and more the latter diverge."
    )
    scales: ClassVar[Mapping[Scale, Mapping[str, Any]]] = {"quick": {"iterations": 200}, "paper": {}}
    minutes: ClassVar[Mapping[Scale, float]] = {"quick": 2, "paper": 10}

    lr: Annotated[float, Field(gt=0)] = 0.1
    depth: Annotated[int, Field(ge=2)] = 5
    """hidden layers of the deep networks, L"""
    widths: tuple[int, ...] = (10, 50, 100)
    """neurons in each of their layers, m"""
    single: Annotated[int, Field(ge=1)] = 50
    """neurons of the network with one hidden layer"""
    tau: Annotated[int, Field(ge=1)] = 10
    """local steps between synchronizations"""

    def lines(self) -> Mapping[str, Line]:
        deep = {f"L {self.depth}, m {width}": Line(width, self.depth, self.tau) for width in self.widths}
        return deep | {f"L 1, m {self.single}": Line(self.single, 1, self.tau)}

    def claims(self, found: Measured) -> list[Claim]:
        *deep, single = self.lines()
        poor = [c for panel in PANELS for c in order(found, panel, deep[0], single)]
        wider = [c for panel in PANELS for few, many in pairwise(deep) for c in order(found, panel, few, many)]
        equal = []
        for panel in PANELS:
            if both := final(found, panel, [deep[-1], single], "test_accuracy"):
                ours, theirs = (100 * np.array(line) for line in both)
                what = f"{panel}, {deep[-1]} against {single}: {ours.mean():.1f} % against {theirs.mean():.1f} %"
                equal.append(above(what, ours, theirs, by=-CLOSE, unit=" points"))
        return [
            Claim(f"{deep[0]}, with as many neurons as {single}, converges slower than it", tuple(poor)),
            Claim("of the deep networks, the wider converge faster", tuple(wider)),
            Claim(f"{deep[-1]} reaches the test accuracy of {single}, within {CLOSE:g} points", tuple(equal)),
        ]

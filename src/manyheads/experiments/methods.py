"""The methods of a comparison: an algorithm, and whether its models are fine-tuned before they are judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from manyheads.core.contract import ALGORITHMS, Algorithm
from manyheads.core.errors import UserError
from manyheads.core.settings import build, changed

__all__ = ["ALONE", "TUNED", "USUAL", "Method", "methods_named"]

ALONE = "local"
"""the yardstick: everyone trains alone"""
TUNED = "+ft"
USUAL = (ALONE, "fedavg", "fedavg+ft", "fedprox", "scaffold", "fedper", "fedrep", "perfedavg", "ditto", "apfl")
_OPTIONS: dict[str, dict[str, Any]] = {"scaffold": {"server_lr": 1.0}}
"""settings other than a method's defaults: SCAFFOLD's as in its own paper"""


@dataclass(frozen=True)
class Method:
    """One row of the table."""

    name: str
    algorithm: Algorithm
    finetuned: bool

    def at(self, lr: float, population: int) -> Algorithm:
        """The algorithm with a step size."""
        return changed(self.algorithm, self.algorithm.step_sizes(lr, population))


def methods_named(
    names: Sequence[str], batch: int | None, options: Mapping[str, Mapping[str, Any]]
) -> dict[str, Method]:
    """The methods of these names, training alone first; ``all``: every algorithm, and FedAvg fine-tuned."""
    if "all" in names:
        names = [*names, *USUAL, *sorted(ALGORITHMS)]
    methods = {}
    for name in dict.fromkeys([ALONE, *(n for n in names if n != "all")]):
        base = name.removesuffix(TUNED)
        cls = ALGORITHMS.find(base)
        given = _OPTIONS.get(base, {}) | dict(options.get(base, {}))
        if batch is not None and "batch" in cls.__dataclass_fields__:  # type: ignore[attr-defined]
            given = {"batch": batch} | given
        methods[name] = Method(name, build(cls, given, where=f"options.{base}"), name != base)
    for name in options:
        if name not in {m.algorithm.name for m in methods.values()}:
            raise UserError("settings for a method that is not compared", where="options", given=name)
    return methods

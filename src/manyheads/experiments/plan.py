"""A comparison before it is done: its settings, and all that they name, built."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from manyheads.core.errors import UserError
from manyheads.core.settings import settings
from manyheads.data import Federation
from manyheads.experiments.methods import TUNED, USUAL, Method
from manyheads.models import Model
from manyheads.run import Training

__all__ = ["RATES", "Comparison", "Plan", "refuse_unfit"]

RATES = (0.01, 0.03, 0.1, 0.3)


@settings
class Comparison:
    """What is compared, and how carefully."""

    methods: tuple[str, ...] = USUAL
    """methods; NAME+ft: after fine-tuning; all: every one there is"""
    seeds: Annotated[int, Field(ge=1)] = 3
    """repetitions, each with its own initial model and order of samples, the same for all methods"""
    rates: Annotated[tuple[Annotated[float, Field(gt=0)], ...], Field(min_length=1)] = RATES
    """step sizes to choose from, for every method by its validation samples"""
    validation: Annotated[float, Field(gt=0, lt=1)] = 0.2
    """part of each client's training samples that is set aside to choose by"""
    batch: Annotated[int, Field(ge=0)] | None = None
    """samples a step, for all methods; without it, each method's own"""
    target: float | None = None
    """accuracy (or loss) to which rounds and bytes are counted; without it, that of training alone"""
    metrics: tuple[str, ...] = ()
    """what else is told of the final models on test samples, by names of metrics; choices are made by the task's own"""
    options: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """settings of methods, in a file: [options.fedrep] head_epochs = 5"""


@dataclass(frozen=True)
class Plan:
    """A comparison with everything built."""

    federation: Federation
    """with validation samples"""
    model: Callable[[int], Model]
    """makes one of a seed"""
    training: Training
    comparison: Comparison
    methods: Mapping[str, Method]
    config: dict[str, Any]
    """how the data and the model were made"""
    out: Path
    command: str = ""

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(self.training.seed + i for i in range(self.comparison.seeds))

    @property
    def most_rounds(self) -> int:
        """Rounds that it takes, at most: methods that share a run take fewer."""
        trained = {m.label.removesuffix(TUNED) for m in self.methods.values()}
        runs = len(trained) * len(self.comparison.rates) + len(self.methods) * (self.comparison.seeds - 1)
        return self.training.rounds * runs


def refuse_unfit(federation: Federation) -> None:
    """Nothing can be gained from others where there are none, and nothing be told where nothing is measured."""
    if len(federation) == 1:
        raise UserError(
            f"{federation.name}: nothing to federate, there is only {federation.client_name(0)}",
            fix="a comparison needs at least two sites: one file each, or one table with a client column",
        )
    for split, samples in (("test", federation.test), ("validation", federation.validation)):
        if samples is None or not len(samples.y):
            raise UserError(
                f"{federation.name}: no site has enough samples to set some aside for {split}",
                given=f"{federation.train.sizes.max()} training samples at most",
                fix="add samples, or set a larger part aside: --validation 0.4 --data.test-fraction 0.4",
            )

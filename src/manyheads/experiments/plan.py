"""What a comparison needs before it starts: its settings, and the objects built from them."""

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
    """Settings of a comparison."""

    methods: tuple[str, ...] = USUAL
    """methods; NAME+ft: after fine-tuning; all: every registered method"""
    seeds: Annotated[int, Field(ge=1)] = 3
    """repetitions, each with its own initial model and order of samples, the same for all methods"""
    rates: Annotated[tuple[Annotated[float, Field(gt=0)], ...], Field(min_length=1)] = RATES
    """step sizes to choose from, for each method by its score on validation samples"""
    validation: Annotated[float, Field(gt=0, lt=1)] = 0.2
    """part of each client's training samples that is set aside for validation"""
    batch: Annotated[int, Field(ge=0)] | None = None
    """batch size of all methods; without it, each method's own"""
    target: float | None = None
    """score for which rounds and bytes until it is reached are counted; without it, the score of training alone"""
    metrics: tuple[str, ...] = ()
    """further metrics to report of the final models on test samples; methods are compared by the task's own metric"""
    options: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """settings of methods by name; in a file: [compare.options.fedrep] head_epochs = 5"""


@dataclass(frozen=True)
class Plan:
    """A comparison with its federation, model and methods built."""

    federation: Federation
    """the federation, with validation samples set aside"""
    model: Callable[[int], Model]
    """builds the initial model from a seed"""
    training: Training
    comparison: Comparison
    methods: Mapping[str, Method]
    config: dict[str, Any]
    """settings of the data and the model"""
    out: Path
    command: str = ""

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(self.training.seed + i for i in range(self.comparison.seeds))

    @property
    def most_rounds(self) -> int:
        """Upper bound of the rounds to train; methods that share a run need fewer."""
        trained = {m.label.removesuffix(TUNED) for m in self.methods.values()}
        runs = len(trained) * len(self.comparison.rates) + len(self.methods) * (self.comparison.seeds - 1)
        return self.training.rounds * runs


def refuse_unfit(federation: Federation) -> None:
    """Refuse a federation with a single client, or without any test or validation samples."""
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

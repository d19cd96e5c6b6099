"""What a comparison needs before it starts: its settings, and the objects built from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from manyheads.core.errors import UserError
from manyheads.core.settings import settings
from manyheads.data import Federation
from manyheads.experiments.folds import Fold, pooled_folds
from manyheads.experiments.methods import LOCAL, TUNED, USUAL, Method
from manyheads.models import Model
from manyheads.run import Training
from manyheads.run.config import GivenModel, model_from

__all__ = ["RATES", "ROUNDS", "Comparison", "Plan", "model_for", "refuse_unfit", "usual_folds"]

RATES = (0.01, 0.03, 0.1, 0.3)
ROUNDS = 100
"""the largest number of rounds of a comparison, unless another is given"""
MONITORED = ("cka", "head_diversity", "drift")
USUAL_FOLDS, SMALL = 5, 1000
"""folds of a federation whose sites typically have fewer samples than SMALL"""


@settings
class Comparison:
    """Settings of a comparison."""

    methods: tuple[str, ...] = USUAL
    """methods; NAME+ft: after fine-tuning; all: every registered method"""
    seeds: Annotated[int, Field(ge=1)] = 3
    """repetitions, each with its own initial model and order of samples, the same for all methods"""
    folds: Annotated[int, Field(ge=0)] = 0
    """parts of each site's samples, each of which is the test part once; 1: only the data's own test part; 0: 5 for small
    sites without a test part of their own, else 1"""
    rates: Annotated[tuple[Annotated[float, Field(gt=0)], ...], Field(min_length=1)] = RATES
    """step sizes to choose from, for each method by its score on validation samples"""
    stop: bool = True
    """stop trainings that can no longer give the best step size; false: all step sizes, with all seeds, to the last round"""
    search: Annotated[int, Field(ge=0)] = 0
    """search the step size, between the smallest and the largest of --rates, and further settings that a method names, with
    the rounds that so many whole trainings have, the same for all methods; 0: only --rates"""
    validation: Annotated[float, Field(gt=0, lt=1)] = 0.2
    """part of each client's training samples on which choices are made; final models are trained on them too"""
    batch: Annotated[int, Field(ge=0)] | None = None
    """batch size of all methods; without it, each method's own"""
    metric: str = ""
    """the metric that decides; without it, the one that fits the task and the balance of the labels"""
    metrics: tuple[str, ...] = ()
    """metrics to report in addition to those of the task"""
    baselines: tuple[str, ...] = ("majority", "linear", "trees")
    """what each site tries alone besides the network: majority label or mean, linear model, boosted trees"""
    local_rounds: Annotated[int, Field(ge=1)] = 200
    """most rounds of the network trained alone, if more than those of the others: it sends nothing, and shall converge"""
    pooled: bool = True
    """show what one model trained on the data of all sites together would reach"""
    target: float | None = None
    """validation score for which rounds and bytes until it is reached are counted; without it, that of the best alone"""
    options: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """settings of methods by name; in a file: [compare.options.fedrep] head_epochs = 5"""


@dataclass(frozen=True)
class Plan:
    """A comparison with its federation, model and methods built."""

    federation: Federation
    model: Callable[[Federation], Callable[[int], Model]]
    """for the inputs of a federation, a function that builds the initial model from a seed"""
    training: Training
    comparison: Comparison
    methods: Mapping[str, Method]
    config: dict[str, Any]
    """settings of the data and the model"""
    out: Path
    command: str = ""
    next_step: Callable[[str], str] = lambda method: ""
    """the command that trains a method of this comparison on all its data"""

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(self.training.seed + i for i in range(self.comparison.seeds))

    @property
    def monitors(self) -> tuple[str, ...]:
        """Quantities to record in one final run of each method."""
        return self.training.monitor or MONITORED

    @cached_property
    def folds(self) -> tuple[Fold, ...]:
        """The divisions of the samples."""
        whole = self.federation
        count = self.comparison.folds or usual_folds(whole.own_test, whole.train.sizes + whole.test.sizes)
        divided = self.federation.folds(count, self.training.seed)
        return tuple(Fold.of(each, self.model, self.comparison.validation, self.training.seed) for each in divided)

    @cached_property
    def pooled(self) -> tuple[Fold, ...]:
        """The same divisions with the samples of all sites in one; empty if they are not wanted."""
        return pooled_folds(self.folds) if self.comparison.pooled else ()

    def most_rounds_of(self, method: str) -> int:
        """The largest number of rounds that a method may be trained."""
        rounds = self.training.rounds
        return max(rounds, self.comparison.local_rounds) if method == LOCAL else rounds

    @property
    def budget(self) -> int:
        """Rounds that the search for settings of a method may take in a fold, with all seeds together; 0: no search."""
        return self.comparison.search * self.training.rounds * self.comparison.seeds

    @property
    def most_rounds(self) -> int:
        """About how many rounds there are to train in all runs, at most."""
        tuned = {m.label.removesuffix(TUNED) for m in self.methods.values()}
        tried = len(self.comparison.rates) * (1 if self.comparison.stop else self.comparison.seeds)
        tuning = sum(self.most_rounds_of(name) for name in tuned) * tried
        if self.budget:
            tuning, tried = self.budget * len(self.methods), self.comparison.search * self.comparison.seeds
        final = sum(map(self.most_rounds_of, self.methods)) * self.comparison.seeds
        pooled = self.training.rounds * (tried + self.comparison.seeds)
        return (tuning + final + pooled * self.comparison.pooled) * len(self.folds)


def usual_folds(own_test: bool, sizes: np.ndarray) -> int:
    """The number of folds unless the user gives one, for sites with so many samples, perhaps with a test part of their own."""
    return USUAL_FOLDS if not own_test and np.median(sizes) < SMALL else 1


def model_for(given: GivenModel, federation: Federation) -> Callable[[int], Model]:
    """A function that builds a model for the inputs of a federation from a seed."""
    return model_from(given, federation.sample_shape, federation.outputs, str(federation.train.x.dtype))[0]


def refuse_unfit(federation: Federation) -> None:
    """Refuse a federation with a single client, or without any sample to test or to choose by."""
    if len(federation) == 1:
        raise UserError(
            f"{federation.name}: nothing to federate, there is only {federation.client_name(0)}",
            fix="a comparison needs at least two sites: one file each, or one table with a client column",
        )
    most = int((federation.train.sizes + federation.test.sizes).max())
    if most < 3 or not len(federation.test.y):
        raise UserError(
            f"{federation.name}: no site has enough samples to set some aside for tests and for choices",
            given=f"{most} samples at most",
            fix="add samples",
        )

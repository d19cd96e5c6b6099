"""The settings of each method of a comparison, chosen in each fold by validation samples; and trainings with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from manyheads.experiments.choices import Tuned, tuned
from manyheads.experiments.methods import LOCAL, Method
from manyheads.experiments.plan import Plan
from manyheads.experiments.race import Place, Racing, all_to_the_end, race, together
from manyheads.experiments.results import POOLED
from manyheads.experiments.search import require_optuna, search
from manyheads.experiments.study import Study
from manyheads.experiments.trials import Trial
from manyheads.experiments.work import Do, Work

__all__ = ["Tuning"]


@dataclass(frozen=True)
class Tuning:
    """What is tried to choose the settings of each method."""

    plan: Plan
    study: Study
    methods: Mapping[str, Method]

    def __post_init__(self) -> None:
        if self.plan.budget:  # before anything is written
            require_optuna()

    @property
    def places(self) -> list[tuple[int, bool]]:
        """Folds, with the data of the sites, and with pooled data."""
        pooled = [(fold, True) for fold in range(len(self.study.pooled))]
        return [(fold, False) for fold in range(len(self.study.folds))] + pooled

    @property
    def labels(self) -> list[str]:
        return [*self.methods, *([POOLED] if self.study.pooled else [])]

    def _method(self, label: str) -> Method:
        return self.methods[LOCAL if label == POOLED else label]

    def _place(self, label: str, fold: int) -> Place:
        rounds = self.plan.most_rounds_of(label)
        return Place(self.study, self._method(label), fold, label == POOLED, rounds, self.plan.seeds)

    @property
    def example(self) -> Trial:
        """One of the trials."""
        label = self.labels[0]
        candidates = self._method(label).candidates(self.plan.comparison.rates, len(self.plan.federation))
        return self._place(label, 0).trial(candidates[0], self.plan.seeds[0])

    def _racing(self, label: str, fold: int) -> Racing:
        settings = self.plan.comparison
        if settings.search:
            return search(self._place(label, fold), settings.rates, self.plan.budget)
        candidates = self._method(label).candidates(settings.rates, len(self.plan.federation))
        return (race if settings.stop else all_to_the_end)(self._place(label, fold), candidates)

    def chosen(self, do: Do, besides: Sequence[Work] = ()) -> tuple[dict[str, Tuned], dict[str, str]]:
        """Choose the settings of each method, and return these and the methods that diverged.

        ``besides`` is work to be done along with the trainings.
        """
        folds = range(len(self.study.folds))
        races = {(label, fold): self._racing(label, fold) for label in self.labels for fold in folds}
        attempts = together(races, do, besides)
        found: dict[str, Tuned] = {}
        diverged: dict[str, str] = {}
        for label in self.labels:
            own = [attempts[label, fold] for fold in folds]
            outcome = tuned(self.study.score, own, self.plan.most_rounds_of(label), searched=bool(self.plan.budget))
            if isinstance(outcome, Tuned):
                found[label] = outcome
            else:
                diverged[label] = outcome
        return found, diverged

    def final(self, label: str, chosen: Tuned) -> list[list[Trial]]:
        """The final trials of a method, by fold and seed."""
        method, pooled = self._method(label), label == POOLED
        return [
            [
                self.study.trial(method, candidate, seed, choice.fold, "final", choice.rounds, pooled)
                for seed in self.plan.seeds
            ]
            for choice, candidate in zip(chosen.choices, chosen.candidates, strict=True)
        ]

"""What the runs of a comparison have found: choices by validation samples, and outputs for all test samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from manyheads.baselines import BASELINES
from manyheads.data import Federation
from manyheads.experiments.alone import AloneTask, alone_outputs
from manyheads.experiments.choices import SiteScores, Tuned, chosen_alone, scores_of_baseline, scores_of_local
from manyheads.experiments.folds import Fold
from manyheads.experiments.methods import LOCAL
from manyheads.experiments.results import ALONE, POOLED
from manyheads.experiments.study import Study
from manyheads.experiments.trials import Trial
from manyheads.metrics import Metric

__all__ = ["Found"]

Outputs = list[list[np.ndarray]]
"""outputs of a method for the test samples, by seed and fold"""


@dataclass(frozen=True)
class Found:
    """What the runs of a comparison have left: choices, and outputs for all test samples."""

    study: Study
    federation: Federation
    seeds: tuple[int, ...]
    tuned: Mapping[str, Tuned]
    """step sizes and rounds chosen for the network trained alone, for the federated methods, and for pooled data"""
    finals: Mapping[str, Sequence[Sequence[Trial]]]
    """final trials of these, by fold and seed"""
    baselines: tuple[str, ...]
    metrics: tuple[Metric, ...]
    target: float | None

    @property
    def folds(self) -> tuple[Fold, ...]:
        return self.study.folds

    @property
    def federated(self) -> list[str]:
        return [name for name in self.tuned if name not in (LOCAL, POOLED)]

    @property
    def family(self) -> list[str]:
        """The models that a site can have alone, the simplest first."""
        return [*self.baselines, *([LOCAL] if LOCAL in self.tuned else [])]

    def title(self, name: str) -> str:
        """What a method is, in words."""
        if name == ALONE:
            return "the best that each site can do alone, by its validation samples"
        if name == LOCAL:
            return "the network, trained by each site alone"
        if name == POOLED:
            return "one model trained on the data of all sites together, by validation samples the best"
        return BASELINES.find(name).title if name in self.baselines else name

    @cached_property
    def alone_scores(self) -> list[dict[str, SiteScores]]:
        """For each fold, the validation scores of what each site can do alone."""
        sites, sign = len(self.federation), self.study.sign
        return [
            {
                name: scores_of_local(self.tuned[LOCAL], fold, sites, sign)
                if name == LOCAL
                else scores_of_baseline(self.study, AloneTask(name, fold), self.folds)
                for name in self.family
            }
            for fold in range(len(self.folds))
        ]

    @cached_property
    def alone_chosen(self) -> list[list[str]]:
        """For each fold, the model that each site chooses alone."""
        return [
            chosen_alone(scores, _validation_sizes(fold))
            for scores, fold in zip(self.alone_scores, self.folds, strict=True)
        ]

    def validation(self, name: str) -> float | None:
        """The mean validation score of a method over folds (and sites, of what they do alone); None if undefined."""
        if name in self.tuned and name != LOCAL:
            return self.tuned[name].validation
        chosen = self.alone_chosen if name == ALONE else [[name] * len(self.federation)] * len(self.folds)
        each = zip(self.alone_scores, chosen, strict=True)
        values = np.array([scores[own][site, 0] for scores, names in each for site, own in enumerate(names)])
        known = values[~np.isnan(values)]
        return self.study.sign * float(known.mean()) if len(known) else None

    def alone_model(self, site: int) -> str:
        """The model that a site chooses alone in most folds."""
        return Counter(chosen[site] for chosen in self.alone_chosen).most_common(1)[0][0]

    @cached_property
    def chosen(self) -> list[str]:
        """For each fold, the federated method that is best by validation samples."""
        sign = self.study.sign

        def score(name: str, fold: int) -> float:
            return sign * self.tuned[name].choices[fold].validation

        names = self.federated
        return [max(names, key=lambda name: score(name, fold)) for fold in range(len(self.folds))] if names else []

    def outputs(self, name: str) -> Outputs:
        """The outputs of a method, by seed and fold."""
        if name in self.baselines:
            own = [alone_outputs(self.study, AloneTask(name, fold)).test for fold in range(len(self.folds))]
            return [own] * len(self.seeds)
        if name == ALONE:
            return self._mixed(self.alone_chosen)
        if name == POOLED:
            return self._pooled()
        return [[self.study.outputs(fold[seed]) for fold in self.finals[name]] for seed in range(len(self.seeds))]

    def chosen_outputs(self) -> Outputs:
        """The outputs of what is chosen among the federated methods in each fold."""
        each = {name: self.outputs(name) for name in set(self.chosen)}
        return [[each[name][s][fold] for fold, name in enumerate(self.chosen)] for s in range(len(self.seeds))]

    def _mixed(self, chosen: Sequence[Sequence[str]]) -> Outputs:
        """The outputs of the models that sites choose, fold by fold."""
        each = {name: self.outputs(name) for name in self.family}
        mixed = []
        for seed in range(len(self.seeds)):
            of_seed = []
            for fold, names in enumerate(chosen):
                sizes = self.folds[fold].final.test.sizes
                owner = np.repeat(np.arange(len(sizes)), sizes)
                out = np.array(each[self.family[0]][seed][fold], np.float32)
                for name in set(names):
                    rows = np.isin(owner, [site for site, own in enumerate(names) if own == name])
                    out[rows] = each[name][seed][fold][rows]
                of_seed.append(out)
            mixed.append(of_seed)
        return mixed

    def _pooled(self) -> Outputs:
        """The outputs of the model on pooled data that validation samples favour in each fold."""
        picked = []
        for fold in range(len(self.study.pooled)):
            scores = {
                name: scores_of_baseline(self.study, AloneTask(name, fold, pooled=True), self.study.pooled)
                for name in self.baselines
            }
            if POOLED in self.tuned:
                scores[POOLED] = scores_of_local(self.tuned[POOLED], fold, 1, self.study.sign)
            picked.append(chosen_alone(scores, _validation_sizes(self.study.pooled[fold]))[0])
        return [
            [
                self.study.outputs(self.finals[POOLED][fold][seed])
                if name == POOLED
                else alone_outputs(self.study, AloneTask(name, fold, pooled=True)).test
                for fold, name in enumerate(picked)
            ]
            for seed in range(len(self.seeds))
        ]


def _validation_sizes(fold: Fold) -> np.ndarray:
    assert fold.tuning.validation is not None
    return fold.tuning.validation.sizes

"""What the runs of a comparison have found, without any sample: choices by validation samples, and facts of trainings.

It is what a coordinator has before test samples are scored, of a simulation or of real sites.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from manyheads.baselines import BASELINES
from manyheads.core.contract import Algorithm
from manyheads.experiments.candidates import Candidate
from manyheads.experiments.choices import SiteScores, Tuned, chosen_alone, scores_of_local
from manyheads.experiments.methods import LOCAL
from manyheads.experiments.results import ALONE, POOLED
from manyheads.experiments.told import ValidationTold
from manyheads.metrics import Metric
from manyheads.run.rounds import RoundFacts

__all__ = ["Found", "Trained"]


@dataclass(frozen=True)
class Trained:
    """A final training of a method, with one seed in one fold."""

    algorithm: Algorithm
    """with what was chosen"""
    candidate: Candidate
    finetuned: bool
    """whether its models are scored after fine-tuning"""
    rounds: Sequence[RoundFacts]
    """its history"""


@dataclass(frozen=True)
class Found:
    """What the runs of a comparison have found: choices, and facts of the final trainings."""

    metric: Metric
    """the metric that methods are compared by"""
    metrics: tuple[Metric, ...]
    """all that are reported, this one too"""
    sites: tuple[str, ...]
    """their names"""
    validated: tuple[ValidationTold, ...]
    """what each site tells of its validation samples"""
    seeds: int
    tuned: Mapping[str, Tuned]
    """step sizes and rounds chosen for the network trained alone, for the federated methods, and for pooled data"""
    finals: Mapping[str, Sequence[Sequence[Trained]]]
    """final trainings of these, by fold and seed"""
    baselines: tuple[str, ...]
    pooled: bool
    """whether there are models of the data of all sites together"""
    target: float | None

    @property
    def folds(self) -> int:
        return len(self.validated[0].samples)

    @property
    def federated(self) -> list[str]:
        return [name for name in self.tuned if name not in (LOCAL, POOLED)]

    @property
    def family(self) -> list[str]:
        """The models that a site can have alone, the simplest first."""
        return [*self.baselines, *([LOCAL] if LOCAL in self.tuned else [])]

    @property
    def predicting(self) -> list[str]:
        """All methods that have models of their own; the best alone is always one of these."""
        return [*self.family, *self.federated, *([POOLED] if self.pooled else [])]

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
        sites, sign = len(self.sites), self.metric.sign
        return [
            {
                name: scores_of_local(self.tuned[LOCAL], fold, sites, sign)
                if name == LOCAL
                else np.array([site.scores[name][fold] for site in self.validated])
                for name in self.family
            }
            for fold in range(self.folds)
        ]

    @cached_property
    def alone_chosen(self) -> list[list[str]]:
        """For each fold, the model that each site chooses alone."""
        samples = np.array([site.samples for site in self.validated])  # [sites, folds]
        return [chosen_alone(scores, own) for scores, own in zip(self.alone_scores, samples.T, strict=True)]

    def alone_of(self, site: int) -> list[str]:
        """For each fold, the model that a site chooses alone."""
        return [chosen[site] for chosen in self.alone_chosen]

    def alone_model(self, site: int) -> str:
        """The model that a site chooses alone in most folds."""
        return Counter(self.alone_of(site)).most_common(1)[0][0]

    def validation(self, name: str) -> float | None:
        """The mean validation score of a method over folds (and sites, of what they do alone); None if undefined."""
        if name in self.tuned and name != LOCAL:
            return self.tuned[name].validation
        chosen = self.alone_chosen if name == ALONE else [[name] * len(self.sites)] * self.folds
        each = zip(self.alone_scores, chosen, strict=True)
        values = np.array([scores[own][site, 0] for scores, names in each for site, own in enumerate(names)])
        known = values[~np.isnan(values)]
        return self.metric.sign * float(known.mean()) if len(known) else None

    @cached_property
    def chosen(self) -> list[str]:
        """For each fold, the federated method that is best by validation samples."""
        sign = self.metric.sign

        def score(name: str, fold: int) -> float:
            return sign * self.tuned[name].choices[fold].validation

        names = self.federated
        return [max(names, key=lambda name: score(name, fold)) for fold in range(self.folds)] if names else []

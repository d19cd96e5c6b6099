"""A simulation has the outputs of all models for all samples in one place: what each site tells of them, and details."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from manyheads.experiments.alone import AloneTask, alone_outputs
from manyheads.experiments.choices import chosen_alone, scores_of_local, validation_score
from manyheads.experiments.cross import CROSS_SITES, cross_sites
from manyheads.experiments.describe import FederationFacts, federation_facts
from manyheads.experiments.details import Details, qualities, survival_curves
from manyheads.experiments.found import Found
from manyheads.experiments.methods import LOCAL
from manyheads.experiments.outcomes import OutOfFold, by_fold, out_of_fold, predictions_of
from manyheads.experiments.plan import Plan
from manyheads.experiments.quality import CrossSites
from manyheads.experiments.results import ALONE, POOLED, ComparisonResult
from manyheads.experiments.study import Study
from manyheads.experiments.told import Told, ValidationTold, tell, tell_validation
from manyheads.experiments.trials import Trial
from manyheads.experiments.work import Crew, Do, Finals, Progress, Say, Work, at_work
from manyheads.metrics import Predictions

__all__ = ["Simulated", "simulating", "validation_told"]

Outputs = list[list[np.ndarray]]
"""outputs of a method for the test samples, by seed and fold"""


def validation_told(study: Study, baselines: Sequence[str]) -> tuple[ValidationTold, ...]:
    """What each site tells of its validation samples."""
    folds = range(len(study.folds))
    found = {name: [_validated(study, AloneTask(name, fold)) for fold in folds] for name in baselines}
    sizes = np.stack([fold.validation.sizes for fold in study.folds])  # [folds, sites]
    return tuple(
        tell_validation(study.score, own, {name: [each.client(site) for each in found[name]] for name in baselines})
        for site, own in enumerate(sizes.T.tolist())
    )


def _validated(study: Study, task: AloneTask) -> Predictions:
    """Predictions for the validation samples, by models other than networks."""
    fold = (study.pooled if task.pooled else study.folds)[task.fold]
    return predictions_of(fold.tuning, fold.validation, alone_outputs(study, task).validation)


@dataclass(frozen=True)
class Simulated:
    """The outputs of all models for the test samples of all sites."""

    study: Study
    found: Found
    finals: Mapping[str, Sequence[Sequence[Trial]]]
    """the final trials, by fold and seed"""

    def told(self) -> list[Told]:
        """What each site tells of its test samples."""
        found = self.found
        return [
            tell(found.metric, found.metrics, self._of_site(site), found.alone_of(site), found.chosen)
            for site in range(len(found.sites))
        ]

    def details(self, best: str | None) -> Details:
        """What is shown of the predictions of the best alone, and of a method."""
        federation, sites = self.study.folds[0].final, range(len(self.found.sites))
        each = [{name: seeds[:1] for name, seeds in self._of_site(site).items()} for site in sites]
        shown = {ALONE: [by_fold(own, self.found.alone_of(site))[0] for site, own in enumerate(each)]}
        if best:
            shown[best] = [own[best][0] for own in each]
        return Details(
            cross=self._cross(best) if self._crossed else None,
            quality=qualities(federation, shown),
            survival=survival_curves(federation, shown.get(best or "", ())),
        )

    @property
    def _crossed(self) -> bool:
        """Whether it is shown whose model works at whose site."""
        return len(self.found.sites) <= CROSS_SITES

    def to_predict(self) -> list[Work]:
        """What has to be predicted before :meth:`details`: by the models of training alone, for all sites."""
        chosen = self.found.alone_chosen if self._crossed else ()
        runs = [self.finals[LOCAL][fold][0] for fold, names in enumerate(chosen) if LOCAL in names]
        return [Work(trial, predict=True, everywhere=True) for trial in runs]

    @cached_property
    def _predictions(self) -> dict[str, list[OutOfFold]]:
        """Of each method, for each seed, for the samples of all sites."""
        return {name: out_of_fold(self.study.folds, self.outputs(name)) for name in self.found.predicting}

    def _of_site(self, site: int) -> dict[str, list[OutOfFold]]:
        """Of each method, for each seed, for the samples of one site."""
        return {name: [seed.client(site) for seed in seeds] for name, seeds in self._predictions.items()}

    def outputs(self, name: str) -> Outputs:
        """The outputs of a method, by seed and fold."""
        seeds = range(self.found.seeds)
        if name in self.found.baselines:
            own = [alone_outputs(self.study, AloneTask(name, fold)).test for fold in range(self.found.folds)]
            return [own for _ in seeds]
        if name == POOLED:
            return self._pooled()
        return [[self.study.outputs(fold[seed]) for fold in self.finals[name]] for seed in seeds]

    def _pooled(self) -> Outputs:
        """The outputs of the model on pooled data that validation samples favour in each fold."""
        picked, metric = [], self.found.metric
        for fold, pooled in enumerate(self.study.pooled):
            scores = {
                name: np.array([validation_score(metric, _validated(self.study, AloneTask(name, fold, pooled=True)))])
                for name in self.found.baselines
            }
            if POOLED in self.found.tuned:
                scores[POOLED] = scores_of_local(self.found.tuned[POOLED], fold, 1, metric.sign)
            picked.append(chosen_alone(scores, pooled.validation.sizes)[0])
        return [
            [
                self.study.outputs(self.finals[POOLED][fold][seed])
                if name == POOLED
                else alone_outputs(self.study, AloneTask(name, fold, pooled=True)).test
                for fold, name in enumerate(picked)
            ]
            for seed in range(self.found.seeds)
        ]

    def _cross(self, best: str | None) -> CrossSites:
        """Whose model works at whose site."""
        study, models = self.study, []
        for fold, chosen in enumerate(self.found.alone_chosen):
            everywhere = {
                name: study.outputs(self.finals[LOCAL][fold][0], everywhere=True)
                if name == LOCAL
                else alone_outputs(study, AloneTask(name, fold)).cross
                for name in set(chosen)
            }
            rows = [everywhere[name] for name in chosen]
            models.append(np.stack([row[site] for site, row in enumerate(rows) if row is not None]))
        federated = (best, self.outputs(best)[0]) if best else None
        return cross_sites(self.found.metric, study.folds, models, federated)


@dataclass(frozen=True)
class _Here:
    """A comparison on this machine, whose processes have the samples of all sites."""

    study: Study
    plan: Plan
    do: Do

    def validated(self, baselines: Sequence[str]) -> tuple[ValidationTold, ...]:
        return validation_told(self.study, baselines)

    def told(self, found: Found, finals: Finals) -> Sequence[Told]:
        return Simulated(self.study, found, finals).told()

    def details(self, found: Found, finals: Finals, best: str | None) -> Details:
        simulated = Simulated(self.study, found, finals)
        self.do(simulated.to_predict())
        return simulated.details(best)

    def facts(self) -> FederationFacts:
        return federation_facts(self.plan.federation, self.plan.training.seed)

    def end(self, result: ComparisonResult) -> None:
        pass


@contextmanager
def simulating(study: Study, plan: Plan, progress: Progress, say: Say) -> Iterator[Crew]:
    """Do the work of a comparison by processes that have all its data."""
    with at_work(study, plan.training.engine, progress, say) as do:
        yield _Here(study, plan, do)

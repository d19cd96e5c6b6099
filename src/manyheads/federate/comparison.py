"""``federate compare``: the simulator's comparison, its work done by sites that keep their samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from manyheads.core.errors import UserError
from manyheads.core.files import fresh_folder, locked, sweep
from manyheads.core.history import History
from manyheads.core.optim import FineTune
from manyheads.core.records import to_table
from manyheads.core.sealed import write_toml
from manyheads.core.settings import as_dict
from manyheads.engines.executor import Ask
from manyheads.experiments.conduct import run_comparison
from manyheads.experiments.describe import FederationFacts, federation_facts
from manyheads.experiments.details import Details
from manyheads.experiments.folds import Fold
from manyheads.experiments.found import Found
from manyheads.experiments.method_result import MethodResult
from manyheads.experiments.methods import methods_of
from manyheads.experiments.plan import Plan, model_for, usual_folds
from manyheads.experiments.results import ComparisonResult
from manyheads.experiments.study import Study as Trials
from manyheads.experiments.told import Told, ValidationTold
from manyheads.experiments.trials import Trial as Wanted
from manyheads.experiments.work import Crew, Finals, Progress, Say, Work
from manyheads.federate.conduct import Beginning, beginning, built, made_of, write_beginning
from manyheads.federate.link import Link
from manyheads.federate.lockstep import InStep, foreseen, in_lockstep
from manyheads.federate.study import Study
from manyheads.federate.table import Division
from manyheads.federate.told import TableTold
from manyheads.federate.trial import Trial
from manyheads.federate.wire import Message, prefixed
from manyheads.models import MODELS
from manyheads.run.at_sites import AT_SITES
from manyheads.run.config_file import COMPARISON
from manyheads.run.load import load
from manyheads.run.loop import Loop
from manyheads.run.simulate import begun

__all__ = ["compare"]


@dataclass(frozen=True)
class _Plan(Plan):
    """A comparison whose federation is known by its sizes alone."""

    kept: Beginning | None = None
    federations: Sequence[Any] = ()

    @cached_property
    def folds(self) -> tuple[Fold, ...]:
        assert self.kept is not None
        division, parts = self.kept.division, self.federations
        pairs = [(parts[division.tuning(k)], parts[division.final(k)]) for k in range(division.folds)]
        return tuple(Fold(tuning, final, self.model(tuning), self.model(final)) for tuning, final in pairs)

    @cached_property
    def pooled(self) -> tuple[Fold, ...]:
        return ()

    @property
    def monitors(self) -> tuple[str, ...]:
        return ()


def compare(
    link_of: Callable[[str], Link], out: Path, resume: bool = False, progress: Progress = lambda done, doing: None
) -> ComparisonResult:
    """Compare methods across the sites of a study; the folder and the result are like those of the simulator."""
    link, kept = beginning(link_of, out, resume, _division)
    study = link.study
    comparison = replace(study.compare, pooled=False)
    if not resume:
        fresh_folder(out)
    federations = kept.federations(link.study)
    finetune = study.training.finetune
    training = replace(
        study.training,
        checkpoint_seconds=0.0,
        finetune=FineTune(scope="all") if finetune.scope == "none" else finetune,
    )
    methods = methods_of(comparison.methods, comparison.batch, comparison.options)
    made, spec = made_of(study), built(MODELS, study.model, "model")
    plan = _Plan(
        federations[0], partial(model_for, spec), training, comparison, methods, made, out, kept=kept, federations=federations,
        next_step=lambda method: f"manyheads federate run STUDY, with the settings of {method} in study.toml",
    )  # fmt: skip
    with locked(out):
        sweep(out)
        write_beginning(out, kept)
        whole = as_dict(training) | made | {"compare": as_dict(comparison)}
        describe = partial(write_toml, out / COMPARISON, whole)
        return run_comparison(plan, progress, link.say, describe, partial(_at_sites, link, kept, spec))


def _division(study: Study, told: Mapping[str, TableTold]) -> Division:
    """The folds of the study's comparison; their number by the sizes of the sites' tables, unless it is given."""
    rows = np.array([each.rows for each in told.values()])
    folds = study.compare.folds or usual_folds(bool(study.reading("").split), rows)
    return Division(seed=study.training.seed, validation=study.compare.validation, folds=folds)


@contextmanager
def _at_sites(
    link: Link, kept: Beginning, spec: Any, trials: Trials, plan: Plan, progress: Progress, say: Say
) -> Iterator[Crew]:
    yield _Sites(link, kept, spec, trials, plan, progress)


@dataclass(frozen=True)
class _Sites:
    """Real sites, as those who do the work of a comparison."""

    link: Link
    kept: Beginning
    spec: Any
    trials: Trials
    plan: Plan
    progress: Progress
    begun: dict[Path, Wanted] = field(default_factory=dict)
    """all runs so far: the rounds that are told as progress are those of all stages"""

    def do(self, tasks: Sequence[Work]) -> None:
        """Train all runs in lockstep; what is fitted and predicted without a message a round is done when it is told."""
        until: dict[Path, int] = {}
        wanted: dict[Path, Wanted] = {}
        for task in tasks:
            if task.trial and not task.predict and not self.trials.diverged(task.trial):
                path = self.trials.path(task.trial)
                wanted[path], until[path] = task.trial, max(task.until, until.get(path, 0))
        todo = list(wanted.values())
        self.begun.update(wanted)
        with ExitStack() as stack:
            steps, by_key = [], {}
            for path, each in wanted.items():
                model, federation = self.trials.model(each), self.trials.federation(each)
                things = each.algorithm, model, federation, each.training, self.trials.config, path
                loop = stack.enter_context(
                    begun(*things, resume=True, say=self.link.say, kept=AT_SITES, tried=self.trials.tried(each))
                )
                asking = loop.run(lambda end: None, partial(_reached, until[path]))
                sent = self._sent(each)
                steps.append(InStep(sent, federation, asking, self._foreseen(each, loop, until[path])))
                by_key[sent.key] = each
            in_lockstep(
                steps, self.link, self.kept.common,
                lambda trial, error: self.trials.note_divergence(by_key[trial.key], error),
                lambda: self.progress(self.trials.rounds_done(self.begun.values()), "a round of all trainings"),
            )  # fmt: skip

        self._require_scores(todo, until)

    def _require_scores(self, trials: Sequence[Wanted], until: Mapping[Path, int]) -> None:
        """An error if no site has told how good any model is on its validation samples."""
        chosen_by = [trial for trial in trials if trial.stage == "tuning" and not self.trials.diverged(trial)]
        curves = [self.trials.curve(trial, until[self.trials.path(trial)]) for trial in chosen_by]
        if chosen_by and not any(point.score is not None for curve in curves for point in curve):
            raise UserError(
                "no site tells how good models are on its validation samples",
                fix="they are fewer than min_count of each site's policy: a larger validation part in study.toml",
            )

    def _foreseen(self, wanted: Wanted, loop: Loop, until: int) -> Sequence[Sequence[Ask]]:
        """All that a training which sends nothing will ask for up to a round; nothing of others."""
        if loop.server.flat or wanted.training.participation < 1 or wanted.training.cohort:
            return ()
        things = wanted.algorithm, self.trials.model(wanted), loop.federation, wanted.training, self.trials.config, None
        with begun(*things, kept=AT_SITES, tried=self.trials.tried(wanted)) as rehearsal:
            return foreseen(rehearsal.run(lambda end: None, partial(_reached, until)), loop.done)

    def _sent(self, wanted: Wanted) -> Trial:
        division = self.kept.division
        part = (division.tuning if wanted.stage == "tuning" else division.final)(wanted.fold)
        return Trial(wanted.algorithm, self.spec, wanted.training, part)

    def validated(self, baselines: Sequence[str]) -> tuple[ValidationTold, ...]:
        asked = self.kept.common | {"metric": self.trials.score.name, "baselines": list(baselines)}
        replies = self._all("validate", {site: Message(asked) for site in self.kept.sites})
        return tuple(ValidationTold.from_json(replies[site].facts["validated"], site) for site in self.kept.sites)

    def told(self, found: Found, finals: Finals) -> Sequence[Told]:
        """What each site tells of its test samples, by the final models of all methods."""
        asked, tensors, trials = list[dict[str, Any]](), dict[str, Any](), dict[str, Any]()
        versions: list[Any] = []
        for method, folds in finals.items():
            for fold in folds:
                for seed, wanted in enumerate(fold):
                    sent, run = self._sent(wanted), load(self.trials.path(wanted), self.trials.model(wanted))
                    trials[sent.key] = sent.facts
                    tensors |= prefixed(f"{len(asked)}/", sent.algorithm.for_models(run.server))
                    versions.append(run.kept_rounds())
                    asked.append({"trial": sent.key, "method": method, "seed": seed, "finetuned": wanted.finetuned})
        common = self.kept.common | {
            "trials": trials, "seeds": found.seeds, "metric": found.metric.name, "metrics": [m.name for m in found.metrics],
            "baselines": list(found.baselines), "predicting": found.predicting, "chosen": found.chosen,
        }  # fmt: skip
        messages = {}
        for number, site in enumerate(self.kept.sites):
            own = [ask | {"version": int(kept[number])} for ask, kept in zip(asked, versions, strict=True)]
            messages[site] = Message(common | {"alone": found.alone_of(number), "finals": own}, tensors)
        replies = self._all("tell", messages)
        return [Told.from_json(replies[site].facts["told"], site) for site in self.kept.sites]

    def _all(self, action: Any, messages: Mapping[str, Message]) -> dict[str, Message]:
        """The replies of all sites: no conclusion is drawn without one of them."""
        link = replace(
            self.link, study=replace(self.link.study, rules=replace(self.link.study.rules, min_sites=len(messages)))
        )
        return link.ask(action, messages).good

    def details(self, found: Found, finals: Finals, best: str | None) -> Details:
        return Details()

    def facts(self) -> FederationFacts:
        known = federation_facts(self.plan.federation, self.plan.training.seed, blank=True)
        counted = all(part[0].get("labels") and None not in part[0]["labels"] for part in self.kept.parts)
        return known if counted else replace(known, labels=None, total_variation=None)

    def end(self, result: ComparisonResult) -> None:
        """Give each site the page of its own part."""
        messages = {}
        for number, site in enumerate(self.kept.sites):
            advice = next((to_table(each) for each in result.sites if each.client == number), None)
            methods = [_row_of(number, name, method) for name, method in result.methods.items()]
            facts = {"advice": advice, "methods": methods, "answer": result.recommendation.text, "score": result.score}
            messages[site] = Message(self.kept.common | facts)
        for site, why in self.link.ask("conclude", messages).missing.items():
            self.link.say(f"{site} has not kept its page: {why}")


def _reached(until: int, history: History) -> bool:
    return len(history) >= until


def _row_of(number: int, name: str, method: MethodResult) -> dict[str, Any]:
    """What one site is told of a method: its own gain and scores, and the mean over sites."""
    gain = next((to_table(each) for each in method.gains if each.client == number), None)
    scores = {metric: level.sites[number] for metric, level in method.metrics.items() if number < len(level.sites)}
    return {"method": name, "title": method.title, "mean": method.score, "gain": gain, "scores": scores}

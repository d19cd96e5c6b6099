"""The work of a comparison, spread over worker processes: whole runs, which are independent, one at a time each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

from manyheads.core.watching import watching
from manyheads.engines.executor import working
from manyheads.experiments.alone import AloneTask, fit_alone
from manyheads.experiments.describe import FederationFacts
from manyheads.experiments.details import Details
from manyheads.experiments.found import Found
from manyheads.experiments.results import ComparisonResult
from manyheads.experiments.study import Study
from manyheads.experiments.told import Told, ValidationTold
from manyheads.experiments.trials import Trial

__all__ = ["Crew", "Do", "Finals", "Progress", "Say", "Work", "at_work"]

Progress = Callable[[int, str], None]
"""called periodically with the number of rounds done, and what was just finished (or an empty string)"""


class Work(NamedTuple):
    """Something to do: train a run, predict with the models of a trained one, or fit a model other than a network."""

    trial: Trial | None = None
    predict: bool = False
    alone: AloneTask | None = None


Do = Callable[[Sequence[Work]], None]
Say = Callable[[str], None]
Finals = Mapping[str, Sequence[Sequence[Trial]]]
"""the final trials of each method, by fold and seed"""


class Crew(Protocol):
    """Those who do the work of a comparison and have its samples: processes of one machine, or real sites."""

    def do(self, tasks: Sequence[Work]) -> None:
        """Do all of it."""

    def validated(self, baselines: Sequence[str]) -> tuple[ValidationTold, ...]:
        """What each site tells of its validation samples."""

    def told(self, found: Found, finals: Finals) -> Sequence[Told]:
        """What each site tells of its test samples."""

    def details(self, found: Found, finals: Finals, best: str | None) -> Details:
        """What is shown of single predictions, if they may be seen."""

    def facts(self) -> FederationFacts:
        """What is known of the sites' data."""

    def end(self, result: ComparisonResult) -> None:
        """Called with the result, which is written."""


@contextmanager
def at_work(study: Study, workers: int, progress: Progress, say: Callable[[str], None]) -> Iterator[Do]:
    """Provide a function that distributes work over worker processes.

    Trials that share a run are trained once. ``say`` gets messages about damaged files that are redone.
    """
    method = study.training.engine.resolved_start_method()
    with working(workers, method, study, _with_registered, (study,)) as executor:
        begun: list[Trial] = []

        def do(tasks: Sequence[Work]) -> None:
            begun.extend(task.trial for task in tasks if task.trial)
            once = list({_identity(study, task): task for task in tasks}.values())
            for task, said in zip(once, executor.map(_done, None, once), strict=True):
                for words in said:
                    say(words)
                progress(study.rounds_done(begun), str(task.trial or task.alone))

        with watching(lambda: progress(study.rounds_done(begun), "")):
            yield do


def _identity(study: Study, task: Work) -> Any:
    """What makes tasks the same: trials of one run, unless its models are then scored in two ways."""
    if task.trial is None:
        return task.alone
    return study.path(task.trial), task.predict and task.trial.models


def _done(study: Study, common: None, task: Work) -> list[str]:
    if task.trial is None:
        return fit_alone(study, task.alone) if task.alone else []
    return study.judge(task.trial) if task.predict else study.train(task.trial)


def _with_registered(study: Study) -> Study:
    study.register_classes()
    return study

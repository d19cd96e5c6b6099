"""The work of a comparison, spread over worker processes: whole runs, which are independent, one at a time each."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

from manyheads.core.watching import watching
from manyheads.engines.engine import Engine
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
    until: int = 0
    """the round after which training ends for now"""
    predict: bool = False
    everywhere: bool = False
    """predict with every client's model for all clients, not only for its own"""
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
def at_work(study: Study, engine: Engine, progress: Progress, say: Callable[[str], None]) -> Iterator[Do]:
    """Provide a function that distributes work as the engine's settings say.

    Trials that share a run are trained once. ``say`` gets messages about damaged files that are redone.
    """
    with working(engine, sys.maxsize, study, _with_registered, lambda: (study,), shared=study.out) as executor:
        begun: dict[Any, Trial] = {}
        reached: dict[Any, int] = {}  # rounds of runs that were opened: one with more than are asked for needs no visit

        def do(tasks: Sequence[Work]) -> None:
            once: dict[Any, Work] = {}
            for task in tasks:
                key = _identity(study, task)
                if task.until > reached.get(key, -1) and (key not in once or task.until > once[key].until):
                    once[key] = task
            begun.update({key: task.trial for key, task in once.items() if task.trial})
            results = executor.map(_done, None, list(once.values()))
            for (key, task), said in zip(once.items(), results, strict=True):
                for words in said:
                    say(words)
                if task.trial and not task.predict:
                    reached[key] = max(task.until, study.rounds_done([task.trial]))
                progress(study.rounds_done(list(begun.values())), str(task.trial or task.alone))

        with watching(lambda: progress(study.rounds_done(list(begun.values())), "")):
            yield do


def _identity(study: Study, task: Work) -> Any:
    """What makes tasks the same: trials of one run, unless its models are then scored in two ways."""
    if task.trial is None:
        return task.alone
    return study.path(task.trial), task.predict and (task.trial.models, task.everywhere)


def _done(study: Study, common: None, task: Work) -> list[str]:
    if task.trial is None:
        return fit_alone(study, task.alone) if task.alone else []
    return study.judge(task.trial, task.everywhere) if task.predict else study.train(task.trial, task.until)


def _with_registered(study: Study) -> Study:
    study.register_classes()
    return study

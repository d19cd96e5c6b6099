"""Search settings of one method on one federation, by validation samples; test samples are not looked at.

The folder can be resumed, and holds::

    runs/foldK-METHOD-lrRATE-tuning-sSEED-HASH   run directories (see :mod:`manyheads.experiments.study`)
    tune.json                                    what was tried, and what was chosen
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from manyheads.core.errors import UserError
from manyheads.core.machine import Machine, this_machine
from manyheads.core.optim import FineTune
from manyheads.core.plain import plain
from manyheads.core.records import Real, from_table, to_table
from manyheads.core.sealed import read_json, write_json
from manyheads.core.settings import as_dict
from manyheads.data import Federation
from manyheads.engines.engine import Engine
from manyheads.experiments.compare import planned
from manyheads.experiments.conduct import deciding, fitting, study_of
from manyheads.experiments.method_result import Choice, Tried
from manyheads.experiments.methods import TUNED, Given, methods_of
from manyheads.experiments.plan import RATES, ROUNDS, Comparison, Plan, refuse_unfit
from manyheads.experiments.simulated import simulating
from manyheads.experiments.tuning import Tuning
from manyheads.experiments.work import Progress, Say
from manyheads.metrics import METRICS
from manyheads.run import Training
from manyheads.run.config import GivenModel

__all__ = ["TUNED_RESULTS", "TuningResult", "run_tuning", "tune"]

TUNED_RESULTS = "tune.json"
SCHEMA = 1


@dataclass(frozen=True, kw_only=True)
class TuningResult:
    """What was tried for a method, and what validation samples chose."""

    method: str
    """its label"""
    algorithm: dict[str, Any]
    """name and settings of the algorithm, with what was chosen"""
    finetuned: bool
    rate: float | None
    """the step size that was chosen"""
    knobs: dict[str, Any]
    """further settings that were chosen"""
    rounds: int
    validation: Real
    """validation score with these, mean over seeds and folds"""
    rising: bool
    """whether the score still rose at the largest number of rounds"""
    choices: tuple[Choice, ...]
    """what was chosen in each fold"""
    tried: tuple[Tried, ...]
    budget: int
    """rounds that the search might take, over folds and seeds; 0: the step sizes of a list were tried"""
    score: str
    """the name of the metric that decides"""
    reason: str
    limit: int
    """the largest number of rounds of a training"""
    seeds: tuple[int, ...]
    folds: int
    data: str
    settings: dict[str, Any]
    machine: Machine

    @property
    def spent(self) -> int:
        """Rounds of all trainings."""
        return sum(each.rounds for each in self.tried)

    @property
    def ranked(self) -> list[Tried]:
        """What was tried, best first; what diverged last."""
        sign = METRICS.find(self.score)().sign
        return sorted(
            self.tried, key=lambda each: (each.validation is None, -sign * (each.validation or 0.0), each.rate or 0.0)
        )

    def is_chosen(self, tried: Tried) -> bool:
        return (tried.rate, tried.knobs) == (self.rate, self.knobs)

    def to_json(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"schema": SCHEMA, **plain(to_table(self))}

    def write(self, folder: Path) -> None:
        write_json(folder / TUNED_RESULTS, self.to_json())

    @classmethod
    def read(cls, folder: Path) -> TuningResult:
        """Read the result in a folder."""
        path = folder / TUNED_RESULTS
        if not path.is_file():
            raise UserError(
                f"{folder} holds no {TUNED_RESULTS}", fix="make one: manyheads tune METHOD DATA --out FOLDER"
            )
        return from_table(cls, read_json(path, fix="make it again: manyheads tune METHOD --resume --out FOLDER"), path)


def tune(
    federation: Federation,
    model: GivenModel,
    method: Given,
    *,
    search: int = 10,
    rounds: int = ROUNDS,
    seeds: int = 3,
    folds: int = 1,
    rates: Sequence[float] = RATES,
    validation: float = 0.2,
    batch: int | None = None,
    metric: str = "",
    options: Mapping[str, Any] | None = None,
    participation: float = 1.0,
    finetune: FineTune | None = None,
    engine: Engine | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    resume: bool = False,
) -> TuningResult:
    """Search step size and other settings of a method on a federation, by validation samples.

    ``method`` is a name (``"fedavg+ft"``: after fine-tuning), an algorithm, or its class; ``options`` are settings for one that is given
    by name. The search may take the rounds of ``search`` whole trainings; 0: only the step sizes ``rates`` are tried.

    >>> from manyheads.data import Classes, Digits, federate
    >>> federation = federate(Digits().pool(seed=0), Classes(3), clients=4, seed=0)
    >>> found = tune(federation, "mlp", "fedprox", search=2, rounds=2, seeds=1)
    >>> sorted(found.knobs), found.spent <= found.budget
    (['mu'], True)
    """
    named = method if isinstance(method, str) else getattr(method, "name", "")
    given = {named.removesuffix(TUNED): dict(options)} if options else {}
    label, chosen = list(methods_of([method], batch, given).items())[-1]  # training alone comes first
    comparison = Comparison(
        methods=(label,), search=search, seeds=seeds, folds=folds, rates=tuple(rates), validation=validation, batch=batch,
        metric=metric, options=given,
    )  # fmt: skip
    training = Training(rounds=rounds, participation=participation, seed=seed, engine=engine or Engine())
    training = replace(training, finetune=finetune or FineTune(scope="all"))
    with planned(federation, model, {label: chosen}, comparison, training, out, resume) as plan:
        return run_tuning(plan)


def run_tuning(
    plan: Plan,
    progress: Progress = lambda done, doing: None,
    say: Say = warnings.warn,
    begin: Callable[[], None] = lambda: None,
) -> TuningResult:
    """Choose the settings of the one method of a plan, or go on with it.

    ``begin`` is called once existing runs in the folder are known to belong to the same search.
    """
    refuse_unfit(plan.federation)
    plan = replace(plan, comparison=replace(plan.comparison, pooled=False))
    metric, reason = deciding(plan)
    study = study_of(plan, metric)
    (label,), _ = fitting(plan, study)
    tuning = Tuning(plan, study, plan.methods)
    study.refuse_other(tuning.example.config)
    begin()
    with simulating(study, plan, progress, say) as those:
        chosen, diverged = tuning.chosen(those.do)
    if label in diverged:
        raise UserError(f"{label} {diverged[label]}", where="rates", fix="try smaller ones")
    found, method = chosen[label], plan.methods[label]
    algorithm = method.at(found.candidate, len(plan.federation))
    result = TuningResult(
        method=label,
        algorithm={"name": algorithm.name, **as_dict(algorithm)},
        finetuned=method.finetuned,
        rate=found.candidate.rate,
        knobs=dict(found.candidate.knobs),
        rounds=found.rounds,
        validation=found.validation,
        rising=found.rising,
        choices=found.choices,
        tried=found.rates,
        budget=plan.budget * len(plan.folds),
        score=metric.name,
        reason=reason,
        limit=plan.most_rounds_of(label),
        seeds=plan.seeds,
        folds=len(plan.folds),
        data=plan.federation.name,
        settings={"comparison": as_dict(plan.comparison), "training": as_dict(study.training)}
        | {key: table for key, table in plan.config.items() if key != "facts"},
        machine=this_machine(),
    )
    result.write(plan.out)
    return result

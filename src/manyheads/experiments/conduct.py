"""The steps of a comparison: choose settings in each fold, train final models with them, score these on test samples."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

from manyheads.core.errors import Damaged, UserError
from manyheads.core.machine import this_machine
from manyheads.core.sealed import read_json
from manyheads.core.settings import as_dict
from manyheads.core.tasks import TASKS, task_named
from manyheads.engines.workbench import tried_on
from manyheads.experiments.alone import AloneTask, unfit_baselines
from manyheads.experiments.choices import Tuned
from manyheads.experiments.describe import FederationFacts
from manyheads.experiments.details import Details
from manyheads.experiments.found import Found, Trained
from manyheads.experiments.methods import LOCAL, Method
from manyheads.experiments.plan import Plan, refuse_unfit
from manyheads.experiments.results import RESULTS, ComparisonResult, description
from manyheads.experiments.scoring import Answer, judged
from manyheads.experiments.simulated import simulating
from manyheads.experiments.study import Study
from manyheads.experiments.told import ValidationTold
from manyheads.experiments.trials import Trial
from manyheads.experiments.tuning import Tuning
from manyheads.experiments.work import Crew, Do, Progress, Say, Work
from manyheads.metrics import METRICS, Metric, deciding_metric, metrics_for
from manyheads.monitors import MONITORS
from manyheads.run.checks import check
from manyheads.run.config_file import COMPARISON

__all__ = ["deciding", "fitting", "run_comparison", "study_of"]


def run_comparison(
    plan: Plan,
    progress: Progress = lambda done, doing: None,
    say: Say = warnings.warn,
    begin: Callable[[], None] = lambda: None,
    crew: Callable[[Study, Plan, Progress, Say], AbstractContextManager[Crew]] = simulating,
) -> ComparisonResult:
    """Run a comparison, or the rest of an interrupted one.

    ``begin`` is called once existing runs in the folder are known to belong to the same comparison; ``crew`` gives those
    who do its work: here, processes of this machine.
    """
    refuse_unfit(plan.federation)
    metric, reason = deciding(plan)
    study = study_of(plan, metric)
    methods, left_out = fitting(plan, study)
    unfit = unfit_baselines(plan.comparison.baselines, plan.federation)
    baselines = [name for name in plan.comparison.baselines if name not in unfit]
    tuning = Tuning(plan, study, methods)
    study.refuse_other(tuning.example.config)
    begin()
    with crew(study, plan, progress, say) as those:
        fits = [Work(alone=AloneTask(name, *place)) for name in baselines for place in tuning.places]
        chosen, diverged = tuning.chosen(those.do, fits)
        finals = _finals(study, tuning, chosen, those.do)
        diverged |= {name: "diverged in its final training" for name in chosen if name not in finals}
        if not baselines and LOCAL not in finals:
            raise UserError("training alone diverged with every step size", where="rates", fix="try smaller ones")
        kept = {name: each for name, each in chosen.items() if name in finals}
        found = _found(plan, study, baselines, kept, finals, those.validated(baselines))
        answer = judged(found, those.told(found, finals))
        details = those.details(found, finals, answer.recommendation.best)
        result = _concluded(plan, study, answer, details, reason, left_out | unfit | diverged, those.facts(), say)
        those.end(result)
    return result


def deciding(plan: Plan) -> tuple[Metric, str]:
    """Return the metric that methods are compared by, and why it is that one."""
    federation = plan.federation
    if plan.comparison.metric:
        found = METRICS.find(plan.comparison.metric, where="metric")
        metrics_for(task_named(federation.task), [found.name])  # an error if it is for other tasks
        if found.higher_is_better is None:
            raise UserError(f"{found.name} has no better direction", where="metric", fix="choose one that has")
        return found(), "it was asked for"
    labels = {federation.client_name(i): federation.train.client(i)[1] for i in range(len(federation))}
    name, reason = deciding_metric(task_named(federation.task), labels, federation.encoding.labels)
    return METRICS.find(name)(), reason


def study_of(plan: Plan, metric: Metric) -> Study:
    tuned = tuple(method.algorithm for method in plan.methods.values() if method.finetuned)
    training = replace(
        plan.training,
        monitor=plan.monitors,
        schedule=plan.training.schedule and plan.training.schedule.over(plan.training.rounds),
        engine=plan.training.engine.of_a_task(),
    )
    if tuned and training.finetune.scope == "none":
        names = ", ".join(name for name, method in plan.methods.items() if method.finetuned)
        raise UserError(f"{names} fine-tunes", where="finetune", given="none", fix="leave one of them out")
    named = [type(metric), TASKS.find(plan.federation.task), *(MONITORS.find(name) for name in training.monitor)]
    return Study(
        folds=plan.folds,
        pooled=plan.pooled,
        training=training,
        config=plan.config,
        out=plan.out,
        score=metric,
        seed=plan.training.seed,
        tuned=tuned,
        classes=tuple(named),
    )


def fitting(plan: Plan, study: Study) -> tuple[dict[str, Method], dict[str, str]]:
    """Return the methods to compare, and those left out because they do not fit, with the reasons.

    Only methods implied by ``all`` are left out; one that was named is refused.
    """
    fold, methods, unfit = plan.folds[0], dict(plan.methods), {}
    model = tried_on(fold.final_model(study.seed), fold.final)
    for name, method in plan.methods.items():
        try:
            check(method.algorithm, model, fold.final, study.training)
        except UserError as error:
            if method.asked:
                raise
            unfit[name] = str(error)
            del methods[name]
    return methods, unfit


def _finals(study: Study, tuning: Tuning, chosen: Mapping[str, Tuned], do: Do) -> dict[str, list[list[Trial]]]:
    """Train the final models and predict with them; methods that diverge are left out."""
    finals = {label: tuning.final(label, found) for label, found in chosen.items()}
    do([Work(trial, trial.training.rounds) for folds in finals.values() for fold in folds for trial in fold])
    finals = {
        label: folds for label, folds in finals.items() if not any(study.diverged(t) for fold in folds for t in fold)
    }
    do([Work(trial, predict=True) for folds in finals.values() for fold in folds for trial in fold])
    return finals


def _found(
    plan: Plan,
    study: Study,
    baselines: Sequence[str],
    chosen: Mapping[str, Tuned],
    finals: Mapping[str, Sequence[Sequence[Trial]]],
    validated: tuple[ValidationTold, ...],
) -> Found:
    """What the runs have found, without the samples."""
    trained = {
        label: [[Trained(t.algorithm, t.candidate, t.finetuned, study.rounds(t)) for t in fold] for fold in folds]
        for label, folds in finals.items()
    }
    names = (study.score.name, *plan.comparison.metrics)
    return Found(
        metric=study.score,
        metrics=tuple(metrics_for(task_named(plan.federation.task), names)),
        sites=tuple(plan.federation.client_name(site) for site in range(len(plan.federation))),
        validated=validated,
        seeds=len(plan.seeds),
        tuned=chosen,
        finals=trained,
        baselines=tuple(baselines),
        pooled=bool(study.pooled),
        target=plan.comparison.target,
    )


def _concluded(
    plan: Plan,
    study: Study,
    answer: Answer,
    details: Details,
    reason: str,
    left_out: dict[str, str],
    facts: FederationFacts,
    say: Say,
) -> ComparisonResult:
    """Build the result of the comparison and write it to its folder."""
    best = answer.recommendation.method
    result = ComparisonResult(
        rounds=plan.training.rounds,
        folds=len(plan.folds),
        seeds=plan.seeds,
        protocol=_protocol(len(plan.folds)),
        score=study.score.name,
        reason=reason,
        target=answer.target,
        methods=answer.methods,
        recommendation=answer.recommendation,
        check=answer.check,
        sites=answer.sites,
        left_out=left_out,
        data=facts,
        settings={"comparison": as_dict(plan.comparison), "training": as_dict(study.training)}
        | {key: table for key, table in plan.config.items() if key != "facts"},
        machine=this_machine(),
        cross=details.cross,
        quality=details.quality,
        survival=details.survival,
        described=description(plan.out),
        command=plan.command,
        next_step=plan.next_step(best) if best else "",
    )
    _warn_if_stale(plan.out, say)
    result.write(plan.out)
    return result


def _protocol(folds: int) -> str:
    if folds == 1:
        return "mean over clients of each client's own test samples, on models trained on all its other samples"
    return f"mean over clients of each client's own samples, each predicted by models of the one of {folds} folds that did not train on it"


def _warn_if_stale(out: Path, say: Say) -> None:
    """Report existing results in the folder that are damaged or of other settings, as they will be overwritten."""
    if (out / RESULTS).exists():
        try:
            other = read_json(out / RESULTS).get("described") != description(out)
        except Damaged as error:
            say(f"{error}; it is made again")
        else:
            if other:
                say(f"{out / RESULTS} is damaged, or of other settings than {COMPARISON} has now; it is made again")

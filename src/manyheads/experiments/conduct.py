"""The steps of a comparison: tune step sizes, repeat the best with all seeds, score the final models."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from manyheads.core.errors import Damaged, UserError
from manyheads.core.machine import this_machine
from manyheads.core.sealed import read_json
from manyheads.core.settings import as_dict
from manyheads.core.tasks import task_named
from manyheads.experiments.describe import federation_facts
from manyheads.experiments.methods import Method
from manyheads.experiments.plan import Plan, refuse_unfit
from manyheads.experiments.results import ALONE, RESULTS, ComparisonResult, RateTried, description
from manyheads.experiments.scoring import Judged, judged
from manyheads.experiments.study import Progress, Study, at_work, judge_trial, train_trial
from manyheads.experiments.trials import Trial
from manyheads.metrics import METRICS, Metric, SampleMetric, metrics_for
from manyheads.run import Evaluate
from manyheads.run.checks import check
from manyheads.run.config_file import COMPARISON

__all__ = ["run_comparison"]

MONITORS = ("cka", "head_diversity", "drift")
POINTS = 10
"""approximate number of evaluations in a learning curve"""


def run_comparison(
    plan: Plan,
    progress: Progress = lambda done, doing: None,
    say: Callable[[str], None] = warnings.warn,
    begin: Callable[[], None] = lambda: None,
) -> ComparisonResult:
    """Run a comparison, or the rest of an interrupted one.

    ``begin`` is called once existing runs in the folder are known to belong to the same comparison.
    """
    refuse_unfit(plan.federation)
    study, methods, unfit = _study(plan)
    rates = {name: m.rates(plan.comparison.rates, len(plan.federation)) for name, m in methods.items()}
    trials = {n: {(r, s): study.trial(m, r, s) for s in plan.seeds for r in rates[n]} for n, m in methods.items()}
    study.adopt([trial for each in trials.values() for trial in each.values()], say)
    begin()
    with at_work(study, plan.training.engine.resolved_workers(), progress, say) as do:
        do(train_trial, [trials[name][rate, plan.seeds[0]] for name in methods for rate in rates[name]])
        scores = {n: {r: _validated(study, trials[n][r, plan.seeds[0]]) for r in rates[n]} for n in methods}
        chosen = {n: max(sound, key=lambda r: sound[r]) for n, each in scores.items() if (sound := _not_diverged(each))}
        _refuse_diverged(ALONE in chosen, "every step size")
        finals = {name: [trials[name][rate, seed] for seed in plan.seeds] for name, rate in chosen.items()}
        do(train_trial, [trial for each in finals.values() for trial in each])
        finals = {name: each for name, each in finals.items() if not any(map(study.diverged, each))}
        _refuse_diverged(ALONE in finals, f"a later seed and the step size chosen, {chosen[ALONE]}")
        do(judge_trial, [trial for each in finals.values() for trial in each])
    tried = {
        name: [RateTried(rate, s and study.sign * s[0]) for rate, s in each.items() if rate is not None]
        for name, each in scores.items()
    }
    diverged = {name: "diverged with every step size, or with a later seed" for name in methods if name not in finals}
    return _concluded(plan, study, judged(study, finals, tried, plan.comparison.target), unfit | diverged, say)


def _study(plan: Plan) -> tuple[Study, dict[str, Method], dict[str, str]]:
    """Return the study, the methods to compare, and the methods left out because they do not fit, with the reasons.

    Only methods implied by ``all`` are left out; one that was named is refused.
    """
    training = replace(
        plan.training,
        evaluate=Evaluate(split="validation", every=max(1, plan.training.rounds // POINTS), also="always"),
        monitor=plan.training.monitor or MONITORS,
        engine=replace(plan.training.engine, workers=1),
    )
    methods, unfit = dict(plan.methods), {}
    for name, method in plan.methods.items():
        try:
            check(method.algorithm, plan.model(training.seed), plan.federation, training)
        except UserError as error:
            if method.asked:
                raise
            unfit[name] = str(error)
            del methods[name]
    tuned = {name: method.algorithm for name, method in methods.items() if method.finetuned}
    if tuned and training.finetune.scope == "none":
        raise UserError(f"{', '.join(tuned)} fine-tunes", where="finetune", given="none", fix="leave one of them out")
    score, further = _metrics(plan)
    study = Study(plan.federation, plan.model, training, plan.config, plan.out, score, further, tuple(tuned.values()))
    return study, methods, unfit


def _metrics(plan: Plan) -> tuple[SampleMetric, tuple[Metric, ...]]:
    """Return the metric that methods are compared by (the task's first sample-wise one), and the further metrics."""
    task = task_named(plan.federation.task)
    found = metrics_for(task, plan.comparison.metrics)
    score = next(metric for metric in found if isinstance(metric, SampleMetric))
    asked = {METRICS.find(name).name for name in plan.comparison.metrics}
    return score, tuple(metric for metric in found if metric.name in asked and metric is not score)


def _validated(study: Study, trial: Trial) -> tuple[float, float] | None:
    """Return score and negative loss (higher is better) on validation samples at the end; None if the run diverged."""
    last = None if study.diverged(trial) else study.curve(trial)[-1]
    if last is None or last.score is None or last.loss is None:
        return None
    return study.sign * last.score, -last.loss


def _not_diverged(scores: Mapping[float | None, tuple[float, float] | None]) -> dict[float | None, tuple[float, float]]:
    return {rate: score for rate, score in scores.items() if score is not None}


def _refuse_diverged(there: bool, with_what: str) -> None:
    if not there:
        raise UserError(f"training alone diverged with {with_what}", where="rates", fix="try smaller ones")


def _concluded(
    plan: Plan, study: Study, found: Judged, left_out: dict[str, str], say: Callable[[str], None]
) -> ComparisonResult:
    """Build the result of the comparison and write it to its folder."""
    loss = plan.federation.encoding.loss
    result = ComparisonResult(
        rounds=plan.training.rounds,
        seeds=plan.seeds,
        protocol="mean over clients of each client's own test samples, after the last round"
        + (f"; {loss}" if loss else ""),
        score=found.score,
        target=found.target,
        methods=found.methods,
        recommendation=found.recommendation,
        check=found.check,
        left_out=left_out,
        data=federation_facts(plan.federation, plan.training.seed),
        settings={"comparison": as_dict(plan.comparison), "training": as_dict(study.training)}
        | {key: table for key, table in plan.config.items() if key != "facts"},
        machine=this_machine(),
        described=description(plan.out),
        command=plan.command,
    )
    _warn_if_stale(plan.out, say)
    result.write(plan.out)
    return result


def _warn_if_stale(out: Path, say: Callable[[str], None]) -> None:
    """Report existing results in the folder that are damaged or of other settings, as they will be overwritten."""
    if (out / RESULTS).exists():
        try:
            other = read_json(out / RESULTS).get("described") != description(out)
        except Damaged as error:
            say(f"{error}; it is made again")
        else:
            if other:
                say(f"{out / RESULTS} is damaged, or of other settings than {COMPARISON} has now; it is made again")

"""Compare methods on one federation: who gains from federating?

For every method, step sizes are tried on the first seed and judged on validation samples; the best goes on with the other
seeds. Only then are the final models tried on test samples. All of it is kept in a folder, from which it can go on::

    runs/METHOD-lrRATE-sSEED  run directories (see :mod:`manyheads.experiments.study`)
    compare.json              the results
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

from pydantic import Field
from torch import nn

from manyheads.core.errors import Damaged, UserError
from manyheads.core.files import content, fresh_folder
from manyheads.core.machine import machine_facts
from manyheads.core.optim import FineTune
from manyheads.core.sealed import fingerprint, read_json, write_json
from manyheads.core.settings import as_dict, settings
from manyheads.data import Federation
from manyheads.engines.engine import Engine
from manyheads.experiments.describe import federation_facts
from manyheads.experiments.methods import ALONE, USUAL, Method, methods_named
from manyheads.experiments.results import results
from manyheads.experiments.study import Progress, Study, Trial, at_work, judge_trial, train_trial
from manyheads.models import MODELS, Model, build_model
from manyheads.run import Evaluate, Training
from manyheads.run.checks import check

__all__ = ["RESULTS", "Comparison", "compare", "description", "most_rounds", "refuse_unfit", "run_comparison"]

RATES = (0.01, 0.03, 0.1, 0.3)
MONITORS: tuple[str, ...] = ("cka", "head_diversity", "drift")
RESULTS, SETTINGS = "compare.json", "compare.toml"
POINTS = 10
"""evaluations in a learning curve, at most"""


@settings
class Comparison:
    """What is compared, and how carefully."""

    methods: tuple[str, ...] = USUAL
    """methods; NAME+ft: after fine-tuning; all: every one there is"""
    seeds: Annotated[int, Field(ge=1)] = 3
    """repetitions, each with its own initial model and order of samples, the same for all methods"""
    rates: Annotated[tuple[Annotated[float, Field(gt=0)], ...], Field(min_length=1)] = RATES
    """step sizes to choose from, for every method by its validation samples"""
    validation: Annotated[float, Field(gt=0, lt=1)] = 0.2
    """part of each client's training samples that is set aside to choose by"""
    batch: Annotated[int, Field(ge=0)] | None = None
    """samples a step, for all methods; without it, each method's own"""
    target: float | None = None
    """accuracy (or loss) to which rounds and bytes are counted; without it, that of training alone"""
    options: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """settings of methods, in a file: [options.fedrep] head_epochs = 5"""


def compare(
    federation: Federation,
    model: Model | nn.Module | str = "mlp",
    *,
    methods: Sequence[str] = USUAL,
    rounds: int = 30,
    seeds: int = 3,
    rates: Sequence[float] = RATES,
    validation: float = 0.2,
    batch: int | None = None,
    participation: float = 1.0,
    finetune: FineTune | None = None,
    engine: Engine | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    resume: bool = False,
) -> dict[str, Any]:
    """Compare methods on a federation; the results are plain values, as ``manyheads compare --json`` prints them.

    >>> from manyheads.data import Classes, Digits, federate
    >>> federation = federate(Digits().pool(seed=0), Classes(3), clients=4, seed=0)
    >>> found = compare(federation, methods=["fedavg"], rounds=2, seeds=1, rates=[0.05])
    >>> list(found["methods"]), found["recommendation"]["method"]
    (['local', 'fedavg'], None)
    """
    comparison = Comparison(methods=tuple(methods), seeds=seeds, rates=tuple(rates), validation=validation, batch=batch)
    training = Training(
        rounds=rounds,
        participation=participation,
        seed=seed,
        finetune=finetune or FineTune(scope="all"),
        engine=engine or Engine(),
    )
    federation = federation.with_validation(validation, seed)
    refuse_unfit(federation)
    if isinstance(model, str):
        spec = MODELS.find(model)()
        dtype = str(federation.train.x.dtype)
        build: Callable[[int], Model] = partial(
            build_model, spec, federation.sample_shape, federation.outputs, dtype=dtype
        )
        table = {"name": spec.name, **as_dict(spec)}
    else:
        build, table = partial(_same, model if isinstance(model, Model) else Model(model)), {"name": "custom"}
    config = {"data": {"name": "custom"}, "model": table}
    if out is not None and not resume:
        fresh_folder(Path(out))
    with TemporaryDirectory(prefix="manyheads-") as temporary:
        return run_comparison(federation, build, training, comparison, config, Path(out or temporary))


def _same(model: Model, seed: int) -> Model:
    return model


def run_comparison(
    federation: Federation,
    model: Callable[[int], Model],
    training: Training,
    comparison: Comparison,
    config: dict[str, Any],
    out: Path,
    progress: Progress = lambda done, doing: None,
    say: Callable[[str], None] = warnings.warn,
    begin: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Do what is left to do of a comparison. ``federation`` has validation samples; ``model`` makes one of a seed.

    ``begin`` is called once it is clear that what is there already is of the same comparison.
    """
    refuse_unfit(federation)
    workers = training.engine.resolved_workers()
    training = replace(
        training,
        evaluate=Evaluate(split="validation", every=max(1, training.rounds // POINTS), also="always"),
        monitor=training.monitor or MONITORS,
        engine=replace(training.engine, workers=1),
    )
    study = Study(federation, model, training, config, out)
    methods, unfit = _fitting(comparison, study)
    study.tuned = {m.algorithm.name for m in methods.values() if m.finetuned}
    if study.tuned and training.finetune.scope == "none":
        tuned = ", ".join(name for name, m in methods.items() if m.finetuned)
        raise UserError(f"{tuned} fine-tunes", where="finetune", given="none", fix="leave one of them out")
    seeds = [training.seed + i for i in range(comparison.seeds)]
    trials = [(m, lr, seeds[0]) for m in methods.values() for lr in comparison.rates]
    study.refuse_others(trials)
    begin()
    with at_work(study, workers, progress, say) as do:
        do(train_trial, trials)
        tried = {
            name: {lr: _judged(study, (m, lr, seeds[0])) for lr in comparison.rates} for name, m in methods.items()
        }
        chosen = {name: best for name, scores in tried.items() if (best := _best(scores)) is not None}
        if ALONE not in chosen:
            raise UserError("training alone diverged with every step size", where="rates", fix="try smaller ones")
        finals = [(methods[name], lr, seed) for name, lr in chosen.items() for seed in seeds]
        do(train_trial, finals)
        for trial in finals:
            if study.diverged(*trial):
                chosen.pop(trial[0].name, None)
        do(judge_trial, [t for t in finals if t[0].name in chosen])
    found = results(study, methods, chosen, seeds, comparison.target)
    for name, method in found["methods"].items():
        method["rates"] = [{"rate": lr, "validation": abs(s[0]) if s else None} for lr, s in tried[name].items()]
    diverged = {name: "diverged with every step size, or with a later seed" for name in methods if name not in chosen}
    facts = {
        "schema": 1,
        "rounds": training.rounds,
        "seeds": seeds,
        "protocol": "mean over clients of each client's own test samples, after the last round"
        + (f"; {federation.encoding.loss}" if federation.encoding.loss else ""),
        **found,
        "left_out": unfit | diverged,
        "data": federation_facts(federation, training.seed),
        "settings": {"comparison": as_dict(comparison), "training": as_dict(training), **config},
        "machine": machine_facts(),
    }
    if description(out):
        facts["described"] = description(out)
    _say_if_other(out, say)
    write_json(out / RESULTS, facts)
    return facts


def description(out: Path) -> str | None:
    """A hash of the settings of a comparison that are in its folder; its results carry it."""
    file = out / SETTINGS
    return fingerprint(content(file)) if file.is_file() else None


def _say_if_other(out: Path, say: Callable[[str], None]) -> None:
    """Results that are in a folder already and are not those of its settings are told, and made again."""
    if (out / RESULTS).exists():
        try:
            other = read_json(out / RESULTS).get("described") != description(out)
        except Damaged as error:
            say(f"{error}; it is made again")
        else:
            if other:
                say(f"{out / RESULTS} is damaged, or of other settings than {SETTINGS} has now; it is made again")


def refuse_unfit(federation: Federation) -> None:
    """Nothing can be gained from others where there are none, and nothing be told where nothing is measured."""
    if len(federation) == 1:
        raise UserError(
            f"{federation.name}: nothing to federate, there is only {federation.client_name(0)}",
            fix="a comparison needs at least two sites: one file each, or one table with a client column",
        )
    for split, samples in (("test", federation.test), ("validation", federation.validation)):
        if samples is None or not len(samples.y):
            raise UserError(
                f"{federation.name}: no site has enough samples to set some aside for {split}",
                given=f"{federation.train.sizes.max()} training samples at most",
                fix="add samples, or set a larger part aside: --validation 0.4 --data.test-fraction 0.4",
            )


def most_rounds(comparison: Comparison, rounds: int) -> int:
    """Rounds that a comparison takes, at most: methods that share a run take fewer."""
    methods = methods_named(comparison.methods, comparison.batch, comparison.options).values()
    trained = {m.algorithm.name for m in methods}
    return rounds * (len(trained) * len(comparison.rates) + len(methods) * (comparison.seeds - 1))


def _fitting(comparison: Comparison, study: Study) -> tuple[dict[str, Method], dict[str, str]]:
    """The methods, and of ``all`` those that do not go with this model, with the reason."""
    methods, unfit = methods_named(comparison.methods, comparison.batch, comparison.options), {}
    for name, method in list(methods.items()):
        try:
            check(method.algorithm, study.model(study.training.seed), study.federation, study.training)
        except UserError as error:
            if name in comparison.methods:
                raise
            unfit[name] = str(error)
            del methods[name]
    return methods, unfit


def _judged(study: Study, trial: Trial) -> tuple[float, float] | None:
    """Score and minus loss on validation samples after the last round; None if the run diverged."""
    if study.diverged(*trial):
        return None
    last = study.curve(*trial)[-1]
    if last["loss"] is None:
        return None
    return (last["accuracy"] if last["accuracy"] is not None else -last["loss"]), -last["loss"]


def _best(scores: dict[float, tuple[float, float] | None]) -> float | None:
    """The step size with the best validation score; of equals, the one with the lower loss."""
    sound = {lr: score for lr, score in scores.items() if score is not None}
    return max(sound, key=lambda lr: sound[lr]) if sound else None

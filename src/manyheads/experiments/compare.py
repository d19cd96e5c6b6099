"""Compare methods on one federation: who gains from federating?

The samples are divided into folds, each of which is the test part once. In each fold every method is trained with each
step size, and its step size and number of rounds are chosen by validation samples; final models are then trained with
these on training and validation samples, once for each seed, and predict the test samples. What each site can do alone
is chosen in the same way. The folder can be resumed, and holds::

    runs/foldK-METHOD-lrRATE-rROUNDS-sSEED-HASH   run directories (see :mod:`manyheads.experiments.study`)
    alone/foldK-MODEL.safetensors                 predictions of the models that are not networks
    compare.json                                  the results
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from manyheads.core.files import fresh_folder
from manyheads.core.optim import FineTune
from manyheads.core.schedule import Schedule
from manyheads.data import Federation
from manyheads.engines.engine import Engine
from manyheads.experiments.conduct import run_comparison
from manyheads.experiments.methods import USUAL, Method, Methods, methods_of, written
from manyheads.experiments.plan import RATES, ROUNDS, Comparison, Plan, model_for, refuse_unfit
from manyheads.experiments.results import ComparisonResult
from manyheads.run import Training
from manyheads.run.config import GivenModel, model_from
from manyheads.run.config_file import CUSTOM

__all__ = ["Comparison", "compare", "planned"]


def compare(
    federation: Federation,
    model: GivenModel = "mlp",
    *,
    methods: Methods = USUAL,
    rounds: int = ROUNDS,
    seeds: int = 3,
    folds: int = 0,
    rates: Sequence[float] = RATES,
    stop: bool = True,
    search: int = 0,
    validation: float = 0.2,
    batch: int | None = None,
    metric: str = "",
    metrics: Sequence[str] = (),
    baselines: Sequence[str] = ("majority", "linear", "trees"),
    local_rounds: int = 200,
    pooled: bool = True,
    target: float | None = None,
    monitor: Sequence[str] = (),
    options: Mapping[str, Mapping[str, Any]] | None = None,
    participation: float = 1.0,
    class_weights: Literal["none", "balanced", "client"] = "none",
    schedule: Schedule | None = None,
    finetune: FineTune | None = None,
    engine: Engine | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    resume: bool = False,
) -> ComparisonResult:
    """Compare methods on a federation.

    A method is a name (``"fedavg+ft"``: after fine-tuning), an algorithm, its class, or a pair of a label and one of these;
    ``options`` are settings for methods given by name. ``rounds`` is the largest number of rounds; how many are made is
    chosen by validation samples. ``metric`` decides, by default the one that fits the task and the labels. ``search``
    varies more than the step size, with the rounds of so many whole trainings for each method.

    >>> from manyheads.data import Classes, Digits, federate
    >>> federation = federate(Digits().pool(seed=0), Classes(3), clients=4, seed=0)
    >>> few = {"rounds": 2, "seeds": 1, "folds": 2, "rates": [0.05], "baselines": ["majority"], "local_rounds": 2}
    >>> found = compare(federation, methods=["fedavg", "fedrep"], pooled=False, **few)
    >>> list(found.methods), found.recommendation.evidence, len(found["fedrep"].gains)
    (['alone', 'majority', 'local', 'fedavg', 'fedrep'], 'too short', 4)
    """
    methods = methods if isinstance(methods, str | Mapping) else list(methods)
    comparison = Comparison(
        methods=tuple(methods_of(methods, batch, options)), seeds=seeds, folds=folds, rates=tuple(rates), stop=stop,
        search=search, validation=validation, batch=batch, metric=metric, metrics=tuple(metrics), baselines=tuple(baselines),
        local_rounds=local_rounds, pooled=pooled, target=target,
        options={name: dict(given) for name, given in (options or {}).items()},
    )  # fmt: skip
    training = Training(rounds=rounds, participation=participation, seed=seed, class_weights=class_weights)
    training = replace(training, finetune=finetune or FineTune(scope="all"), monitor=tuple(monitor), schedule=schedule)
    return _compared(federation, model, methods, comparison, replace(training, engine=engine or Engine()), out, resume)


def _compared(
    federation: Federation,
    model: GivenModel,
    methods: Methods,
    comparison: Comparison,
    training: Training,
    out: str | Path | None,
    resume: bool,
) -> ComparisonResult:
    """Run the comparison in the folder ``out``, or in a temporary one."""
    chosen = methods_of(methods, comparison.batch, comparison.options)
    with planned(federation, model, chosen, comparison, training, out, resume) as plan:
        command = _command(methods, plan.config["model"]["name"], comparison, training)
        return run_comparison(replace(plan, command=command))


@contextmanager
def planned(
    federation: Federation,
    model: GivenModel,
    methods: Mapping[str, Method],
    comparison: Comparison,
    training: Training,
    out: str | Path | None,
    resume: bool,
) -> Iterator[Plan]:
    """A plan from objects of Python, in the folder ``out``, or in a temporary one that is removed with the block."""
    refuse_unfit(federation)
    _, made = model_from(model, federation.sample_shape, federation.outputs, str(federation.train.x.dtype))
    config = {"data": {"name": CUSTOM}, "model": {"name": CUSTOM}} | made
    if out is not None and not resume:
        fresh_folder(Path(out))
    with TemporaryDirectory(prefix="manyheads-") as temporary:
        place = Path(out or temporary)
        yield Plan(federation, partial(model_for, model), training, comparison, methods, config, place)


def _command(methods: Methods, model: str, comparison: Comparison, training: Training) -> str:
    """Return the Python call that repeats the comparison, without its fine-tuning, monitors and engine settings."""
    arguments = {
        "methods": written(methods),
        "rounds": training.rounds,
        "seeds": comparison.seeds,
        "folds": comparison.folds,
        "rates": list(comparison.rates),
        "stop": comparison.stop,
        "search": comparison.search,
        "validation": comparison.validation,
        "participation": training.participation,
        "seed": training.seed,
    }
    given = {name: getattr(comparison, name) for name in ("batch", "metric", "metrics", "target", "options")}
    given["schedule"] = training.schedule
    arguments |= {name: repr(value) for name, value in given.items() if value not in (None, "", (), {})}
    told = "".join(f"    {k}={v},\n" for k, v in arguments.items())
    return f"compare(\n    federation,\n    {model!r},\n{told})"

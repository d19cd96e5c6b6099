"""Compare methods on one federation: who gains from federating?

Every method is trained with each step size and the first seed, and scored on validation samples; the best step size is
repeated with the other seeds. Only final models are scored on test samples. The folder can be resumed, and holds::

    runs/METHOD-lrRATE-sSEED-HASH  run directories (see :mod:`manyheads.experiments.study`)
    compare.json                   the results
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from manyheads.core.files import fresh_folder
from manyheads.core.optim import FineTune
from manyheads.data import Federation
from manyheads.engines.engine import Engine
from manyheads.experiments.conduct import run_comparison
from manyheads.experiments.methods import USUAL, Methods, methods_of, written
from manyheads.experiments.plan import RATES, Comparison, Plan, refuse_unfit
from manyheads.experiments.results import ComparisonResult
from manyheads.run import Training
from manyheads.run.config import GivenModel, model_from
from manyheads.run.config_file import CUSTOM

__all__ = ["Comparison", "compare"]


def compare(
    federation: Federation,
    model: GivenModel = "mlp",
    *,
    methods: Methods = USUAL,
    rounds: int = 30,
    seeds: int = 3,
    rates: Sequence[float] = RATES,
    validation: float = 0.2,
    batch: int | None = None,
    target: float | None = None,
    metrics: Sequence[str] = (),
    monitor: Sequence[str] = (),
    options: Mapping[str, Mapping[str, Any]] | None = None,
    participation: float = 1.0,
    finetune: FineTune | None = None,
    engine: Engine | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    resume: bool = False,
) -> ComparisonResult:
    """Compare methods on a federation.

    A method is a name (``"fedavg+ft"``: after fine-tuning), an algorithm with settings of its own, its class, or a pair of
    a label and one of these; ``options`` are settings for methods given by name. Methods are compared by the task's own
    metric; ``metrics`` are reported in addition. ``manyheads compare --json`` prints the same result as JSON.

    >>> from manyheads.algorithms import FedRep
    >>> from manyheads.data import Classes, Digits, federate
    >>> federation = federate(Digits().pool(seed=0), Classes(3), clients=4, seed=0)
    >>> found = compare(federation, methods=["fedavg", FedRep(head_epochs=2)], rounds=2, seeds=1, rates=[0.05])
    >>> list(found.methods), found.recommendation.method, len(found["fedrep"].gains)
    (['local', 'fedavg', 'fedrep'], None, 4)
    """
    methods = methods if isinstance(methods, str | Mapping) else list(methods)
    comparison = Comparison(
        methods=tuple(methods_of(methods, batch, options)),
        seeds=seeds,
        rates=tuple(rates),
        validation=validation,
        batch=batch,
        target=target,
        metrics=tuple(metrics),
        options={name: dict(given) for name, given in (options or {}).items()},
    )
    training = Training(
        rounds=rounds,
        participation=participation,
        seed=seed,
        finetune=finetune or FineTune(scope="all"),
        monitor=tuple(monitor),
        engine=engine or Engine(),
    )
    return _compared(federation, model, methods, comparison, training, out, resume)


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
    federation = federation.with_validation(comparison.validation, training.seed)
    refuse_unfit(federation)
    build, made = model_from(model, federation.sample_shape, federation.outputs, str(federation.train.x.dtype))
    config = {"data": {"name": CUSTOM}, "model": {"name": CUSTOM}} | made
    chosen = methods_of(methods, comparison.batch, comparison.options)
    if out is not None and not resume:
        fresh_folder(Path(out))
    command = _command(methods, config["model"]["name"], comparison, training)
    with TemporaryDirectory(prefix="manyheads-") as temporary:
        plan = Plan(federation, build, training, comparison, chosen, config, Path(out or temporary), command)
        return run_comparison(plan)


def _command(methods: Methods, model: str, comparison: Comparison, training: Training) -> str:
    """Return the Python call that repeats the comparison, without its fine-tuning, monitors and engine settings."""
    arguments = {
        "methods": written(methods),
        "rounds": training.rounds,
        "seeds": comparison.seeds,
        "rates": list(comparison.rates),
        "validation": comparison.validation,
        "participation": training.participation,
        "seed": training.seed,
    }
    given = {name: getattr(comparison, name) for name in ("batch", "target", "metrics", "options")}
    arguments |= {name: value for name, value in given.items() if value not in (None, (), {})}
    told = "".join(f"    {k}={v},\n" for k, v in arguments.items())
    return f"compare(\n    federation,\n    {model!r},\n{told})"

"""Checks of a run before anything is written."""

from __future__ import annotations

from collections.abc import Sequence

from manyheads.core.contract import Algorithm
from manyheads.core.errors import UserError
from manyheads.core.tasks import task_named
from manyheads.data import Federation
from manyheads.engines.engine import Engine
from manyheads.engines.memory import check_memory
from manyheads.engines.starting import hindrance
from manyheads.engines.workbench import model_of
from manyheads.metrics import Metric, metrics_for
from manyheads.models import TriedModel
from manyheads.monitors import Monitors
from manyheads.run.loop import sample_cohort
from manyheads.run.training import Training

__all__ = ["check"]


def check(algorithm: Algorithm, model: TriedModel, federation: Federation, training: Training) -> None:
    """An error if the run cannot work with these settings."""
    training.engine.check()
    if training.engine.mode == "stacked" and (model.random or not model.stackable):
        why = model.unstackable or "draws random numbers (dropout)"
        raise UserError(
            f"this model cannot be stacked: it {why}", where="engine", given="stacked", allowed="auto, loop"
        )
    metrics = metrics_for(task_named(federation.task), training.evaluate.metrics)
    _check_travels(algorithm, model, metrics, training.engine)
    if training.class_weights != "none" and not task_named(federation.task).classes:
        raise UserError(
            f"{federation.task} has no classes to weigh",
            where="class_weights",
            given=training.class_weights,
            allowed="none",
        )
    if training.schedule and training.schedule.kind != "constant" and not algorithm.scheduled():
        raise UserError(
            f"{algorithm.name} has no step size that a schedule could change",
            where="schedule",
            given=training.schedule.kind,
            allowed="constant",
        )
    sample_cohort(training, len(federation), 1)
    Monitors(training.monitor, algorithm, model, federation, training.seed)
    kept = {leaf.partition("/")[2] for leaf in algorithm.init_client(model.params).flat}
    if model.norm == "local" and not model.statistics <= kept:
        raise UserError(
            f"{algorithm.name} keeps no parameters at the client, so batch norm cannot stay there",
            where="model norm",
            given="local",
            fix="use fedper or another method with personal parameters, or norm='average'",
        )
    if training.evaluate.split == "validation" and federation.validation is None:
        raise UserError(
            "the federation has no validation samples", where="evaluate.split", fix="set some aside: --validation 0.2"
        )
    server, initial = (
        algorithm.init_server(model.params, len(federation)),
        training.client_state(algorithm, model.params),
    )
    model_of(algorithm, training.evaluate.kind(algorithm), server, initial)
    _check_adaptation(algorithm, model, federation, training)
    _check_features(algorithm, model, federation)
    if training.evaluate.who == "new" and training.evaluate.model == "local":
        raise UserError(
            "new clients have no local model", where="evaluate.model", given="local", allowed="auto, finetuned"
        )
    if training.evaluate.who == "new" and federation.new is None:
        raise UserError(
            "the federation has no new clients", where="evaluate.who", fix="keep some aside: --new-clients 0.2"
        )


def _check_adaptation(algorithm: Algorithm, model: TriedModel, federation: Federation, training: Training) -> None:
    """Check that models can be adapted to their clients as the settings or the method say."""
    if training.evaluate.model == "finetuned" and training.finetune.scope == "none":
        raise UserError(
            "fine-tuning is not set", where="evaluate.model", given="finetuned", fix="say how: --finetune head:10"
        )
    if training.finetune.mu is not None and training.finetune.optimizer != "sgd":
        raise UserError(
            "a pull needs plain SGD",
            where="finetune.mu",
            given=f"mu {training.finetune.mu:g} with {training.finetune.optimizer}",
            fix="leave out one of them",
        )
    if "head" in training.finetune.parts and not model.params.head:
        raise UserError("the model has no head to fine-tune", where="finetune", fix="use --finetune all:10")
    if "knn" in (training.finetune.scope, training.evaluate.evaluation(algorithm, training.finetune).tune.scope):
        check_memory(model, task_named(federation.task))


def _check_features(algorithm: Algorithm, model: TriedModel, federation: Federation) -> None:
    """Check that there are features of classes, for a method that tells of them."""
    if algorithm.fewest_told is None:
        return
    if not task_named(federation.task).classes:
        raise UserError(f"{algorithm.name} works with the features of classes, and {federation.task} has none")
    if model.head_net is None:
        raise UserError(
            f"{algorithm.name} works with features, the inputs of a head that comes last, and this model has none",
            fix="name the last layer as the head of the model",
        )


def _check_travels(algorithm: Algorithm, model: TriedModel, metrics: Sequence[Metric], engine: Engine) -> None:
    """Check that workers, if they were asked for, can be sent the metrics and, unless they are forked, everything else."""
    if engine.workers <= 1 or engine.resolved_workers() == 1 or engine.executor == "ray":  # whose pickle knows more
        return
    method = engine.resolved_start_method()
    for what, thing in (("metrics", metrics), ("model", None if method == "fork" else (algorithm, model))):
        why = hindrance(method, what, thing)
        if why is not None:
            raise why

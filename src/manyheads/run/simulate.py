"""Start, resume and load runs."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import fields
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np
from torch import Tensor, nn

from manyheads.core.checkpoint import rounds_on_disk
from manyheads.core.contract import ALGORITHMS, Algorithm
from manyheads.core.errors import UserError, first_line
from manyheads.core.files import sweep
from manyheads.core.history import History, rounds_told
from manyheads.core.optim import FineTune
from manyheads.core.settings import as_dict, build
from manyheads.core.store import PersonalStore
from manyheads.core.trees import State
from manyheads.data import Federation, Samples
from manyheads.engines.client_data import ClientData
from manyheads.engines.pool import Engine, Pool
from manyheads.engines.workbench import LOCAL, Keep, model_of
from manyheads.models import MODELS, Model, build_model
from manyheads.monitors import Monitors
from manyheads.run.config import placed
from manyheads.run.directory import RunDirectory, fixed, read_config
from manyheads.run.loop import Loop, sample_cohort
from manyheads.run.protocol import Evaluate
from manyheads.run.result import Run
from manyheads.run.training import Training

__all__ = ["check", "described", "load", "run_training", "same_run", "simulate"]

Say = Callable[[str], None]
OnRound = Callable[[dict[str, Any]], None]


def simulate(
    algorithm: Algorithm,
    model: Model | nn.Module | str,
    federation: Federation,
    *,
    rounds: int = 30,
    participation: float = 1.0,
    cohort: int = 0,
    seed: int = 0,
    weighting: Literal["auto", "samples", "equal"] = "auto",
    finetune: FineTune | None = None,
    evaluate: Evaluate | None = None,
    monitor: Sequence[str] = (),
    engine: Engine | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    on_round: OnRound | None = None,
) -> Run:
    """Run an algorithm on a federation, on this machine.

    ``model`` is a :class:`Model`, a module with a clear head, or the name of one of ours. With ``out`` the run is kept
    in that folder as it goes, and ``resume=True`` continues it if it is there; otherwise it lives until the result is
    forgotten, or saved by :meth:`Run.save`. ``on_round`` is called with each round's record. ``finetune`` tunes the final
    models; the results, and those of the federation's new clients, are in :attr:`Run.final`.

    >>> from manyheads.data import Classes, Digits, federate
    >>> from manyheads.algorithms import FedAvg
    >>> federation = federate(Digits().pool(seed=0), Classes(3), clients=5, seed=0)
    >>> simulate(FedAvg(), "mlp", federation, rounds=2).rounds
    2
    """
    training = Training(
        rounds=rounds,
        participation=participation,
        cohort=cohort,
        seed=seed,
        weighting=weighting,
        finetune=finetune or FineTune(),
        evaluate=evaluate or Evaluate(),
        monitor=tuple(monitor),
        engine=engine or Engine(),
    )
    table = {"name": "custom"}
    if isinstance(model, str):
        spec = MODELS.find(model)()
        table = {"name": spec.name, **as_dict(spec)}
        model = build_model(spec, federation.sample_shape, federation.outputs, seed, str(federation.train.x.dtype))
    elif isinstance(model, nn.Module):
        model = Model(model)
    config = {"data": {"name": "custom"}, "model": table}
    return run_training(algorithm, model, federation, training, config, out, resume, on_round)


def run_training(
    algorithm: Algorithm,
    model: Model,
    federation: Federation,
    training: Training,
    config: dict[str, Any],
    out: str | Path | None,
    resume: bool = False,
    on_round: OnRound | None = None,
    say: Say = lambda _: None,
) -> Run:
    """Run or resume with everything built. ``config`` tells how the data and the model were made."""
    check(algorithm, model, federation, training)
    config = described(algorithm, federation, training, config)
    temporary = TemporaryDirectory(prefix="manyheads-") if out is None else None
    path = Path(temporary.name if temporary else str(out))
    if resume and not (path / "config.toml").exists():
        _clear(path)
        resume = False
    if resume:
        same_run(path, config)
    directory = RunDirectory(path) if resume else RunDirectory.create(path, config)
    try:
        directory.lock()
        directory.require_checkpoints()
        store = PersonalStore(directory.store_path, _personal_state(algorithm, model, training), len(federation))
        server = algorithm.init_server(model.params, len(federation))
        history = History(directory.history_path, of=directory.settings)
        if resume:
            server, history = directory.restore(server, store, say)
            _go_on(directory, history, config)
        directory.write_data(federation.encoding, federation.warnings)
        directory.write_trained(federation.training_hashes)
        loop = Loop(algorithm, model, federation, training, directory, store, server, history, len(history))
        keep = Keep(local=training.evaluate.model == "local", each=algorithm.reads_each or bool(training.monitor))
        with Pool(training.engine, algorithm, model, federation, keep) as pool:
            loop.run(pool, on_round or (lambda _: None))
    finally:
        directory.unlock()
    return Run(algorithm, model, training, loop.server, history, directory, store, temporary)


def _clear(path: Path) -> None:
    """Remove what a process left that was killed before it had begun, and nothing else that may be there."""
    with suppress(OSError):  # it is not there, or not empty
        (path / "checkpoint").rmdir()
    if path.is_dir():
        sweep(path)
    (path / ".lock").unlink(missing_ok=True)


def _go_on(directory: RunDirectory, history: History, now: dict[str, Any]) -> None:
    """Make the folder that of a run which goes on from here, with the rounds, checkpoints, workers and places of now."""
    done = len(history)
    if done > now["rounds"]:
        raise UserError(
            f"{directory.path} has {done} rounds already",
            where="rounds",
            given=now["rounds"],
            allowed=f"{done} or more",
            fix="for fewer, start again with another --out",
        )
    directory.sweep()
    directory.set_aside(after=done)
    history.rewrite()
    before = read_config(directory.path)
    place = {k: v for k, v in now["data"].items() if k == "path"}
    after = before | {name: now[name] for name in ("rounds", "checkpoint_seconds", "engine")}
    after["data"] = before["data"] | place
    if after != before:
        directory.write_config(after)


def load(path: str | Path, model: Model | nn.Module | None = None, say: Say | None = None) -> Run:
    """A run from its folder, up to its last checkpoint that is whole; nothing in the folder is changed.

    A model of your own must be given again. ``say`` is told of damage; without it, it is a warning.
    """
    path = Path(path)
    config = read_config(path)
    facts, table = config["facts"], dict(config["algorithm"])
    training = build(Training, {f.name: config[f.name] for f in fields(Training) if f.name in config}, where=str(path))
    algorithm = build(ALGORITHMS.find(table.pop("name")), table, where=f"{path}: algorithm")
    if model is None:
        spec = dict(config["model"])
        name = spec.pop("name")
        if name == "custom":
            raise UserError(
                f"{path} was made with a model of your own", fix="give it again: manyheads.load(path, model=...)"
            )
        made = build(MODELS.find(name), spec, where=f"{path}: model")
        model = build_model(made, tuple(facts["sample_shape"]), facts["outputs"], training.seed, facts["dtype"])
    elif isinstance(model, nn.Module):
        model = Model(model)
    directory = RunDirectory(path)
    directory.require_checkpoints()
    if not rounds_on_disk(directory.checkpoints):
        raise UserError(f"{path} has no checkpoint yet", fix="let it run on with --resume")
    initial = _personal_state(algorithm, model, training)
    store = PersonalStore(directory.store_path, initial, facts["clients"], read_only=True)
    say = say or partial(warnings.warn, stacklevel=3)
    server, history = directory.restore(algorithm.init_server(model.params, facts["clients"]), store, say)
    told, newest = rounds_told(directory.history_path), rounds_on_disk(directory.checkpoints)[0]
    if told > newest:
        say(
            f"{path} has a history of {told} rounds, and its last checkpoint is that of round {newest}, which is taken: "
            "a later one is missing, or the run goes on, or was cut short"
        )
    return Run(algorithm, model, training, server, history, directory, store)


def check(algorithm: Algorithm, model: Model, federation: Federation, training: Training) -> None:
    """Refuse what cannot work before anything is written."""
    training.engine.resolved_device()
    model.check(_few_samples(federation, model), federation.task, federation.outputs)
    if training.engine.mode == "stacked" and (model.random or not model.stackable):
        why = model.unstackable or "draws random numbers (dropout)"
        raise UserError(
            f"this model cannot be stacked: it {why}", where="engine", given="stacked", allowed="auto, loop"
        )
    _check_travels(algorithm, model, training.engine)
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
    server, initial = algorithm.init_server(model.params, len(federation)), _personal_state(algorithm, model, training)
    model_of(algorithm, training.evaluate.kind(algorithm), server, initial)
    if training.evaluate.model == "finetuned" and training.finetune.scope == "none":
        raise UserError(
            "fine-tuning is not set", where="evaluate.model", given="finetuned", fix="say how: --finetune head:10"
        )
    if training.finetune.scope == "head" and not model.params.head:
        raise UserError("the model has no head to fine-tune", where="finetune", fix="use --finetune all:10")
    if training.evaluate.who == "new" and training.evaluate.model == "local":
        raise UserError(
            "new clients have no local model", where="evaluate.model", given="local", allowed="auto, finetuned"
        )
    if training.evaluate.who == "new" and federation.new is None:
        raise UserError(
            "the federation has no new clients", where="evaluate.who", fix="keep some aside: --new-clients 0.2"
        )


def _check_travels(algorithm: Algorithm, model: Model, engine: Engine) -> None:
    """Workers that are not forked get everything by pickling."""
    if engine.resolved_workers() == 1 or engine.resolved_start_method() == "fork":
        return
    try:
        pickle.dumps((algorithm, model))
    except Exception as error:
        raise UserError(
            f"the model cannot be sent to worker processes: {first_line(error)}",
            where="engine.workers",
            fix="use one worker, or a class that stands in a module of its own, without parametrizations",
        ) from error


def _few_samples(federation: Federation, model: Model) -> Tensor:
    """Inputs of several clients, as the model gets to see them."""
    train = federation.train
    rows = np.unique(np.linspace(0, len(train.y) - 1, 4).astype(int))
    few = Samples(train.x[rows], train.y[rows], np.array([0, len(rows)]))
    return ClientData.of(few, federation.task, next(iter(model.params.all.values())), federation.scaling).x


def _personal_state(algorithm: Algorithm, model: Model, training: Training) -> State:
    """What the store keeps of a client: its state, and its last local model if the protocol is about that."""
    kept = State(**{LOCAL: model.params.all}) if training.evaluate.model == "local" else State()
    return algorithm.init_client(model.params) | kept


def described(
    algorithm: Algorithm, federation: Federation, training: Training, config: dict[str, Any]
) -> dict[str, Any]:
    """All of a run, as its folder keeps it; ``config`` tells how the data and the model were made."""
    facts = {
        "fingerprint": federation.fingerprint,
        "clients": len(federation),
        "sample_shape": list(federation.sample_shape),
        "outputs": federation.outputs,
        "task": federation.task,
        "dtype": str(federation.train.x.dtype),
    }
    if federation.encoding.loss:
        facts["loss"] = federation.encoding.loss
    return config | as_dict(training) | {"algorithm": {"name": algorithm.name, **as_dict(algorithm)}, "facts": facts}


def same_run(path: Path, now: dict[str, Any]) -> None:
    """A resumed run may have more rounds, other workers, other checkpoints and its data elsewhere; all else as it was."""

    def fixed_places(config: dict[str, Any]) -> dict[str, Any]:
        kept = fixed(config)
        return kept | {name: placed(kept[name]) for name in ("data", "model")}

    old, new = fixed_places(read_config(path)), fixed_places(now)
    for name in old.keys() | new.keys():
        if old.get(name) != new.get(name):
            raise UserError(
                f"{name} is not what this run was started with",
                where="resume",
                given=new.get(name),
                allowed=str(old.get(name)),
            )

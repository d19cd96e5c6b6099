"""Start and resume runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from manyheads.core.contract import Algorithm
from manyheads.core.errors import UserError
from manyheads.core.files import sweep
from manyheads.core.history import History
from manyheads.core.optim import FineTune
from manyheads.core.round_end import RoundEnd
from manyheads.core.rounds import first_state
from manyheads.core.schedule import Schedule
from manyheads.core.store import PersonalStore
from manyheads.core.trees import State
from manyheads.data import Federation
from manyheads.engines.class_weights import Weighing
from manyheads.engines.engine import Engine
from manyheads.engines.executor import answered
from manyheads.engines.workbench import Keep, Workbench, at_work, tried_on
from manyheads.models import Model, TriedModel
from manyheads.run.about import About
from manyheads.run.checks import check
from manyheads.run.config import GivenModel, model_from
from manyheads.run.config_file import RUN, RunConfig, read_run_config
from manyheads.run.directory import RunDirectory
from manyheads.run.loop import Loop
from manyheads.run.protocol import Evaluate
from manyheads.run.result import Run
from manyheads.run.training import Training

__all__ = ["begun", "run_training", "simulate"]

Say = Callable[[str], None]
OnRound = Callable[[RoundEnd], None]
Enough = Callable[[History], bool]


def simulate(
    algorithm: Algorithm,
    model: GivenModel,
    federation: Federation,
    *,
    rounds: int = 30,
    participation: float = 1.0,
    cohort: int = 0,
    seed: int = 0,
    weighting: Literal["auto", "samples", "equal"] = "auto",
    class_weights: Weighing = "none",
    schedule: Schedule | None = None,
    finetune: FineTune | None = None,
    evaluate: Evaluate | None = None,
    monitor: Sequence[str] = (),
    engine: Engine | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    on_round: OnRound | None = None,
) -> Run:
    """Run an algorithm on a federation, on this machine.

    ``model`` is a :class:`Model`, a module with a clear head, a specification such as ``MLP(hidden=[64])``, or the name
    of one. With ``out`` the run is kept in that folder as it goes, and ``resume=True`` continues it if it is there;
    otherwise its files are removed with the result, unless saved by :meth:`Run.save`. ``on_round`` is called after each
    round with a :class:`RoundEnd`: the round's record and the states after it. ``finetune`` tunes the final models; the
    results, and those of the federation's new clients, are in :attr:`Run.final`.

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
        class_weights=class_weights,
        schedule=schedule,
        finetune=finetune or FineTune(),
        evaluate=evaluate or Evaluate(),
        monitor=tuple(monitor),
        engine=engine or Engine(),
    )
    build, made = model_from(model, federation.sample_shape, federation.outputs, str(federation.train.x.dtype))
    return run_training(algorithm, build(seed), federation, training, made, out, resume, on_round)


def run_training(
    algorithm: Algorithm,
    model: Model,
    federation: Federation,
    training: Training,
    made: dict[str, Any],
    out: str | Path | None,
    resume: bool = False,
    on_round: OnRound | None = None,
    say: Say = lambda _: None,
    enough: Enough = lambda _: False,
    tried: TriedModel | None = None,
) -> Run:
    """Run or resume with everything built. ``made`` holds the settings that data and model were made with.

    Training ends before its last round if ``enough`` says so of its history. The model is tried first, unless it comes
    ``tried`` on this federation.
    """
    with begun(algorithm, model, federation, training, made, out, resume, say, tried=tried) as loop:
        keep = Keep(local=training.evaluate.model == "local", each=algorithm.reads_each or bool(training.monitor))
        engine = training.engine
        settings = (engine.mode, engine.resolved_device(), keep, training.class_weights, loop.store.file)
        with at_work(Workbench(algorithm, loop.model, federation, *settings), engine) as executor:
            answered(loop.run(on_round or (lambda _: None), enough), executor)
    return loop.result(model)


@contextmanager
def begun(
    algorithm: Algorithm,
    model: Model,
    federation: Federation,
    training: Training,
    made: dict[str, Any],
    out: str | Path | None,
    resume: bool = False,
    say: Say = lambda _: None,
    kept: State | None = None,
    tried: TriedModel | None = None,
) -> Iterator[Loop]:
    """The loop of a run, new or resumed, its folder locked as long as the block lasts.

    ``kept`` is what the folder keeps of each client, before its first round, if that is not its personal state.
    """
    tried = tried or tried_on(model, federation)
    check(algorithm, tried, federation, training)
    config = RunConfig.of(algorithm, federation, training, made)
    temporary = TemporaryDirectory(prefix="manyheads-") if out is None else None
    path = Path(temporary.name if temporary else str(out))
    if resume and not (path / RUN).exists():
        _clear(path)
        resume = False
    if resume:
        read_run_config(path).require_same(config)
    directory = RunDirectory(path) if resume else RunDirectory.create(path, config)
    try:
        directory.lock()
        directory.require_checkpoints()
        initial = training.client_state(algorithm, model.params) if kept is None else kept
        here = kept is None and training.engine.executor == "local"  # others cannot open files of this machine
        store = PersonalStore(directory.store_path, initial, len(federation), shared=here)
        server = first_state(algorithm, model.params, len(federation))
        history = History(directory.history_path, of=directory.settings)
        if resume:
            server, history = directory.restore(server, store, say)
            _go_on(directory, history, config)
        directory.write_data(federation.encoding, About.of(federation), federation.site_columns)
        directory.write_trained(federation.training_hashes)
        yield Loop(algorithm, tried, federation, training, directory, store, server, history, len(history), temporary)
    finally:
        directory.unlock()


def _clear(path: Path) -> None:
    """Remove the files of a process that was killed before its run began, and nothing else."""
    with suppress(OSError):  # missing, or not empty
        (path / "checkpoint").rmdir()
    if path.is_dir():
        sweep(path)
    (path / ".lock").unlink(missing_ok=True)


def _go_on(directory: RunDirectory, history: History, now: RunConfig) -> None:
    """Prepare the folder for resuming after ``history``, with the settings from ``now`` that a resume may change."""
    done = len(history)
    if done > now.settings["rounds"]:
        raise UserError(
            f"{directory.path} has {done} rounds already",
            where="rounds",
            given=now.settings["rounds"],
            allowed=f"{done} or more",
            fix="for fewer, start again with another --out",
        )
    directory.sweep()
    directory.set_aside(after=done)
    history.rewrite()
    before = directory.config()
    after = before.resumed_as(now)
    if after != before:
        after.write(directory.path)

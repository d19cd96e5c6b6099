"""What each process that trains clients holds: an algorithm, a model, the data of all clients and the file of their states."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import torch

from manyheads.core.contract import Algorithm, ModelKind, Round
from manyheads.core.errors import UserError
from manyheads.core.optim import FineTune
from manyheads.core.randomness import Purpose
from manyheads.core.rounds import LOCAL
from manyheads.core.state_file import Places, StateFile, Written
from manyheads.core.tasks import TASKS, Task
from manyheads.core.trees import State, Tree
from manyheads.data import Federation, Samples
from manyheads.engines.class_weights import Weighing, sample_weights
from manyheads.engines.client_data import ClientData
from manyheads.engines.cohort import LocalCohort
from manyheads.engines.engine import Engine
from manyheads.engines.evaluation import predict
from manyheads.engines.executor import Executor, working
from manyheads.engines.memory import Fitted, fitted
from manyheads.engines.threads import one_thread
from manyheads.engines.ways import Mode
from manyheads.metrics import Predictions
from manyheads.models import Model, TriedModel

__all__ = ["Evaluation", "Keep", "Members", "Split", "Workbench", "at_work", "model_of", "tried_on"]

Split = Literal["test", "validation", "train"]
"""samples of a client on which a model is evaluated"""


class Keep(NamedTuple):
    """What local training must return besides what the method itself needs."""

    local: bool = False
    """the model after the last local update, as part of the personal state"""
    each: bool = False
    """every client's upload, not only their mean"""


@dataclass(frozen=True)
class Members:
    """Some clients of a federation."""

    rows: list[int]
    """their indices in the federation's samples"""
    addresses: list[int]
    """the numbers by which random draws and the server identify them"""

    @classmethod
    def of(cls, rows: Sequence[int], first_address: int = 0) -> Members:
        return cls(list(rows), [first_address + row for row in rows])

    def take(self, here: slice) -> Members:
        return Members(self.rows[here], self.addresses[here])


@dataclass(frozen=True)
class Evaluation:
    """Which model of which clients is evaluated, and on which samples."""

    kind: ModelKind
    tune: FineTune
    split: Split
    new: bool
    """evaluate the new clients instead of those that were trained"""


class Workbench:
    """An algorithm, a model and the data, ready to work on clients of any round: what executors hold."""

    def __init__(
        self,
        algorithm: Algorithm,
        model: TriedModel,
        federation: Federation,
        mode: Mode,
        device: str,
        keep: Keep,
        class_weights: Weighing = "none",
        states: StateFile | None = None,
    ) -> None:
        self.algorithm, self.model, self.federation, self.mode = algorithm, model, federation, mode
        self.device = torch.device(device)
        self.keep, self.class_weights, self.states = keep, class_weights, states
        model.module.to(self.device)

    def data(
        self, samples: Samples, rows: Sequence[int], augment: bool = False, weight: np.ndarray | None = None
    ) -> ClientData:
        """The samples of some clients, on the device."""
        like = next(iter(self.model.params.all.values())).to(self.device)
        return ClientData.of(samples.select(rows), self.federation.task, like, self.federation.scaling, augment, weight)

    def training_data(self, federation: Federation, rows: Sequence[int]) -> ClientData:
        """The training samples of some clients of the federation, or of its new ones."""
        weight = None
        if self.class_weights != "none":
            everyone = self.federation.train.y if self.class_weights == "balanced" else None
            weight = sample_weights(federation.train.select(rows), federation.outputs, everyone)
        return self.data(federation.train, rows, federation.augment, weight)

    def read(self, kept: State | Places) -> State:
        """The personal states of some clients: those that came with a task, or those that are in the file."""
        if isinstance(kept, State):
            return kept
        assert self.states is not None
        return self.states.read(kept.clients, kept.now)

    def write(self, places: Places, states: State) -> Written:
        """Write new personal states to the file; they count when the process that keeps its tables accepts them."""
        assert self.states is not None
        return self.states.write(places.clients, places.next, states)

    def on_device(self, state: State) -> State:
        return state.map(lambda v: v.to(self.device))

    def models(self, round: Round, what: Evaluation, server: State, members: Members, kept: State) -> Fitted:
        """What the clients predict with, after fine-tuning if that is asked for."""
        server, kept = self.on_device(server), self.on_device(kept)
        settles = what.kind == "personal" and self.algorithm.settles
        if what.tune.scope == "none" and not settles:
            return Fitted(model_of(self.algorithm, what.kind, server, kept))
        data = self.training_data(self._federation(what), members.rows)
        cohort = LocalCohort(self.model, data, members.addresses, round, self.mode, purpose=Purpose.FINETUNE)
        if settles:
            kept = kept | self.algorithm.settled(cohort, server, kept)
        return fitted(cohort, self.model, model_of(self.algorithm, what.kind, server, kept), what.tune)

    def predictions(self, round: Round, what: Evaluation, server: State, members: Members, kept: State) -> Predictions:
        """What the clients' models predict for their samples, after fine-tuning if that is asked for."""
        (params, memories), federation = self.models(round, what, server, members, kept), self._federation(what)
        data = self.data(getattr(federation, what.split), members.rows)
        return predict(self.model, params, data, self.mode, federation.encoding.target, memories)

    def _federation(self, what: Evaluation) -> Federation:
        found = self.federation.new if what.new else self.federation
        assert found is not None
        return found


@contextmanager
def at_work(bench: Workbench, engine: Engine) -> Iterator[Executor[Workbench]]:
    """An executor whose processes each hold a copy of the workbench."""
    on_ray = engine.executor == "ray"
    task = TASKS.find(bench.federation.task)
    device = "auto" if on_ray else str(bench.device)  # an actor uses the GPU that Ray gives it
    states = None if on_ray else bench.states  # an actor may be on another machine
    settings = (bench.mode, device, bench.keep, bench.class_weights, states)
    with ExitStack() as files:

        def arguments() -> tuple[Any, ...]:
            source: Federation | str = bench.federation
            if not on_ray and engine.resolved_start_method() != "fork":  # files, which workers map into memory
                source = files.enter_context(tempfile.TemporaryDirectory(prefix="manyheads-"))
                bench.federation.save(source)
            return bench.algorithm, bench.model, task, source, *settings

        with working(engine, len(bench.federation), bench, _workbench, arguments, short=True) as executor:
            yield executor


def _workbench(
    algorithm: Algorithm,
    model: TriedModel,
    task: type[Task],
    source: Federation | str,
    mode: Mode,
    device: str,
    keep: Keep,
    class_weights: Weighing,
    states: StateFile | None,
) -> Workbench:
    TASKS.register(task)  # a user's own task is not registered in a new process
    if states is not None:
        states.hold()
    federation = Federation.load(source) if isinstance(source, str) else source
    device = Engine(device=device).resolved_device()
    return Workbench(algorithm, model, federation, mode, device, keep, class_weights, states)


def tried_on(model: Model, federation: Federation) -> TriedModel:
    """The model after its trial on a few training samples, scaled as in training."""
    train = federation.train
    rows = np.unique(np.linspace(0, len(train.y) - 1, 4).astype(int))
    few = Samples(train.x[rows], train.y[rows], np.array([0, len(rows)]))
    like = next(iter(model.params.all.values()))
    x = ClientData.of(few, federation.task, like, federation.scaling).x
    with one_thread():
        return model.tried(x, federation.task, federation.outputs)


def model_of(algorithm: Algorithm, kind: ModelKind, server: State, client: State) -> Tree:
    """A client's model of this kind (global, personal or local); an error if the method has none."""
    if kind not in algorithm.models:
        raise UserError(
            f"{algorithm.name} has no such model",
            where="evaluate.model",
            given=kind,
            allowed=", ".join(algorithm.models),
        )
    if kind == "local":
        return cast("Tree", client[LOCAL])
    found = algorithm.global_model(server) if kind == "global" else algorithm.personal_model(server, client)
    assert found is not None, f"{algorithm.name} announces a {kind} model and gives none"
    return found

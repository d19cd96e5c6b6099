"""What each process that trains clients holds: an algorithm, a model and the data of all clients."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Literal, NamedTuple, cast

import numpy as np
import torch

from manyheads.core.contract import Algorithm, ModelKind, Round
from manyheads.core.errors import UserError
from manyheads.core.optim import FineTune
from manyheads.core.randomness import Purpose
from manyheads.core.rounds import LOCAL
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
    ) -> None:
        self.algorithm, self.model, self.federation, self.mode = algorithm, model, federation, mode
        self.device = torch.device(device)
        self.keep, self.class_weights = keep, class_weights
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
    most, on_ray = len(bench.federation), engine.executor == "ray"
    with ExitStack() as stack:
        source: Federation | str = bench.federation
        several = min(engine.resolved_workers(), most) > 1
        if several and not on_ray and engine.resolved_start_method() != "fork":  # files, which workers map into memory
            source = stack.enter_context(tempfile.TemporaryDirectory(prefix="manyheads-"))
            bench.federation.save(source)
        task = TASKS.find(bench.federation.task)
        device = "auto" if on_ray else str(bench.device)  # an actor uses the GPU that Ray gives it
        settings = (bench.mode, device, bench.keep, bench.class_weights)
        arguments = (bench.algorithm, bench.model, task, source, *settings)
        yield stack.enter_context(working(engine, most, bench, _workbench, arguments))


def _workbench(
    algorithm: Algorithm,
    model: TriedModel,
    task: type[Task],
    source: Federation | str,
    mode: Mode,
    device: str,
    keep: Keep,
    class_weights: Weighing,
) -> Workbench:
    TASKS.register(task)  # a user's own task is not registered in a new process
    federation = Federation.load(source) if isinstance(source, str) else source
    return Workbench(algorithm, model, federation, mode, Engine(device=device).resolved_device(), keep, class_weights)


def tried_on(model: Model, federation: Federation) -> TriedModel:
    """The model after its trial on a few training samples, scaled as in training."""
    train = federation.train
    rows = np.unique(np.linspace(0, len(train.y) - 1, 4).astype(int))
    few = Samples(train.x[rows], train.y[rows], np.array([0, len(rows)]))
    like = next(iter(model.params.all.values()))
    return model.tried(
        ClientData.of(few, federation.task, like, federation.scaling).x, federation.task, federation.outputs
    )


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

"""The interface between an algorithm and the engine that runs it.

An algorithm says what is shared, how a client trains locally, and how the server merges. It is a frozen dataclass whose
fields are its hyperparameters; its methods are pure functions of states. Who runs the clients, how many at a time and
where is the engine's business: ``local`` is written for a :class:`Cohort`, whose values carry a leading client
dimension (of one, at a real site).

A round is two functions, which whoever runs it calls: :func:`manyheads.core.rounds.client_round` at the clients and
:func:`manyheads.core.rounds.server_round` at the server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, TypeVar, get_args

import numpy as np
from torch import Tensor

from manyheads.core.errors import UserError, one_of
from manyheads.core.features import Align, ClassFeatures
from manyheads.core.optim import SGD, FineTune, TorchOptimizer
from manyheads.core.registry import Registry, check_declared, import_path
from manyheads.core.round import Round
from manyheads.core.server import ServerOptimizer, without_moments
from manyheads.core.trees import Params, State, Tree
from manyheads.core.uploads import Each, Mean, Uploads, weighted_mean

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "Batch",
    "Cohort",
    "Each",
    "Mean",
    "ModelKind",
    "Round",
    "Step",
    "Update",
    "Uploads",
    "register",
    "weighted_mean",
]

ModelKind = Literal["global", "personal", "local"]
"""global: the server's; personal: the one a client predicts with; local: the client's after its last local update"""


class Cohort(Protocol):
    """A group of clients in one round, as an algorithm sees it. Results carry a leading client dimension [C]."""

    @property
    def round(self) -> Round: ...

    @property
    def addresses(self) -> Sequence[int]:
        """The numbers of these clients in the federation, by which the server and their random draws identify them."""

    @property
    def samples(self) -> Tensor:
        """Training samples of each client, [C]."""

    def class_counts(self, classes: int) -> Tensor | None:
        """Training samples of each client in each class, [C, classes]; None if the task has no classes."""

    def class_features(self, params: Tree, classes: int) -> ClassFeatures | None:
        """The features of all training samples in models with this body, as in an evaluation; None without classes."""

    @property
    def train_loss(self) -> np.ndarray:
        """Mean loss of each client over the batches it has trained on, [C]; NaN if there were none."""

    def each(self, tree: Tree) -> Tree:
        """A copy of ``tree`` for every client, [C, ...]."""

    def sgd(
        self,
        part: Tree,
        *,
        opt: SGD | TorchOptimizer,
        batch: int,
        epochs: int = 0,
        steps: int = 0,
        given: Tree | None = None,
        prox: tuple[float | Tensor, Tree] | None = None,
        correction: Tree | None = None,
        align: Align | None = None,
    ) -> Tree:
        """Train ``part`` of the model on each client's data, the rest of the model (``given``) frozen.

        ``epochs`` passes over the client's data, or ``steps`` steps if that is not 0, with batches of ``batch``
        samples (0: all of them). ``prox=(mu, anchor)`` adds ``mu (w - anchor)`` to every gradient, ``correction`` adds
        itself. All trees may be shared by the clients or carry the client dimension; ``mu`` too. ``align`` adds a loss
        on the features, the inputs of the head.
        """

    def steps(self, *, batch: int, epochs: int = 0, steps: int = 0) -> Tensor:
        """How many local steps each client makes for these epochs or steps, [C]."""

    def scan(
        self,
        step: Step,
        state: State,
        *,
        batches: tuple[int, ...],
        epochs: int = 0,
        steps: int = 0,
        independent: bool = True,
    ) -> State:
        """Custom local steps: ``state = step(state, *batches)``, repeated.

        Each step gets one batch of each of the sizes in ``batches``, for :meth:`gradient` and :meth:`hvp`: drawn afresh
        from all samples, or in shuffled passes over them if not ``independent``. All of ``state`` carries the client
        dimension, and what differs between clients must be in it: the step may be called for some of the clients only.
        The length of an epoch is that of a pass with the first of the batch sizes.
        """

    def draw(self, batch: int) -> Batch:
        """One batch of each client's samples (0: all of them)."""

    def losses(self, params: Tree) -> Tensor:
        """Each client's mean loss at ``params`` over all its training samples, as in an evaluation, [C]."""

    def gradient(self, params: Tree, on: Batch) -> Tree:
        """The gradient of each client's loss at ``params``, on a batch."""

    def hvp(self, params: Tree, vector: Tree, on: Batch) -> Tree:
        """The Hessian of each client's loss at ``params`` times ``vector``, on a batch. The Hessian is never formed."""


class Batch(Protocol):
    """Some of each client's training samples."""

    @property
    def x(self) -> Tensor:
        """Inputs, [C, B, ...]."""

    @property
    def y(self) -> Tensor:
        """Labels, [C, B] or [C, B, targets]."""

    @property
    def weight(self) -> Tensor:
        """Weight of each sample in its client's loss, [C, B]; 0 where a client has no more samples."""


Step = Callable[..., State]


class Update(NamedTuple):
    """The result of local training: what travels, what stays, and the client's model at the end."""

    upload: State
    client: State = State()
    model: Tree | None = None


class Algorithm:
    """Base of all algorithms. Subclasses are ``@register @settings`` classes, final, one file each."""

    name: ClassVar[str]
    paper: ClassVar[str]
    travels: ClassVar[str]
    """what a client sends and receives, in words"""
    stays: ClassVar[str]
    """what never leaves a client, in words"""
    weighting: ClassVar[Literal["samples", "equal"]] = "samples"
    """how the paper weighs the clients' uploads"""
    models: ClassVar[tuple[ModelKind, ...]]
    """kinds of models it can be evaluated with; first the one that the paper reports"""
    pooled: ClassVar[bool] = False
    """whether uploads are linear in the clients' losses: their weighted mean is then the upload for the pooled loss"""
    alone: ClassVar[bool] = False
    """whether each client trains by itself and nothing travels: the yardstick of a comparison"""
    knobs: ClassVar[Mapping[str, tuple[Any, ...]]] = {}
    """settings besides the step size that matter, by path, with values to try in ascending order; a search varies these"""
    reads_each: ClassVar[bool] = False
    """whether merge reads the uploads one by one; otherwise it gets their weighted mean, which workers may compute"""
    averaged: ClassVar[tuple[str, ...]] = ()
    """entries of the server's state that move with the clients' mean: a field ``server: Server = None`` steps these"""

    def everyone(self, round: int) -> bool:
        """Whether all clients take part in that round, regardless of the participation setting."""
        return False

    def init_server(self, params: Params, population: int) -> State:
        """The server's state before the first round of a federation of ``population`` clients."""
        raise NotImplementedError

    def init_client(self, params: Params) -> State:
        """A client's state before its first round."""
        return State()

    def newcomer(self, params: Params, server: State) -> State:
        """The state of a client that took no part in the training."""
        return self.init_client(params)

    def download(self, server: State, round: Round) -> State:
        """What travels to every client of the cohort, the same for all."""
        return without_moments(server)

    def download_each(self, server: State, clients: Sequence[int], round: Round) -> State:
        """What travels to each of these clients individually, with a leading client dimension."""
        return State()

    def expects(self, server: State, round: Round) -> State:
        """The form of what each client must send back; uploads of another form are dropped."""
        return without_moments(server)

    def local(self, cohort: Cohort, server: State, client: State) -> Update:
        """Local training of a cohort, from what was downloaded (both kinds) and what its clients keep."""
        raise NotImplementedError

    def merge(self, server: State, uploads: Uploads, round: Round) -> State:
        """The server's next state, before its optimizer, if it has one, makes a step of the ``averaged`` entries."""
        return uploads.mean()

    def change(self, server: State, merged: State, uploads: Uploads) -> State:
        """What the clients changed of the ``averaged`` entries, in the mean: the direction of the server's step."""
        return State(**{name: getattr(merged, name) - getattr(server, name) for name in self.averaged})

    @property
    def server_optimizer(self) -> ServerOptimizer | None:
        """The setting ``server``, of methods that have it."""
        return getattr(self, "server", None)

    @property
    def fewest_told(self) -> int | None:
        """The fewest samples of a class whose number and mean features an upload may tell; None: it tells no such thing."""
        return None

    def for_models(self, server: State) -> State:
        """What of the server's state a client needs to know for its global or personal model."""
        return without_moments(server)

    def global_model(self, server: State) -> Tree | None:
        """The global model, if the method has one."""
        return None

    def personal_model(self, server: State, client: State) -> Tree | None:
        """The model a client predicts with, if the method has personal models."""
        return None

    def settled(self, cohort: Cohort, server: State, client: State) -> State:
        """The state with which clients predict, if they look at their training samples for it; :attr:`settles`."""
        return client

    @property
    def settles(self) -> bool:
        """Whether a client looks at its training samples to find the state with which it predicts."""
        return type(self).settled is not Algorithm.settled

    def adaptation(self) -> FineTune:
        """How a client adapts its personal model at test time, if the method does so."""
        return FineTune()

    def step_sizes(self, lr: float, population: int) -> dict[str, float]:
        """The values of settings, by path, that give local steps a size of about ``lr``; tuning varies these."""
        return {"sgd.lr": lr} if hasattr(self, "sgd") else {}

    def scheduled(self) -> Iterable[str]:
        """The settings, by path, that a schedule multiplies from round to round: the step sizes of training."""
        return self.step_sizes(1.0, 1)


def _check_algorithm(cls: type[Algorithm]) -> None:
    check_declared(
        cls, base=Algorithm, attributes=("paper", "travels", "stays", "models"), methods=("init_server", "local")
    )
    for path, values in cls.knobs.items():
        if not values or path.partition(".")[0] not in cls.__dataclass_fields__:  # type: ignore[attr-defined]
            raise UserError(f"knobs of {import_path(cls)}: {path!r} is no setting of it, or has no values to try")
    if bool(cls.averaged) != ("server" in cls.__dataclass_fields__):  # type: ignore[attr-defined]
        raise UserError(
            f"{import_path(cls)} has only one of averaged = (...) and server: Server = None",
            fix="averaged names the entries of the server's state that the setting's optimizer steps",
        )
    gives = {"global": "global_model", "personal": "personal_model"}
    for kind in cls.models:
        if kind not in get_args(ModelKind):
            raise one_of("kind of model", kind, get_args(ModelKind), where=f"models of {import_path(cls)}")
        if kind in gives and getattr(cls, gives[kind]) is getattr(Algorithm, gives[kind]):
            raise UserError(f"{import_path(cls)} lacks {gives[kind]}(): its models name {kind!r}")


ALGORITHMS: Registry[type[Algorithm]] = Registry("algorithm", _check_algorithm)
A = TypeVar("A", bound=Algorithm)


def register(cls: type[A]) -> type[A]:
    """Make an algorithm known by its name, to the command line, to TOML files and to :func:`manyheads.load`."""
    ALGORITHMS.register(cls)
    return cls

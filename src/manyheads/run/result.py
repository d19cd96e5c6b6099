"""The result of a run: the models, the history, and a way to save them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from torch import nn

from manyheads.core.checkpoint import hash_tensors
from manyheads.core.contract import Algorithm, ModelKind, Round
from manyheads.core.errors import UserError
from manyheads.core.history import History, metrics_of
from manyheads.core.optim import FineTune
from manyheads.core.store import PersonalStore
from manyheads.core.trees import State, Tree
from manyheads.data import Encoding, Federation, Samples
from manyheads.engines.evaluation import predict
from manyheads.engines.memory import Fitted
from manyheads.engines.threads import one_thread
from manyheads.engines.workbench import Evaluation, Keep, Members, Split, Workbench, model_of, tried_on
from manyheads.metrics import Predictions
from manyheads.models import Model, TriedModel
from manyheads.run.at_sites import AT_SITES
from manyheads.run.directory import RunDirectory
from manyheads.run.training import Training

__all__ = ["Run"]


@dataclass
class Run:
    """A finished (or loaded) run."""

    algorithm: Algorithm
    model: Model
    training: Training
    server: State
    history: History
    directory: RunDirectory
    _store: PersonalStore
    _temporary: TemporaryDirectory[str] | None = field(default=None, repr=False)
    _tried: TriedModel | None = field(default=None, repr=False)
    """the model as it was tried for the run; without it, :meth:`predictions` tries it once"""

    @property
    def encoding(self) -> Encoding:
        """How the samples of the federation were encoded as inputs, and what the outputs mean."""
        return self.directory.encoding()

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings about the data, as ``manyheads data check`` prints them."""
        return self.directory.about().warnings

    @property
    def rounds(self) -> int:
        return len(self.history)

    @property
    def protocol(self) -> str:
        """What :attr:`accuracy` and :attr:`loss` mean, in words."""
        loss = self.directory.config().facts.loss or ""
        every = self.history[0].get("evaluation", {}).get("every", 1) if len(self.history) else 1
        return self.training.evaluate.describe(self.algorithm, self.training.finetune, loss, every)

    @property
    def metrics(self) -> dict[str, float | None]:
        """The reported value of every metric, by the protocol; the first is the one that methods are compared by."""
        return {name: self._reported(name) for name in metrics_of(self.history)}

    def _reported(self, name: str) -> float | None:
        return self.training.evaluate.reported(self.history.column(name))

    @property
    def accuracy(self) -> float | None:
        """The reported accuracy, by the protocol; None for a task without classes."""
        return self._reported("accuracy")

    @property
    def loss(self) -> float | None:
        """The reported loss, by the protocol: cross entropy, or the squared error of a regression."""
        return self._reported("loss")

    @property
    def final(self) -> list[dict[str, Any]]:
        """Evaluations made once, after the last round: of fine-tuned models, and of new clients."""
        return self.history[-1].get("also", []) if len(self.history) else []

    @property
    def checksum(self) -> str:
        """A hash of the final server state and of all personal states."""
        digest = hash_tensors(self.server.flat)
        self._store.update_hash(digest)
        return digest.hexdigest()

    @property
    def at_sites(self) -> bool:
        """Whether it is a run of real sites, which keep their samples and their personal models."""
        return self._store.layout.template.keys() == AT_SITES.keys()

    def client_model(self, client: int, model: ModelKind | None = None) -> Tree:
        """A client's parameters; without ``model``, the kind that the run's protocol evaluates (before fine-tuning)."""
        if not 0 <= client < len(self._store.slot):
            raise UserError("no such client", given=client, allowed=f"0 to {len(self._store.slot) - 1}")
        state, kind = (
            self._store.read([client]).map(lambda v: v[0]),
            model or self.training.evaluate.kind(self.algorithm),
        )
        if kind != "global" and self.at_sites:
            raise UserError(
                f"the personal models of {self.directory.path} are at its sites",
                fix="each site finds its own in the folder models of its kit",
            )
        return model_of(self.algorithm, kind, self.server, state)

    def kept_rounds(self) -> list[int]:
        """Of a run of real sites: the round after which each site has kept its last state."""
        return self._store.read(range(len(self._store.slot))).version.tolist()

    @property
    def finetunes(self) -> bool:
        """Whether its final models are fine-tuned on each client's samples."""
        return self.training.finetune.scope != "none"

    @property
    def adapts(self) -> bool:
        """Whether a client's final model needs its samples: for fine-tuning, or for the method's own adaptation."""
        what = self._evaluation(self.finetunes)
        return what.tune.scope != "none" or (what.kind == "personal" and self.algorithm.settles)

    @one_thread()
    def final_model(self, client: int, federation: Federation) -> Fitted:
        """What a client predicts with: the parameters of :meth:`client_model`, adapted to its samples, and its memory."""
        members, what = Members.of([client]), self._evaluation(self.finetunes)
        kept, round = self._store.read(members.rows), self._last_round(federation)
        return self._bench(federation).models(round, what, self.server, members, kept).first(self.model.params.all)

    def client_module(self, client: int, model: ModelKind | None = None) -> nn.Module:
        """A client's model as a module of its own, in evaluation mode, with the parameters of :meth:`client_model`.

        It takes inputs as the run's model did: images of bytes as numbers from 0 to 1, scaled by
        ``federation.scaling``.
        """
        return self.model.module_with(self.client_model(client, model))

    @one_thread()
    def predictions(self, federation: Federation, split: Split = "test", finetuned: bool = False) -> Predictions:
        """The predictions of the final models for every client's samples.

        ``federation`` is the one of the run. Each client's model is the one that the run's protocol evaluates; with
        ``finetuned``, after fine-tuning by the run's settings.
        """
        members, what = Members.of(range(len(federation))), self._evaluation(finetuned, split)
        kept = self._store.read(members.rows)
        return self._bench(federation).predictions(self._last_round(federation), what, self.server, members, kept)

    @one_thread()
    def new_predictions(self, federation: Federation, tune: FineTune, split: Split = "test") -> Predictions:
        """The predictions of the new clients of a federation for their samples, after fine-tuning by ``tune``.

        The federation may be another one than the run's, with other new clients or other samples of theirs.
        """
        members, kept = self._newcomers(federation)
        what = Evaluation(self.training.evaluate.kind(self.algorithm), tune, split, new=True)
        return self._bench(federation).predictions(self._last_round(federation), what, self.server, members, kept)

    @one_thread()
    def new_model(self, federation: Federation, client: int, tune: FineTune) -> Tree:
        """The parameters of a new client's model, after fine-tuning by ``tune``; see :meth:`new_predictions`."""
        members, kept = self._newcomers(federation, [client])
        what = Evaluation(self.training.evaluate.kind(self.algorithm), tune, "test", new=True)
        found = self._bench(federation).models(self._last_round(federation), what, self.server, members, kept)
        return found.first(self.model.params.all).params

    def _newcomers(self, federation: Federation, rows: Sequence[int] | None = None) -> tuple[Members, State]:
        """New clients, with addresses after those of the run's clients, and their initial personal states."""
        if federation.new is None:
            raise UserError(f"{federation.name} has no new clients")
        members = Members.of(range(len(federation.new)) if rows is None else rows, len(federation))
        fresh = self.algorithm.newcomer(self.model.params, self.server)
        return members, fresh.map(lambda v: v.expand(len(members.rows), *v.shape))

    def _evaluation(self, finetuned: bool, split: Split = "test") -> Evaluation:
        evaluate = self.training.evaluate
        protocol = replace(evaluate, split=split, model="finetuned" if finetuned else evaluate.model, who="all")
        return protocol.evaluation(self.algorithm, self.training.finetune)

    def _bench(self, federation: Federation) -> Workbench:
        self._tried, engine = self._tried or tried_on(self.model, federation), self.training.engine
        settings = (engine.mode, engine.resolved_device(), Keep(), self.training.class_weights)
        return Workbench(self.algorithm, self._tried, federation, *settings)

    def _last_round(self, federation: Federation) -> Round:
        return Round(self.rounds, self.training.seed, len(federation), len(federation))

    @one_thread()
    def everywhere(self, federation: Federation) -> np.ndarray:
        """Outputs of every client's model for the test samples of all clients, [clients, samples, outputs]."""
        bench, test = self._bench(federation), federation.test
        data = bench.data(Samples(test.x, test.y, np.array([0, len(test.y)])), [0])
        models = (self.client_model(client) for client in range(len(federation)))
        return np.stack([predict(bench.model, bench.on_device(State(m=m)).m, data).outputs for m in models])

    def save(self, folder: str | Path) -> Path:
        """Copy the run to a folder that :func:`manyheads.load` reads."""
        directory = RunDirectory.create(Path(folder), self.directory.config())
        if self.directory.encoding_path.exists():
            directory.write_data(self.encoding, self.directory.about(), self.directory.site_columns())
        directory.write_trained(self.directory.trained())
        history = History(directory.history_path, self.history, of=directory.settings)
        history.rewrite()
        store = PersonalStore(directory.store_path, self._store.layout.template, len(self._store.slot))
        self._store.copy_to(store)
        directory.commit(self.rounds, self.server, store, history)
        store.close()
        directory.unlock()
        return directory.path

    def summary(self) -> dict[str, Any]:
        """The facts of the run, as ``manyheads run --json`` prints them."""
        column, evaluations = self.history.column, list(self.history.evaluations())
        return {
            "algorithm": self.algorithm.name,
            "rounds": self.rounds,
            "accuracy": self.accuracy,
            "loss": self.loss,
            "metrics": self.metrics,
            "protocol": self.protocol,
            "evaluation": _brief(evaluations[-1]) if evaluations else None,
            "final": [_brief(found) for found in self.final],
            "seed": self.training.seed,
            "seconds": sum(v for _, v in column("seconds")),
            "passes": sum(v for _, v in column("passes")),
            "bytes_up": sum(v for _, v in column("bytes_up")),
            "bytes_down": sum(v for _, v in column("bytes_down")),
            "warnings": list(self.warnings),
            "dropped_uploads": sum(len(v) for _, v in column("dropped")),
            "checksum": self.checksum,
            "out": None if self._temporary else str(self.directory.path),
        }


def _brief(evaluation: dict[str, Any]) -> dict[str, Any]:
    """An evaluation without the values of each client."""
    return {name: value for name, value in evaluation.items() if name != "per_client"}

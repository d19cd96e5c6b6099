"""The evaluations of a round: of the protocol's model, and of fine-tuned models and new clients when they are due."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from manyheads.core.contract import Algorithm, Round
from manyheads.core.store import PersonalStore
from manyheads.core.tasks import task_named
from manyheads.core.trees import State
from manyheads.data import Federation
from manyheads.engines.chunks import chunked
from manyheads.engines.executor import Ask, Asking
from manyheads.engines.jobs import ToEvaluate, evaluate_chunk
from manyheads.engines.workbench import Members
from manyheads.metrics import Scores, metrics_for
from manyheads.models import TriedModel
from manyheads.run.protocol import Evaluate
from manyheads.run.training import Training

__all__ = ["Evaluator"]


@dataclass(frozen=True)
class Evaluator:
    """Evaluates the clients of a run after a round, as the run's protocol says."""

    algorithm: Algorithm
    model: TriedModel
    federation: Federation
    training: Training
    store: PersonalStore

    def __call__(self, round: Round, server: State, cohort: Sequence[int]) -> Asking[dict[str, Any]]:
        """The entries ``evaluation`` and ``also`` of the round's record, each only in rounds in which it is due."""
        protocol, rounds = self.training.evaluate, self.training.rounds
        due = protocol.due(round.index, rounds)
        found: dict[str, Any] = {}
        if due:
            found["evaluation"] = yield from self._evaluate(round, server, protocol, cohort)
        if round.index == rounds or (due and protocol.also == "always"):
            found["also"] = []
            for other in self._others():
                found["also"].append((yield from self._evaluate(round, server, other, cohort)))
        return found

    def _others(self) -> Iterator[Evaluate]:
        """The protocols of ``also``: fine-tuned models, and new clients before and after fine-tuning."""
        last = replace(self.training.evaluate, report="last")
        tuned = self.training.finetune.scope != "none"
        if tuned and last.model != "finetuned":
            yield replace(last, model="finetuned", who="all")
        if self.federation.new is not None:
            yield replace(last, model="auto", who="new")
            if tuned:
                yield replace(last, model="finetuned", who="new")

    def _evaluate(
        self, round: Round, server: State, protocol: Evaluate, cohort: Sequence[int]
    ) -> Asking[dict[str, Any]]:
        what = protocol.evaluation(self.algorithm, self.training.finetune)
        federation = self.federation
        if protocol.who == "new":
            assert self.federation.new is not None
            federation = self.federation.new
        clients = cohort if protocol.who == "sampled" else range(len(federation))
        sizes = getattr(federation, protocol.split).sizes
        chunks = chunked(clients, sizes[clients], self.model.params.all.numel, self.training.engine.mode)
        new = protocol.who == "new"
        first = len(self.federation) if new else 0  # new clients have addresses, and thus draws, of their own
        tasks = [(Members.of(rows, first), self._personal(server, rows, new)) for rows in chunks]
        further = protocol.is_reported(round.index, self.training.rounds)
        metrics = tuple(metrics_for(task_named(federation.task), protocol.metrics, further))
        found = list(
            (yield Ask(evaluate_chunk, ToEvaluate(round, what, self.algorithm.for_models(server), metrics), tasks))
        )
        ids = np.concatenate([np.array(c) for c in chunks])
        order = np.argsort(ids)
        summary = protocol.summary(ids[order], Scores.joined(found, order), metrics)
        described = protocol.describe(self.algorithm, self.training.finetune, self.federation.encoding.loss)
        model = "finetuned" if protocol.model == "finetuned" else what.kind
        return {"protocol": described, "model": model, "who": protocol.who, **summary}

    def _personal(self, server: State, clients: list[int], new: bool) -> State:
        """The personal states of these clients, or the initial ones of new clients."""
        if not new:
            return self.store.read(clients)
        fresh = self.algorithm.newcomer(self.model.params, server)
        return fresh.map(lambda v: v.expand(len(clients), *v.shape))

"""The evaluations of a round: of the protocol's model, and of fine-tuned models and new clients when they are due."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from manyheads.core.contract import Algorithm, Round
from manyheads.core.state_file import Places
from manyheads.core.store import PersonalStore
from manyheads.core.tasks import task_named
from manyheads.core.trees import State
from manyheads.data import Federation
from manyheads.engines.chunks import chunked, chunked_to_predict, predicted_together
from manyheads.engines.executor import Ask, Asking
from manyheads.engines.jobs import ToEvaluate, evaluate_chunk
from manyheads.engines.workbench import Members
from manyheads.metrics import Metric, Scores, metrics_for
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
        also = list(self._others()) if round.index == rounds or (due and protocol.also == "always") else None
        wanted = [_Wanted.of(self, each, round, server, cohort) for each in [*[protocol] * due, *(also or ())]]
        answers = (yield [each.ask for each in wanted]) if wanted else []
        told = [each.summary(answer) for each, answer in zip(wanted, answers, strict=True)]
        found: dict[str, Any] = {"evaluation": told[0]} if due else {}
        return found if also is None else found | {"also": told[int(due) :]}

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

    def _personal(self, server: State, clients: list[int], new: bool) -> State | Places:
        """The personal states of these clients, or the initial ones of new clients."""
        if not new:
            return self.store.given(clients)
        fresh = self.algorithm.newcomer(self.model.params, server)
        return fresh.map(lambda v: v.expand(len(clients), *v.shape))


@dataclass(frozen=True)
class _Wanted:
    """One evaluation: what is asked for, and what its record is made from."""

    evaluator: Evaluator
    protocol: Evaluate
    clients: np.ndarray
    """in the order of the tasks"""
    metrics: tuple[Metric, ...]
    ask: Ask

    @classmethod
    def of(
        cls, evaluator: Evaluator, protocol: Evaluate, round: Round, server: State, cohort: Sequence[int]
    ) -> _Wanted:
        whole, training = evaluator.federation, evaluator.training
        what = protocol.evaluation(evaluator.algorithm, training.finetune)
        new = protocol.who == "new"
        federation = whole
        if new:
            assert whole.new is not None
            federation = whole.new
        clients = cohort if protocol.who == "sampled" else range(len(federation))
        sizes = getattr(federation, protocol.split).sizes
        work = clients, sizes[clients], evaluator.model.params.all.numel, training.engine.mode
        personal, tuned = evaluator.store.layout.nbytes, what.tune.scope != "none"
        sample = federation.train.x[:1].nbytes
        chunks = chunked(*work) if tuned else chunked_to_predict(*work, personal, sample)
        first = len(whole) if new else 0  # new clients have addresses, and thus draws, of their own
        tasks = [(Members.of(rows, first), evaluator._personal(server, rows, new)) for rows in chunks]
        further = protocol.is_reported(round.index, training.rounds)
        metrics = tuple(metrics_for(task_named(federation.task), protocol.metrics, further))
        together = predicted_together(personal, evaluator.model.params.all.numel, tuned)
        common = ToEvaluate(round, what, evaluator.algorithm.for_models(server), metrics, together)
        ids = np.concatenate([np.array(c) for c in chunks])
        return cls(evaluator, protocol, ids, metrics, Ask(evaluate_chunk, common, tasks))

    def summary(self, answer: Iterable[Scores]) -> dict[str, Any]:
        """The record of the evaluation."""
        evaluator, protocol, order = self.evaluator, self.protocol, np.argsort(self.clients)
        summary = protocol.summary(self.clients[order], Scores.joined(list(answer), order), self.metrics)
        finetune, loss = evaluator.training.finetune, evaluator.federation.encoding.loss
        described = protocol.describe(evaluator.algorithm, finetune, loss)
        model = "finetuned" if protocol.model == "finetuned" else protocol.kind(evaluator.algorithm)
        return {"protocol": described, "model": model, "who": protocol.who, **summary}

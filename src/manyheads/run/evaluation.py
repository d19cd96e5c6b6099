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
from manyheads.run.cadence import STEP, usual_every
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

    def __call__(self, round: Round, server: State, cohort: Sequence[int], every: int) -> Asking[dict[str, Any]]:
        """The entries ``evaluation`` and ``also`` of the round's record, each only in rounds in which it is due."""
        protocol, rounds = self.training.evaluate, self.training.rounds
        due = protocol.due(round.index, rounds, every)
        also = list(self._others()) if round.index == rounds or (due and protocol.also == "always") else None
        wanted = [_Wanted.of(self, each, round, server, cohort) for each in [*[protocol] * due, *(also or ())]]
        answers = (yield [each.ask for each in wanted]) if wanted else []
        told = [each.summary(answer) for each, answer in zip(wanted, answers, strict=True)]
        found: dict[str, Any] = {"evaluation": told[0]} if due else {}
        if due and not protocol.every:
            told[0] |= {"protocol": self._described(protocol, every), "every": every}
        return found if also is None else found | {"also": told[int(due) :]}

    def usual_every(self, cohort: Sequence[int], passes: float) -> int:
        """Rounds between evaluations where the protocol leaves it open, if the cohort made so many passes in a round."""
        protocol = self.training.evaluate
        whenever = [protocol, *(self._others() if protocol.also == "always" else ())]
        evaluated = sum(self._samples(each, cohort) for each in whenever)
        trained = passes * float(self.federation.train.sizes[cohort].sum())
        return usual_every(evaluated, trained, self.model.params.all.numel, self.training.rounds)

    def _samples(self, protocol: Evaluate, cohort: Sequence[int]) -> float:
        """Samples that go through the model in an evaluation; of fine-tuning, as many as cost as much."""
        federation, clients = self._evaluated(protocol, cohort)
        tune = protocol.evaluation(self.algorithm, self.training.finetune).tune
        tuned = STEP * tune.samples(federation.train.sizes[clients])
        return tuned + float(getattr(federation, protocol.split).sizes[clients].sum())

    def _evaluated(self, protocol: Evaluate, cohort: Sequence[int]) -> tuple[Federation, Sequence[int]]:
        """Who is evaluated, and in which federation."""
        federation = self.federation
        if protocol.who == "new":
            assert federation.new is not None
            federation = federation.new
        return federation, cohort if protocol.who == "sampled" else range(len(federation))

    def _described(self, protocol: Evaluate, every: int = 1) -> str:
        loss = self.federation.encoding.loss
        return protocol.describe(self.algorithm, self.training.finetune, loss, every)

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
        federation, clients = evaluator._evaluated(protocol, cohort)
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
        model = "finetuned" if protocol.model == "finetuned" else protocol.kind(evaluator.algorithm)
        return {"protocol": evaluator._described(protocol), "model": model, "who": protocol.who, **summary}

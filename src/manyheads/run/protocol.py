"""Evaluation by named protocol: which model, which clients, how averaged, when. Every reported number carries it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from manyheads.core.contract import Algorithm, ModelKind
from manyheads.core.optim import FineTune
from manyheads.core.settings import settings
from manyheads.engines.workbench import Evaluation, Split
from manyheads.metrics import Metric, Scores, spread

__all__ = ["Evaluate"]

LAST = 10
ALWAYS = ("loss", "accuracy")
"""metrics that have an entry in every evaluation, None if the task does not have them"""
PER_CLIENT_UP_TO = 1000
"""largest number of clients for which the history keeps each client's values"""


@settings
class Evaluate:
    """What is evaluated, on whom, when, and what is reported at the end."""

    model: Literal["auto", "global", "personal", "local", "finetuned"] = "auto"
    """global: the one shared model; personal: what the method gives each client; local: the client's model after its
    last local update; finetuned: the first that the method has, after --finetune; auto: the one the method's paper
    reports"""
    who: Literal["all", "sampled", "new"] = "all"
    """all clients of the training, only those of the round, or the new clients"""
    weight: Literal["client", "sample"] = "client"
    """mean over clients, or over test samples"""
    split: Split = "test"
    """which of the clients' samples; train: how well a model fits what it was trained on"""
    every: Annotated[int, Field(ge=0)] = 0
    """rounds between evaluations; 0: 1, 2, 5, 10, ... so that they are at most a tenth of the work, and the first round;
    what is reported is always evaluated"""
    also: Literal["last", "always"] = "last"
    """when fine-tuned models and new clients are evaluated too: after the last round, or whenever the others are"""
    report: Literal["last", "mean_last_10"] = "last"
    """the reported number: the last round's, or the mean over the last ten rounds"""
    metrics: tuple[str, ...] = ()
    """what is measured in every evaluation beside the task's own (accuracy, loss); the task's further metrics (AUC, ...)
    are measured anyway where the evaluation is reported"""

    def kind(self, algorithm: Algorithm) -> ModelKind:
        """The kind of model that is evaluated (with ``finetuned``, the kind from which fine-tuning starts)."""
        return algorithm.models[0] if self.model in ("auto", "finetuned") else self.model  # type: ignore[return-value]

    def evaluation(self, algorithm: Algorithm, finetune: FineTune) -> Evaluation:
        """The protocol as the engine's arguments."""
        kind = self.kind(algorithm)
        tune = algorithm.adaptation() if kind == "personal" else FineTune()
        tune = finetune if self.model == "finetuned" else tune
        return Evaluation(kind, tune, self.split, self.who == "new")

    def due(self, round: int, rounds: int, every: int) -> bool:
        """Whether to evaluate after this round, if ``every`` is the number of rounds between evaluations."""
        first = round == 1 and not self.every
        return first or round % every == 0 or self.is_reported(round, rounds)

    def is_reported(self, round: int, rounds: int) -> bool:
        """Whether the evaluation after this round is part of the reported numbers."""
        return round > rounds - (1 if self.report == "last" else LAST)

    def describe(self, algorithm: Algorithm, finetune: FineTune, loss: str = "", every: int = 1) -> str:
        """The protocol in words, including the name of the loss if it is given.

        ``every``: the number of rounds between evaluations, where the protocol leaves it open.
        """
        what = self.evaluation(algorithm, finetune)
        tuned = f" {what.tune.describe()}" if what.tune.scope != "none" else ""
        clients = {"all": "all clients", "sampled": "the round's clients", "new": "new clients"}[self.who]
        mean = "mean over clients" if self.weight == "client" else "mean over samples"
        report = "last round" if self.report == "last" else f"mean of the last {LAST} rounds"
        report += f", evaluated every {every} rounds" if every > 1 else ""
        unit = f"; loss: {loss}" if loss else ""
        return f"{what.kind} model{tuned}, on each client's own {self.split} samples, {clients}, {mean}, {report}{unit}"

    def summary(self, clients: np.ndarray, scores: Scores, metrics: Iterable[Metric]) -> dict[str, Any]:
        """The entry of an evaluation in the history: each metric's mean and spread over clients, and its values.

        Clients without samples in the split are left out, and so are, for each metric, those where it is not defined.
        """
        has = scores.samples > 0
        names = [metric.name for metric in metrics]
        record: dict[str, Any] = {"clients": int(has.sum()), "metrics": names, **dict.fromkeys((*ALWAYS, *names))}
        if not has.any():
            return record
        per_client: dict[str, Any] = {"client": clients[has].tolist()}
        for metric in metrics:
            values, defined = (v[has] for v in scores.metrics[metric.name])
            if defined.any():
                weights = scores.samples[has][defined] if self.weight == "sample" else None
                facts = spread(values[defined], weights, metric.higher_is_better is not False)
                record[metric.name] = _number(facts.pop("mean"))
                record |= {f"{metric.name}_{k}": _number(v) for k, v in facts.items()}
            if not defined.all():
                record[f"{metric.name}_clients"] = int(defined.sum())
            if len(values) <= PER_CLIENT_UP_TO:
                kept = values.round(6) if metric.unit == "%" else values
                per_client[metric.name] = [_number(v) if d else None for v, d in zip(kept, defined, strict=True)]
        if len(per_client["client"]) <= PER_CLIENT_UP_TO:
            record["per_client"] = per_client
        return record

    def reported(self, values: list[tuple[int, float]]) -> float | None:
        """The number to report from (round, value) pairs."""
        if not values:
            return None
        if self.report == "last":
            return values[-1][1]
        return float(np.mean([v for r, v in values if r > values[-1][0] - LAST]))


def _number(value: float) -> float | None:
    """The value, or None if it is not finite, which JSON cannot represent."""
    return float(value) if np.isfinite(value) else None

"""Evaluation by named protocol: which model, which clients, how averaged, when. Every reported number carries it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from manyheads.core.contract import Algorithm, ModelKind
from manyheads.core.optim import FineTune
from manyheads.core.settings import settings
from manyheads.engines.evaluation import Scores
from manyheads.engines.workbench import Evaluation
from manyheads.metrics import spread

__all__ = ["Evaluate"]

LAST = 10
PER_CLIENT_UP_TO = 1000
"""clients up to which the history keeps every client's own numbers"""


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
    split: Literal["test", "validation"] = "test"
    """which of the clients' samples"""
    every: Annotated[int, Field(ge=1)] = 1
    """rounds between evaluations; the last round always has one"""
    also: Literal["last", "always"] = "last"
    """when fine-tuned models and new clients are evaluated too: after the last round, or whenever the others are"""
    report: Literal["last", "mean_last_10"] = "last"
    """the reported number: the last round's, or the mean over the last ten rounds"""

    def kind(self, algorithm: Algorithm) -> ModelKind:
        """The model that is evaluated, or fine-tuned first."""
        return algorithm.models[0] if self.model in ("auto", "finetuned") else self.model  # type: ignore[return-value]

    def evaluation(self, algorithm: Algorithm, finetune: FineTune) -> Evaluation:
        """What the engine is to do."""
        kind = self.kind(algorithm)
        tune = algorithm.adaptation() if kind == "personal" else FineTune()
        tune = finetune if self.model == "finetuned" else tune
        return Evaluation(kind, tune, self.split, self.who == "new")

    def due(self, round: int, rounds: int) -> bool:
        """Whether to evaluate after this round."""
        return round == rounds or round % self.every == 0 or (self.report == "mean_last_10" and round > rounds - LAST)

    def describe(self, algorithm: Algorithm, finetune: FineTune, loss: str = "") -> str:
        """The protocol in words, with what the loss is if that must be said."""
        what = self.evaluation(algorithm, finetune)
        tuned = f" {what.tune.describe()}" if what.tune.scope != "none" else ""
        clients = {"all": "all clients", "sampled": "the round's clients", "new": "new clients"}[self.who]
        mean = "mean over clients" if self.weight == "client" else "mean over samples"
        report = "last round" if self.report == "last" else f"mean of the last {LAST} rounds"
        unit = f"; loss: {loss}" if loss else ""
        return f"{what.kind} model{tuned}, on each client's own {self.split} samples, {clients}, {mean}, {report}{unit}"

    def summary(self, clients: np.ndarray, scores: Scores, task: str) -> dict[str, Any]:
        """One evaluation as it stands in the history. Clients without such samples do not count."""
        has = scores.samples > 0
        if not has.any():
            return {"clients": 0, "accuracy": None, "loss": None}
        samples, ids = scores.samples[has], clients[has]
        weights = samples if self.weight == "sample" else None
        loss = scores.loss[has] / samples
        record: dict[str, Any] = {
            "clients": int(has.sum()),
            "loss": _number(spread(loss, weights)["mean"]),
            "accuracy": None,
        }
        per_client: dict[str, Any] = {"client": ids.tolist(), "loss": [_number(v) for v in loss]}
        if task == "classification":
            accuracy = scores.correct[has] / samples
            facts = spread(accuracy, weights)
            record |= {"accuracy": facts.pop("mean"), **{f"accuracy_{k}": v for k, v in facts.items()}}
            per_client["accuracy"] = accuracy.round(6).tolist()
        if len(ids) <= PER_CLIENT_UP_TO:
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
    """JSON knows no infinity."""
    return float(value) if np.isfinite(value) else None

"""The records of a history as typed values, for comparisons and reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from manyheads.metrics import METRICS

__all__ = ["Evaluated", "RoundFacts"]


@dataclass(frozen=True)
class Evaluated:
    """An evaluation: the values of metrics by name, without those that have none."""

    values: Mapping[str, float]
    worst_decile: Mapping[str, float]
    protocol: str
    model: str = ""
    """which model was evaluated and, in ``who``, on which clients; empty for the run's usual evaluation"""
    who: str = ""
    clients: Sequence[int] = ()
    """clients with samples; empty if they are too many for the history to list"""
    per_client: Mapping[str, Sequence[float | None]] = field(default_factory=dict)

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Evaluated:
        each = dict(record.get("per_client", {}))
        clients = each.pop("client", ())
        names = record.get("metrics", METRICS)  # a history of an earlier version lists none
        worst = {name: f"{name}_worst_decile" for name in names}
        return cls(
            values={name: record[name] for name in worst if record.get(name) is not None},
            worst_decile={name: record[key] for name, key in worst.items() if record.get(key) is not None},
            protocol=record.get("protocol", ""),
            model=record.get("model", ""),
            who=record.get("who", ""),
            clients=clients,
            per_client=each,
        )

    def without_clients(self) -> Evaluated:
        return replace(self, clients=(), per_client={})


@dataclass(frozen=True)
class RoundFacts:
    """The record of one round."""

    round: int
    train_loss: float | None
    """mean over the round's clients; None if it is not finite"""
    bytes_up: int
    bytes_down: int
    seconds: float
    passes: float
    """passes over a client's training samples, mean over the round's clients"""
    evaluation: Evaluated | None
    also: Sequence[Evaluated]
    """further evaluations: of fine-tuned models, and of new clients"""
    monitors: Mapping[str, float]
    """values by name, without those that have none"""

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> RoundFacts:
        """Made from a record of a history."""
        return cls(
            round=record["round"],
            train_loss=record.get("train_loss"),
            bytes_up=record["bytes_up"],
            bytes_down=record["bytes_down"],
            seconds=record["seconds"],
            passes=record.get("passes", 0.0),  # not recorded by earlier versions
            evaluation=Evaluated.of(record["evaluation"]) if record.get("evaluation") else None,
            also=[Evaluated.of(found) for found in record.get("also", ())],
            monitors={name: value for name, value in record.get("monitors", {}).items() if value is not None},
        )

    @property
    def bytes(self) -> int:
        return self.bytes_up + self.bytes_down

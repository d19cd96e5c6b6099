"""The records of a history as typed values, for those who read runs: comparisons and reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from manyheads.metrics import METRICS

__all__ = ["Evaluated", "RoundFacts"]


@dataclass(frozen=True)
class Evaluated:
    """An evaluation: each metric by its name, where it has a value."""

    values: Mapping[str, float]
    worst_decile: Mapping[str, float]
    protocol: str
    model: str = ""
    """of those made beside the usual one: which model, on whom"""
    who: str = ""
    clients: Sequence[int] = ()
    """those with samples; none if they are too many for the history to list"""
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
    """One round."""

    round: int
    bytes_up: int
    bytes_down: int
    seconds: float
    evaluation: Evaluated | None
    also: Sequence[Evaluated]
    """of fine-tuned models, and of new clients"""
    monitors: Mapping[str, float]
    """those that have a value"""

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> RoundFacts:
        """Of a record of a history."""
        return cls(
            round=record["round"],
            bytes_up=record["bytes_up"],
            bytes_down=record["bytes_down"],
            seconds=record["seconds"],
            evaluation=Evaluated.of(record["evaluation"]) if record.get("evaluation") else None,
            also=[Evaluated.of(found) for found in record.get("also", ())],
            monitors={name: value for name, value in record.get("monitors", {}).items() if value is not None},
        )

    @property
    def bytes(self) -> int:
        return self.bytes_up + self.bytes_down

"""The rounds of a history as the report sees them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from manyheads.metrics import METRICS

__all__ = ["Evaluated", "Seen", "seen"]


@dataclass(frozen=True)
class Evaluated:
    """An evaluation: each metric by its name, where it has a value."""

    values: Mapping[str, float]
    worst_decile: Mapping[str, float]
    protocol: str
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
            {name: record[name] for name in worst if record.get(name) is not None},
            {name: record[key] for name, key in worst.items() if record.get(key) is not None},
            record.get("protocol", ""),
            clients,
            each,
        )

    def without_clients(self) -> Evaluated:
        return replace(self, clients=(), per_client={})


@dataclass(frozen=True)
class Seen:
    """One round."""

    round: int
    bytes_up: int
    bytes_down: int
    seconds: float
    evaluation: Evaluated | None
    monitors: Mapping[str, float]

    @property
    def bytes(self) -> int:
        return self.bytes_up + self.bytes_down


def seen(record: Mapping[str, Any]) -> Seen:
    """A record of a history."""
    return Seen(
        record["round"],
        record["bytes_up"],
        record["bytes_down"],
        record["seconds"],
        Evaluated.of(record["evaluation"]) if record.get("evaluation") else None,
        {name: value for name, value in record.get("monitors", {}).items() if value is not None},
    )

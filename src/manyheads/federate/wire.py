"""Messages between the coordinator and the sites: plain facts and tensors, as bytes. Nothing is unpickled."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from manyheads.core.errors import UserError
from manyheads.core.plain import to_json
from manyheads.core.trees import State, Tree, aligned

__all__ = ["PROTOCOL", "Message", "prefixed", "state_of", "taken"]

PROTOCOL = 1
"""of these messages; both ends must have the same"""
LENGTH = 8
"""bytes that give the length of the facts"""


@dataclass(frozen=True)
class Message:
    """Facts as JSON, and tensors by name."""

    facts: dict[str, Any]
    tensors: dict[str, Tensor] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        facts = to_json({"facts": self.facts, "names": list(self.tensors)}).encode()  # safetensors keeps no order
        apart = {name: value.detach().cpu().contiguous().clone() for name, value in self.tensors.items()}
        return len(facts).to_bytes(LENGTH, "little") + facts + save(apart)

    @classmethod
    def from_bytes(cls, data: bytes) -> Message:
        """Read a message; an error if the bytes are not one."""
        size = int.from_bytes(data[:LENGTH], "little")
        facts, rest = data[LENGTH : LENGTH + size], data[LENGTH + size :]
        try:
            table, found = json.loads(facts), load(rest)
            tensors = {name: aligned(found.pop(name)) for name in table["names"]}
        except (ValueError, TypeError, KeyError, RecursionError, SafetensorError) as error:
            raise UserError(f"not a message: {error}") from None
        if found or not isinstance(table.get("facts"), dict):
            raise UserError("not a message: it holds other tensors than it names, or no facts")
        return cls(table["facts"], tensors)


def prefixed(prefix: str, state: State) -> dict[str, Tensor]:
    """The leaves of a state, under a prefix of their own; an entry that is a tree has a double slash."""
    named: dict[str, Tensor] = {}
    for name, value in state.items():
        leaves = {f"{name}//{k}": v for k, v in value.items()} if isinstance(value, Tree) else {name: value}
        named |= {f"{prefix}{leaf}": v for leaf, v in leaves.items()}
    return named


def taken(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors under a prefix, without it."""
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def state_of(leaves: Mapping[str, Tensor]) -> State:
    """The state that :func:`prefixed` has written, with the entries and names that it had, in their order.

    >>> import torch
    >>> told = State(body=Tree({"0.weight": torch.ones(2)}), step=torch.tensor(3))
    >>> state_of(taken("down/", prefixed("down/", told)))["body"].keys() == told["body"].keys()
    True
    """
    entries: dict[str, Any] = {}
    for name, value in leaves.items():
        entry, tree, leaf = name.partition("//")
        if tree:
            entries.setdefault(entry, {})[leaf] = value
        else:
            entries[entry] = value
    return State(**{k: Tree(v) if isinstance(v, dict) else v for k, v in entries.items()})

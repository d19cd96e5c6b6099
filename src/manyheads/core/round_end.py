"""A finished round, as monitors and callbacks see it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from manyheads.core.contract import Each, Uploads
from manyheads.core.trees import State

__all__ = ["RoundEnd"]


@dataclass(frozen=True)
class RoundEnd:
    """What monitors and ``on_round`` get: a round's record, and the states after it.

    Uploads and personal states are read when they are accessed; the next round overwrites the personal states.
    """

    record: dict[str, Any]
    """the round's entry in the history; for monitors, still without the values of monitors and evaluations"""
    server: State
    gather: Callable[[], Uploads] = field(repr=False)
    personal: Callable[[Sequence[int]], State] = field(repr=False)
    """reads the personal states of any clients, with a leading client dimension"""

    @cached_property
    def uploads(self) -> Uploads:
        """The uploads of the round: each client's, if a monitor or the method reads them, otherwise their mean."""
        return self.gather()

    @property
    def rows(self) -> State:
        """The uploads with a leading client dimension; empty if there is only their mean."""
        return self.uploads.received.rows if isinstance(self.uploads.received, Each) else State()

    @cached_property
    def kept(self) -> State:
        """The personal states of the clients in ``uploads``, with a leading client dimension."""
        return self.personal(self.uploads.clients)

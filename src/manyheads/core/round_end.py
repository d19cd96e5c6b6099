"""A round that is over, as those see it who watch a run."""

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

    Uploads and what clients keep are read when they are asked for; the next round overwrites the latter.
    """

    record: dict[str, Any]
    """as it stands in the history; a monitor sees it without what is measured after the round"""
    server: State
    gather: Callable[[], Uploads] = field(repr=False)
    personal: Callable[[Sequence[int]], State] = field(repr=False)
    """what any clients keep, with a leading client dimension"""

    @cached_property
    def uploads(self) -> Uploads:
        """Of the round: each client's, if a monitor or the method reads them, or else their mean."""
        return self.gather()

    @property
    def rows(self) -> State:
        """The uploads with a leading client dimension; empty if there is only their mean."""
        return self.uploads.received.rows if isinstance(self.uploads.received, Each) else State()

    @cached_property
    def kept(self) -> State:
        """What the clients keep whose uploads these are."""
        return self.personal(self.uploads.clients)

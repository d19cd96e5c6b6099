"""What every paper of this package offers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Protocol, TypeAlias

__all__ = ["Paper", "Say"]

Say: TypeAlias = Callable[[str], None]
"""takes a line about progress"""


class Paper(Protocol):
    """A settings class whose fields are the flags of ``manyheads theory NAME``."""

    name: ClassVar[str]
    title: ClassVar[str]

    def run(self, say: Say) -> dict[str, Any]:
        """The facts, as plain JSON values."""

    @staticmethod
    def figure(facts: dict[str, Any]) -> Any:
        """An altair chart of the facts that ``theory`` gives."""

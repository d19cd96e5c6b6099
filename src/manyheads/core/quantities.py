"""What a number is called, in which unit it is written, and which way is better: common to metrics and monitors."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, ClassVar

from manyheads.core.errors import UserError

__all__ = ["Quantity", "named_quantity", "quantity_check"]

TAKEN = {
    *(
        "round",
        "clients",
        "cohort",
        "train_loss",
        "dropped",
        "bytes_down",
        "bytes_up",
        "seconds",
        "monitors",
        "metrics",
    ),
    *("evaluation", "also", "protocol", "model", "who", "per_client", "client"),
}
"""entries of a history that are no quantities"""


class Quantity:
    """A number of a run: a metric of the clients' predictions, or a monitor of the state.

    >>> class Share(Quantity):
    ...     name, title, unit = "share", "share of it", "%"
    >>> Share.shown(0.9617), Share.axis()
    ('96.2 %', 'share of it (%)')
    """

    name: ClassVar[str]
    """its entry in the history: lower case letters, digits and _"""
    title: ClassVar[str]
    """in the head of a table, at an axis"""
    meaning: ClassVar[str] = ""
    """half a sentence that explains it"""
    unit: ClassVar[str] = ""
    """behind the number; ``%``: a share, written times 100, whose differences are percentage points"""
    higher_is_better: ClassVar[bool | None] = None
    """None: neither"""
    bounds: ClassVar[tuple[float | None, float | None]] = (None, None)
    """where the axis of a drawing begins and ends; None: with the values"""

    @classmethod
    def factor(cls) -> float:
        """From the number in the history to the one that is written."""
        return 100.0 if cls.unit == "%" else 1.0

    @classmethod
    def format(cls) -> str:
        """Of the number that is written."""
        return ".1f" if cls.unit == "%" else ".3g"

    @classmethod
    def shown(cls, value: float | None) -> str:
        """The number with its unit; nothing if there is none."""
        if value is None or not math.isfinite(value):
            return ""
        return f"{cls.factor() * value:{cls.format()}} {cls.unit}".rstrip()

    @classmethod
    def axis(cls) -> str:
        """The title with the unit."""
        return f"{cls.title} ({cls.unit})" if cls.unit else cls.title


def named_quantity(name: str) -> type[Quantity]:
    """A quantity of which only the name is known."""
    return type("Named", (Quantity,), {"name": name, "title": name.replace("_", " ")})


def quantity_check(base: type[Quantity], needs: str) -> Callable[[Any], None]:
    """What a registry asks of the classes of one kind: ``base`` is theirs, and the method ``needs`` is written."""

    def check(cls: Any) -> None:
        if not (isinstance(cls, type) and issubclass(cls, base)):
            raise UserError(f"{cls!r} is no {base.__name__}", fix=f"derive a class from manyheads.{base.__name__}")
        if getattr(cls, "__abstractmethods__", None):
            raise UserError(f"{cls.__name__} does not say how it is computed", fix=f"write its method {needs}")
        if not isinstance(getattr(cls, "title", None), str):
            raise UserError(f"{cls.__name__} has no title", fix="declare one: title = '...'")
        if not re.fullmatch("[a-z][a-z0-9_]*", cls.name) or cls.name in TAKEN:
            raise UserError(
                f"{cls.__name__} has a name that cannot stand in a history", given=cls.name,
                allowed="lower case letters, digits and _, and no other entry's name",
            )  # fmt: skip

    return check

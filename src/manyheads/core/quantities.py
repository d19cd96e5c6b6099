"""The name, unit, format and better direction of a quantity: common to metrics and monitors."""

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
        "passes",
        "seconds",
        "monitors",
        "metrics",
    ),
    *("evaluation", "also", "protocol", "model", "who", "per_client", "client"),
}
"""entries of a history that are not quantities, and cannot be names of any"""


class Quantity:
    """A number of a run: a metric of the clients' predictions, or a monitor of the state.

    >>> class Share(Quantity):
    ...     name, title, unit = "share", "share of it", "%"
    >>> Share.shown(0.9617), Share.axis()
    ('96.2 %', 'share of it (%)')
    """

    name: ClassVar[str]
    """name of its entry in the history: lower case letters, digits and _"""
    title: ClassVar[str]
    """title in table headers and on axes"""
    meaning: ClassVar[str] = ""
    """a phrase that explains it"""
    unit: ClassVar[str] = ""
    """shown after the number; ``%`` is for fractions, shown times 100, with differences in percentage points"""
    higher_is_better: ClassVar[bool | None] = None
    """None if neither higher nor lower values are better"""
    bounds: ClassVar[tuple[float | None, float | None]] = (None, None)
    """ends of the axis in a plot; None: determined by the values"""

    @classmethod
    def factor(cls) -> float:
        """The factor from the value in the history to the number that is shown."""
        return 100.0 if cls.unit == "%" else 1.0

    @classmethod
    def format(cls) -> str:
        """The format specification of the number that is shown."""
        return ".1f" if cls.unit == "%" else ".3g"

    @classmethod
    def shown(cls, value: float | None) -> str:
        """The value with its unit, as text; empty if there is no value."""
        if value is None or not math.isfinite(value):
            return ""
        return f"{cls.factor() * value:{cls.format()}} {cls.unit}".rstrip()

    @classmethod
    def axis(cls) -> str:
        """The title with the unit, for an axis."""
        return f"{cls.title} ({cls.unit})" if cls.unit else cls.title


def named_quantity(name: str) -> type[Quantity]:
    """A quantity class for a name of which nothing else is known."""
    return type("Named", (Quantity,), {"name": name, "title": name.replace("_", " ")})


def quantity_check(base: type[Quantity], needs: str) -> Callable[[Any], None]:
    """A registry's check of a class: it must be a subclass of ``base`` and implement the method ``needs``."""

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

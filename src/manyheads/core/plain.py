"""Plain values and plain text: JSON without infinities, text without control characters."""

from __future__ import annotations

import json
import math
from typing import Any

from manyheads.core.words import printable

__all__ = ["plain", "to_json", "visible"]


def plain(value: Any) -> Any:
    """The value with None for every number that is not finite.

    >>> plain({"loss": [0.5, float("nan"), float("inf")]})
    {'loss': [0.5, None, None]}
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def to_json(value: Any, indent: int | None = None, sort_keys: bool = False) -> str:
    """Valid JSON, with null for NaN and infinity; used for all JSON that is printed or written.

    >>> to_json({"loss": float("nan")})
    '{"loss": null}'
    """
    return json.dumps(plain(value), indent=indent, sort_keys=sort_keys, allow_nan=False)


def visible(text: str) -> str:
    r"""Text whose control characters are written out, so that none reaches the terminal.

    >>> print(visible("site \x1b[31m"))
    site \x1b[31m
    """
    return printable(text, keep="\t\n")

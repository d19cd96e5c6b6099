"""Names and texts from outside, made safe to print."""

from __future__ import annotations

import re

__all__ = ["printable", "quoted"]

LONG = 40
"""characters of a name that are shown"""
# Control characters (a terminal obeys those), separators of lines, marks that turn the direction of the text around,
# and the halves of characters that stand for bytes of a file name that are no text (they cannot even be written).
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str, keep: str = "") -> str:
    r"""A text with its control characters spelled out, but for some to ``keep``: it can be shown anywhere and does nothing.

    >>> printable("ward\x1b[31m A")
    'ward\\x1b[31m A'
    """
    return _UNPRINTABLE.sub(lambda found: found[0] if found[0] in keep else ascii(found[0])[1:-1], text)


def quoted(*names: object, most: int = 20) -> str:
    """Names in quotes, for a message: long ones, and those of a long list, cut short.

    >>> quoted("age", "x" * 300, "dose", most=2)
    "'age', 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...' and 1 more"
    """
    shown = (repr(n if len(n) <= LONG else f"{n[: LONG - 3]}...") for n in map(str, names[:most]))
    return ", ".join(shown) + (f" and {len(names) - most} more" if len(names) > most else "")

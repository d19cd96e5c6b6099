"""Words and numbers for people: names and texts from outside are made safe to print."""

from __future__ import annotations

import re

__all__ = ["counted", "plural", "printable", "quoted"]

LONG = 40
"""largest number of characters of a name that are shown"""
# Control characters (which a terminal would execute), line separators, marks that change the direction of the text, and
# surrogates, which stand for undecodable bytes of a file name and cannot be encoded.
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str, keep: str = "") -> str:
    r"""A text that is safe to print: control characters are written as escapes, except those in ``keep``.

    >>> printable("ward\x1b[31m A")
    'ward\\x1b[31m A'
    """
    return _UNPRINTABLE.sub(lambda found: found[0] if found[0] in keep else ascii(found[0])[1:-1], text)


def quoted(*names: object, most: int = 20) -> str:
    """Names in quotes, for a message; long names and long lists are cut short.

    >>> quoted("age", "x" * 300, "dose", most=2)
    "'age', 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...' and 1 more"
    """
    shown = (repr(n if len(n) <= LONG else f"{n[: LONG - 3]}...") for n in map(str, names[:most]))
    return ", ".join(shown) + (f" and {len(names) - most} more" if len(names) > most else "")


def counted(value: float) -> str:
    """An amount to be read: whole from ten on, else with two digits.

    >>> counted(2200.4), counted(12.34), counted(1.25)
    ('2,200', '12', '1.2')
    """
    return f"{value:,.0f}" if abs(value) >= 10 else f"{value:.2g}"


def plural(count: int, one: str, many: str) -> str:
    """Return a count with the singular or plural noun.

    >>> plural(1, "site gains", "sites gain")
    '1 site gains'
    """
    return f"{count} {one if count == 1 else many}"

"""The text of a file, in whatever encoding it was saved."""

from __future__ import annotations

import codecs
import re

from manyheads.core.words import quoted
from manyheads.data.sites.problems import Unreadable

__all__ = ["decoded"]

BINARY = re.compile(rb"[\x00-\x08\x0e-\x1f]")
"""control characters that no table has"""
SAVE = "save it as CSV with the encoding UTF-8"


def decoded(content: bytes) -> tuple[str, str]:
    r"""The text, and, unless it is UTF-8, what was assumed.

    >>> decoded("Zürich,1\n".encode("latin-1"))
    ('Zürich,1\n', "is not in UTF-8: read as Windows-1252 (Latin-1), which gives 'Zürich'")
    """
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        try:
            return content.decode("utf-16"), "is not in UTF-8: read as UTF-16, as its first bytes say"
        except UnicodeDecodeError:
            raise Unreadable("begins as text in UTF-16, but is not", SAVE) from None
    if b"\0" in content:
        raise Unreadable("holds NUL bytes: it is no text, or in UTF-16", SAVE, _row(content, content.index(b"\0")))
    try:
        return content.decode("utf-8-sig"), ""
    except UnicodeDecodeError as error:
        row = _row(content, error.start)
    mixed = not content.decode("utf-8-sig", "ignore").isascii()  # some letters are in UTF-8, others are not
    if mixed or BINARY.search(content):
        raise Unreadable("is not text in UTF-8", SAVE, row)
    try:
        text = content.decode("cp1252")
    except UnicodeDecodeError:
        raise Unreadable("is not text in UTF-8, nor in Windows-1252", SAVE, row) from None
    word = re.search(r"\w*[^\x00-\x7f]\w*", text)
    assert word is not None
    return text, f"is not in UTF-8: read as Windows-1252 (Latin-1), which gives {quoted(word[0])}"


def _row(content: bytes, at: int) -> int | None:
    return content.count(b"\n", 0, at) or None

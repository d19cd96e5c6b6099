"""Numbers as people write them: with a decimal comma, with commas between thousands, in percent."""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["looks_like_number", "read_numbers"]

EXPONENT = r"(e[+-]?\d+)?"
DECIMAL_COMMA = re.compile(
    rf"[+-]?(\d+(,\d*)?|,\d+|\d{{1,3}}(\.\d{{3}})+,\d*|\d{{1,3}}(\.\d{{3}}){{2,}}){EXPONENT}", re.I
)
THOUSANDS = re.compile(rf"[+-]?([1-9]\d{{0,2}}(,\d{{3}})+(\.\d*)?|\d+(\.\d*)?|\.\d+){EXPONENT}", re.I)
POINTS = re.compile(r"[+-]?([1-9]\d{0,2}(\.\d{3})+|\d{1,3})")
NUMBER_LIKE = re.compile(r"[+-]?[\d.,' ]*\d[\d.,' ]*%?")


def read_numbers(texts: Sequence[str], comma: bool = False) -> tuple[list[float], str] | None:
    """The numbers of a column that has one notation throughout, and the notation's name; None if that is not clear.

    >>> read_numbers(["1.234,5", "7"]), read_numbers(["1,234,567", "0.5"]), read_numbers(["23 %", "4.5%"])
    (([1234.5, 7.0], 'a decimal comma'), ([1234567.0, 0.5], 'commas between thousands'), ([0.23, 0.045], 'percent'))

    A number that may be 1234 or 1.234 is not clear, unless other columns of the file have a decimal ``comma``:

    >>> read_numbers(["1,234", "5,678"])
    >>> read_numbers(["1,234", "5,678"], comma=True), read_numbers(["1.234", "5.678"], comma=True)
    (([1.234, 5.678], 'a decimal comma'), ([1234.0, 5678.0], 'points between thousands'))
    """
    percent = bool(texts) and all(t.endswith("%") for t in texts)
    plain = [t.removesuffix("%").rstrip() for t in texts] if percent else texts
    decimal, thousands = (all(form.fullmatch(t) for t in plain) for form in (DECIMAL_COMMA, THOUSANDS))
    marked, way = any("," in t for t in plain), ""
    if marked and decimal and (comma or not thousands):
        plain, way = [t.replace(".", "").replace(",", ".") for t in plain], "a decimal comma"
    elif marked and thousands and not decimal:
        plain, way = [t.replace(",", "") for t in plain], "commas between thousands"
    elif comma and any("." in t for t in plain) and all(map(POINTS.fullmatch, plain)):
        plain, way = [t.replace(".", "") for t in plain], "points between thousands"
    elif marked or not thousands:  # commas that fit no notation, or both
        return None
    numbers = [float(t) / (100 if percent else 1) for t in plain]
    return numbers, " and ".join([way] * bool(way) + ["percent"] * percent)


def looks_like_number(text: str) -> bool:
    """Whether a text looks like a number, in a clear notation or not.

    >>> [looks_like_number(t) for t in ("1,234", "12.5 %", "1'000", "ward 3", "-")]
    [True, True, True, False, False]
    """
    return NUMBER_LIKE.fullmatch(text) is not None

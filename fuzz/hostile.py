"""Words and values that somebody will type one day."""

from __future__ import annotations

import datetime
from random import Random
from typing import Any

__all__ = ["like", "number", "value", "word"]

# fmt: off
WORDS = [
    "", " ", "  \t", "-", "--", "---", "--help", "-h", "x", "None", "null", "true", "False", "auto", "all", "custom",
    "nan", "-nan", "inf", "-inf", "Infinity", "1e309", "-1e309", "1e-400", "0x10", "1_000", "\uff11\uff12", "²", "½",
    "٣", "1,2", ",", ",,", "1,,2", ":", "a:b:c", "head:", "head:²", "all:0", "head:99999999999999999999", "=", "a=b=c",
    "[/x]", "[bold]", "[link=file:///etc/passwd]x", "[red", "\\[", "[[[[", "]]", "{}", "{0}", "{x!r}", "%s%n", "%(x)s",
    "\x1b[31mred", "\x1b]0;title\x07", "a\nb", "a\rb", "a\tb", "\x7f", "\x01", "\u202egnp.exe", "\ufeff", "\u2028",
    "日本語", "🙂", "é", "e\u0301", "ß" * 50, "\udcff", "a\udcfe.csv", "İ", "ﬀ", "/", "//", ".", "..", "../..", "~",
    "~nobody", "/dev/null", "/dev/full", "/dev/zero", "/proc/self/mem", "/nowhere/x", "a" * 255, "a" * 256, "a" * 5000,
    "a/" * 600, "./" * 50, "x.toml", "x.csv", "nowhere/x.toml", "*.csv", "?", "'", '"', "\\", "$(id)", "`id`", ";",
    "&&", "|", "<script>alert(1)</script>", "</script>", "<!--", "javascript:1", "sqrt(2)", "1+1", "1j", "0.1.2", "1e",
    ".5", "5.", "+5", "--5", "- 5", " 5", "5 ", "0", "-0", "-1", "00012",
]
# fmt: on
# fmt: off
NUMBERS = [
    "0", "1", "2", "3", "7", "-1", "-0.0", "0.5", "0.999999", "1.0", "1.5", "1e-12", "1e-300", "5e-324", "1e3", "1e9",
    "1e30", "1e38", "1e39", "1e300", "1.7976931348623157e308", "255", "256", "1000", "65535", "65536", "1000000",
    "2147483647", "2147483648", "4294967296", "9007199254740993", "9223372036854775807", "9223372036854775808",
    "18446744073709551616", "1" + "0" * 40, "9" * 400, "9" * 5000, "-9223372036854775809", "0.1", "0.3333333333333",
]
# fmt: on
VALUES: list[Any] = [
    *(None, True, False, 0, 1, -1, 2**31, 2**63 - 1, -(2**63), 2**64, 10**30, 10**400, 0.0, -0.0, 0.5, 1e308, 5e-324),
    *(float("nan"), float("inf"), float("-inf"), [], [[]], [1, "a", 2.5], [1, 2, 3], [{}], {}, {"name": 1}, {"": ""}),
    *(
        {"name": []},
        {"a": {"b": {"c": 1}}},
        [[1], [2, 3]],
        "\x00",
        "a\x00b",
        ["a"] * 300,
        {str(i): i for i in range(200)},
    ),
    *(datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 1), datetime.time(1, 2), {"name": "fedrep", "x": 1}),
]


def word(rng: Random) -> str:
    """Text, or a number in digits."""
    if rng.random() < 0.1:
        return "".join(
            chr(rng.choice([rng.randrange(32, 127), rng.randrange(160, 0x2FFF)])) for _ in range(rng.randrange(1, 30))
        )
    return number(rng) if rng.random() < 0.4 else rng.choice(WORDS)


def number(rng: Random) -> str:
    return rng.choice(NUMBERS) if rng.random() < 0.8 else repr(rng.choice([-1, 1]) * 10 ** rng.uniform(-12, 12))


def value(rng: Random, depth: int = 0) -> Any:
    """Anything that a TOML file can hold (and None, which it cannot)."""
    kind = rng.random()
    if kind < 0.5:
        return rng.choice(VALUES)
    if kind < 0.8:
        return rng.choice([word, number])(rng)
    if kind < 0.9 and depth < 3:
        return [value(rng, depth + 1) for _ in range(rng.randrange(4))]
    if depth < 3:
        return {word(rng): value(rng, depth + 1) for _ in range(rng.randrange(4))}
    return rng.randrange(-5, 50)


def like(rng: Random, old: Any) -> Any:
    """A value of the same type, which may be far from what is usual."""
    if isinstance(old, bool):
        return not old
    if isinstance(old, int):
        return rng.choice([0, 1, 2, 3, 5, 40, 1000, 10**6, 2**31, 2**32 + 1, 2**63 - 1])
    if isinstance(old, float):
        return rng.choice([0.0, 1e-300, 1e-12, 0.01, 0.1, 0.5, 0.999, 1.0, 2.0, 1e3, 1e8, 1e30, 1e39, 1e300])
    if isinstance(old, list):
        return rng.choice([[], old[:1], old + old, [like(rng, v) for v in old]])
    return rng.choice(["", "auto", "all", "cpu", "cuda", "mps", "new", "local", "global", word(rng)])

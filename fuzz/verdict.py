"""What every command owes, whatever it was given."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from fuzz.child import Ended

__all__ = ["Case", "broken", "says_damage"]

BUG = "this is a bug"


class Case(NamedTuple):
    """What was tried, how it ended (in a word), and what is wrong with that."""

    what: str
    outcome: str
    wrong: str = ""
    said: str = ""


def broken(ended: Ended, arguments: Sequence[str] = (), endless: bool = False) -> str:
    """Which promise a command broke; nothing if none: it ends, says what is wrong in one line, and JSON is JSON."""
    errors = [line for line in ended.err.splitlines() if line.startswith("error: ")]
    if ended.hung:
        return "hang: Ctrl-C did not end it" if ended.stopped else "hang"
    if "Traceback" in ended.err + ended.out:
        return f"traceback: {_last_line(ended.err or ended.out)}"
    if any(BUG in line for line in errors):
        return f"unexpected: {errors[0]}"
    if ended.code not in (0, 2, 130):
        return f"exit code {ended.code}: {_last_line(ended.err)}"
    if ended.code == 130 and not ended.stopped:
        return "stopped by itself"
    if "\x1b" in ended.out + ended.err:
        return "an escape sequence is printed"
    # a check prints all that it finds, and leaves with 2 if that is bad; no command at all is answered by the help
    shown = "check" in arguments or (not ended.err and "Usage:" in ended.out)
    if ended.code == 2 and not shown and (len(errors) != 1 or ended.err.splitlines()[-1] != errors[0] or ended.out):
        return f"not one line of error: {_last_line(ended.err)}"
    if "--json" in arguments and ended.code == 0 and "--help" not in arguments:
        return _no_json(ended.out)
    return ""


def says_damage(err: str) -> bool:
    """Does a warning tell that a file is not what was written?"""
    words = ("damaged", "cannot be read", "not what was written", "altered", "missing", "lacks", "does not tell")
    return any(word in line for line in err.splitlines() for word in words)


def _no_json(text: str) -> str:
    try:
        found = json.loads(text, parse_constant=_refuse)
    except ValueError as error:
        return f"standard output is not one JSON object: {error}"
    return "" if isinstance(found, dict) else "standard output is JSON, but no object"


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} in it")


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["(nothing was said)"])[-1][:300]

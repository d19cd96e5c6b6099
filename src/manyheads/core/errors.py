"""The error for users, in one form: what, where, given, allowed, fix."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from manyheads.core.words import printable

__all__ = ["Damaged", "Diverged", "InUse", "UserError", "did_you_mean", "first_line", "one_of"]


class UserError(ValueError):
    """An error that the user can correct. Its message is one line.

    >>> print(UserError("participation is out of range", given=2, allowed="0 < r <= 1"))
    participation is out of range; given 2; allowed: 0 < r <= 1
    """

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        given: object = None,
        allowed: str | None = None,
        fix: str | None = None,
    ) -> None:
        parts = [what if where is None else f"{where}: {what}"]
        if given is not None:
            parts.append(f"given {given!r}" if isinstance(given, str) else f"given {given}")
        if allowed is not None:
            parts.append(f"allowed: {allowed}")
        if fix is not None:
            parts.append(fix)
        super().__init__(printable(" ".join("; ".join(parts).split())))


class Damaged(UserError):
    """A file is damaged: its content is not what was written."""


class InUse(UserError):
    """Another process works in the same folder."""


class Diverged(UserError):
    """Training diverged: its numbers are not finite."""


def first_line(error: BaseException) -> str:
    """The first line of the message of another library's error; its type if there is no message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def one_of(kind: str, given: str, allowed: Iterable[str], *, where: str | None = None) -> UserError:
    """The error for a name that is not in a list, with the nearest name that is.

    >>> print(one_of("algorithm", "fedrap", ["fedavg", "fedrep"]))
    unknown algorithm; given 'fedrap'; allowed: fedavg, fedrep; did you mean 'fedrep'?
    """
    names = sorted(allowed)
    fix = did_you_mean(given, names)
    return UserError(f"unknown {kind}", where=where, given=given, allowed=", ".join(names) or "none", fix=fix)


def did_you_mean(given: str, names: Iterable[str]) -> str | None:
    """A question with the nearest of some names, whatever its case; None if none is near.

    >>> did_you_mean("Agee", ["age", "dose"])
    "did you mean 'age'?"
    """
    written = {name.casefold(): name for name in names}
    near = difflib.get_close_matches(given.casefold(), written, n=1, cutoff=0.5)
    return f"did you mean {written[near[0]]!r}?" if near else None

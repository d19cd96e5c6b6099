"""A folder that was written, damaged, and used: the numbers are those of the undamaged one, or the damage is said."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from fuzz.bases import SOUND, TWIN, Bases
from fuzz.child import Ended, command, in_child
from fuzz.damage import damage
from fuzz.verdict import Case, broken, says_damage

__all__ = ["Damaged", "Use", "page", "printed"]

DATA_TOO = 0.04
"""of the cases, those that change the data instead, if the use reads it again"""


class Use(NamedTuple):
    """Something that is done with a folder."""

    name: str
    words: Sequence[str]
    told: Callable[[Path, Ended], Any]
    """the numbers that came of it, from the place and what was printed"""
    writes: bool = False
    """it changes the folder; otherwise it must not"""
    data: str = ""
    """a folder of data that it reads again"""
    act: Callable[[], None] | None = None
    """a function of the package that is called instead of the command"""

    def done(self, place: Path, more: Sequence[str] = ()) -> Ended:
        return in_child(self.act, place) if self.act else command([*self.words, *more], place, still=True)


@dataclass
class Damaged:
    """Cases about one kind of folder."""

    name: str
    folder: str
    beside: Sequence[str]
    """what else its uses need"""
    uses: Sequence[Use]
    expected: dict[str, Any] = field(default_factory=dict)

    def prepare(self, bases: Bases, place: Path) -> None:
        """Make the folder and its twin, and note what each use tells of the sound one."""
        self.bases = bases
        for base in (SOUND, TWIN):
            bases.need(self.folder, *self.beside, base=base)
        for use in self.uses:
            here = place / use.name
            here.mkdir()
            bases.copy(here, self.folder, *self.beside)
            ended = use.done(here)
            wrong = broken(ended, use.words)
            if ended.code or wrong or says_damage(ended.err):  # a word about damage must be one
                raise RuntimeError(f"{use.name} of a sound folder: {wrong or ended.err}")
            self.expected[use.name] = self._told(use, here, ended)

    def attempt(self, rng: Random, place: Path) -> Case:
        use = rng.choice(self.uses)
        self.bases.copy(place, self.folder, *self.beside)
        folder = use.data if use.data and rng.random() < DATA_TOO else self.folder
        what = f"{use.name} after {folder}/{damage(place / folder, self.bases.folder / TWIN / folder, rng)}"
        before = _contents(place / folder)
        ended = use.done(place, more=["--data.path", folder] if folder == use.data else [])
        wrong = broken(ended, use.words)
        if wrong:
            return Case(what, "broken", wrong, ended.err)
        if not use.writes and (changed := _difference(before, _contents(place / folder))):
            return Case(what, "broken", f"reading changed {changed}", ended.err)
        if ended.code:
            return Case(what, "refused", said=ended.err)
        told = self._told(use, place, ended)
        if told == self.expected[use.name]:
            return Case(what, "told" if says_damage(ended.err) else "same", said=ended.err)
        if says_damage(ended.err):
            return Case(what, "told", said=ended.err)
        return Case(
            what, "broken", f"silent wrong number: {first_difference(self.expected[use.name], told)}", ended.err
        )

    def _told(self, use: Use, place: Path, ended: Ended) -> Any:
        """The numbers of a use, with one name for all places."""
        text = json.dumps(use.told(place, ended))
        for path in (place, self.bases.folder / SOUND):
            text = text.replace(str(path), "PLACE")
        return json.loads(text)


def _contents(folder: Path) -> dict[str, str]:
    """Every file with a hash; what a use adds to a folder is no harm."""
    files = (p for p in sorted(folder.rglob("*")) if p.is_file() and p.name not in ("report.html", ".lock"))
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def _difference(before: dict[str, str], after: dict[str, str]) -> str:
    return next((name for name in before.keys() | after.keys() if before.get(name) != after.get(name)), "")


def first_difference(expected: Any, told: Any, path: str = "") -> str:
    """Where two nested values differ first."""
    if isinstance(expected, dict) and isinstance(told, dict):
        keys = [k for k in {**expected, **told} if expected.get(k) != told.get(k)]
        return first_difference(expected.get(keys[0]), told.get(keys[0]), f"{path}.{keys[0]}")
    if isinstance(expected, list) and isinstance(told, list) and len(expected) == len(told):
        at = next(i for i, (a, b) in enumerate(zip(expected, told, strict=True)) if a != b)
        return first_difference(expected[at], told[at], f"{path}[{at}]")
    if isinstance(expected, str) and isinstance(told, str):
        at = next(
            (i for i, (a, b) in enumerate(zip(expected, told, strict=False)) if a != b), min(len(expected), len(told))
        )
        return f"{path} at {at}: {expected[max(at - 30, 0) : at + 30]!r} became {told[max(at - 30, 0) : at + 30]!r}"
    return f"{path}: {str(expected)[:80]} became {str(told)[:80]}"


def printed(place: Path, ended: Ended) -> Any:
    """What a command printed as JSON."""
    return json.loads(ended.out)


def page(folder: str) -> Callable[[Path, Ended], Any]:
    """The text of the report in a folder, without the command that repeats it."""

    def text(place: Path, ended: Ended) -> Any:
        whole = (place / folder / "report.html").read_text(encoding="utf-8")
        return re.sub(r"manyheads compare .*?</pre>", "", whole)

    return text

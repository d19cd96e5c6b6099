"""Command lines: any command with any of its flags, and values that fit them or do not."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from random import Random
from typing import Any

import click

from fuzz import hostile
from fuzz.bases import PARTS, SEARCH, Bases
from fuzz.child import command
from fuzz.verdict import Case, broken

__all__ = ["LINES", "long"]

ENDLESS = {"live", "theory", "reproduce", "--live"}
"""commands that serve until they are stopped, or whose usual settings take long"""
SMALL = {
    "run": ["--clients", "3", "--rounds", "1", "--workers", "1"],
    "compare": [
        *("--clients", "3", "--rounds", "1", "--workers", "1"),
        *("--seeds", "1", "--rates", "0.1", "--folds", "1", "--local-rounds", "1", "--baselines", "majority"),
    ],
    "tune": [
        *("--clients", "3", "--rounds", "1", "--workers", "1"),
        *("--seeds", "1", "--rates", "0.1", "--search", SEARCH, "--local-rounds", "1"),
    ],
}
PATHS = [
    "clinics",
    "clinics/site0.csv",
    "run",
    "run/config.toml",
    "comparison",
    "search",
    "model",
    "new.csv",
    "own.toml",
    "empty",
    "nowhere",
]

OWN = 'rounds = 1\nclients = 3\n[engine]\nworkers = 1\n[algorithm]\nname = "fedrep"\n'


def long(words: list[str]) -> bool:
    """Was work asked for that may take any time?"""
    return any(w in ENDLESS or re.search(r"[1-9][\d_]{2}|e\+?\d{1,3}\b", w) for w in words)


class Lines:
    """Made of what the application itself says of its commands, so that no flag is forgotten."""

    name = "lines"

    def prepare(self, bases: Bases, place: Path) -> None:
        """A user's folder, with a little of everything."""
        self.bases = bases
        bases.need(*PARTS)

    def attempt(self, rng: Random, place: Path) -> Case:
        self.bases.copy(place, *PARTS)
        (place / "own.toml").write_text(OWN)
        (place / "empty").mkdir()
        words = self._line(rng)
        endless = long(words)
        full = rng.random() < 0.02
        ended = command(words, place, endless=endless, stdout="/dev/full" if full else "")
        what = f"manyheads {shlex.join(words)}" + " > /dev/full" * full
        outcome = {0: "done", 2: "refused", 130: "stopped"}.get(ended.code, "broken")
        wrong = broken(ended, words)
        return Case(what[:2000], "broken" if wrong else outcome, wrong, ended.out[-2000:] + ended.err)

    def _line(self, rng: Random) -> list[str]:
        from manyheads.core.contract import ALGORITHMS
        from manyheads.data import SOURCES
        from manyheads.models import MODELS
        from manyheads.theory import PAPERS

        path = rng.choice(_commands())
        named: list[str] = []
        if path[0] in ("run", "compare", "tune") or path[-1] == "describe":
            if rng.random() < 0.8:
                named += [
                    "--data",
                    rng.choice(["digits", "linear-tasks", "clinics"] if rng.random() < 0.8 else [*SOURCES]),
                ]
            if path[0] != "data" and rng.random() < 0.5:
                named += ["--model", rng.choice([*MODELS])]
            if path[0] == "run":
                named += ["--algorithm", rng.choice([*ALGORITHMS])]
        if path[0] == "theory":
            named = [rng.choice([*PAPERS])]
        if path[0] == "tune":
            named = [rng.choice([*ALGORITHMS, "fedavg+ft"]), *named]
        options, arguments = _parameters(path, named)
        words = [*path, *named]
        if path[0] not in ("theory", "tune"):
            words += [self._argument(rng) for a in arguments if a.required or rng.random() < 0.4]
        words += SMALL.get(path[0], [])
        for option in rng.sample(options, min(len(options), rng.choice([0, 1, 1, 2, 3, 6]))):
            words += _given(option, rng)
        return self._slips(words, rng)

    def _argument(self, rng: Random) -> str:
        return rng.choice(PATHS) if rng.random() < 0.7 else hostile.word(rng)

    def _slips(self, words: list[str], rng: Random) -> list[str]:
        """What typing does to a line: mostly nothing."""
        if rng.random() < 0.25:
            at = rng.randrange(1, len(words) + 1)
            slip = rng.choice(["drop", "double", "add", "spell", "flag"])
            if slip == "drop" and at < len(words):
                del words[at]
            elif slip == "double":
                words.insert(at, words[rng.randrange(len(words))])
            elif slip == "add":
                words.insert(at, hostile.word(rng))
            elif slip == "spell" and at < len(words):
                words[at] = words[at][::-1]
            elif slip == "flag":
                words.insert(at, "--" + hostile.word(rng))
        if rng.random() < 0.5 and "--json" not in words:
            words.append("--json")
        return words


def _commands(group: Any = None, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """All commands of the application, those below others too."""
    group = group or _app([])
    if not hasattr(group, "commands"):
        return [path]
    return [found for name, below in group.commands.items() for found in _commands(below, (*path, name))]


def _app(words: list[str]) -> Any:
    import typer

    from manyheads.cli.app import app_for

    return typer.main.get_command(app_for(words))


def _parameters(path: tuple[str, ...], named: list[str]) -> tuple[list[Any], list[Any]]:
    """The options and the arguments of a command whose data, model and method are named."""
    found = _app([*path, *named])
    for name in path:
        found = found.commands[name]
    slow = "--engine.executor"  # starts Ray, which has tests of its own
    options = [p for p in found.params if p.param_type_name == "option" and slow not in p.opts]
    return options, [p for p in found.params if p.param_type_name == "argument"]


def _given(option: Any, rng: Random) -> list[str]:
    """An option with a value that fits it, or does not."""
    flag = rng.choice(option.opts)
    if option.is_flag:
        return [flag]
    shown = option.metavar or _metavar(option)
    kind = rng.random()
    if kind < 0.35:
        value = hostile.word(rng)
    elif "|" in shown:
        value = rng.choice(shown.split("|"))
    elif shown in ("INTEGER", "NUMBER"):
        value = rng.choice(["0", "1", "2", "3", "0.5", "0.1", "8"]) if kind < 0.75 else hostile.number(rng)
    elif shown == "A,B,...":
        value = ",".join(
            rng.choice(["1", "8", "0.1", "age", "fedavg", "cka", hostile.word(rng)]) for _ in range(rng.randrange(1, 4))
        )
    else:
        value = rng.choice(
            ["iid", "classes:2", "dirichlet:0.5", "head:1", "all:1step", "label", "out", "page.html", *PATHS]
        )
    return [f"{flag}={value}"] if rng.random() < 0.3 else [flag, value]


def _metavar(option: Any) -> str:
    """What kind of value an option takes that does not say so."""
    if isinstance(option.type, click.Choice):
        return "|".join(map(str, option.type.choices))
    return {"integer": "INTEGER", "integer range": "INTEGER", "float": "NUMBER"}.get(option.type.name, "TEXT")


LINES = Lines()

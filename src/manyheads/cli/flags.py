"""Command-line flags made from settings, so that a field is named, documented and checked in one place."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import typer

from manyheads.core.settings import Setting, walk

__all__ = ["Flag", "collect", "flags_of", "given_name", "given_position", "with_flags"]

SWITCHES = {"--resume", "--live", "--json", "--debug", "--version", "--help"}
"""options without a value"""
LONGEST = 16
"""characters of the choices beside a flag; more would leave no room for its name, so they follow its help"""


class Flag(NamedTuple):
    """A command-line option, and the path of its value in the configuration."""

    path: tuple[str, ...]
    option: str
    help: Callable[[], str]
    """makes the text, which is slow: it is read from the source"""
    kind: Any
    panel: str

    @property
    def parameter(self) -> str:
        return "__".join(self.path)


def flags_of(
    cls: type, panel: str, prefix: tuple[str, ...] = (), names: Mapping[tuple[str, ...], str] | None = None
) -> list[Flag]:
    """Return a flag for every leaf of a settings class: ``--prefix.field-name``, or its spelling in ``names``."""
    flags = []
    for setting in walk(cls):
        path = prefix + setting.path
        option = (names or {}).get(path) or "--" + ".".join(path).replace("_", "-")
        flags.append(Flag(path, option, partial(_help, setting), setting.type, panel))
    return flags


def _help(setting: Setting) -> str:
    shown = setting.default
    if isinstance(shown, tuple):
        shown = ",".join(map(str, shown))
    elif isinstance(shown, dict):
        shown = shown.get("name")
    doc = " ".join(setting.doc.split())
    if _metavar(setting.type) == "CHOICE":
        doc = f"{doc}: {', '.join(map(str, get_args(setting.type)))}"
    return rf"{doc}  \[default: {shown}]" if shown not in ("", None) else doc


def _metavar(kind: Any) -> str:
    if get_origin(kind) is Literal:
        choices = "|".join(map(str, get_args(kind)))
        return choices if len(choices) <= LONGEST else "CHOICE"
    if get_origin(kind) is tuple:
        return "A,B,..."
    if get_origin(kind) in (UnionType, Union):  # int | None
        kind = next(k for k in get_args(kind) if k is not type(None))
    kind = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    return {int: "INTEGER", float: "NUMBER", bool: "true|false"}.get(kind, "TEXT")


def with_flags(function: Callable[..., Any], flags: Iterable[Flag], arguments: Sequence[str]) -> Callable[..., Any]:
    """Wrap ``function(..., flags: dict)`` as a function with one option per flag, None by default, for typer.

    Options are described only if the arguments ask for help.
    """
    helped = "--help" in arguments

    def call(**values: Any) -> Any:
        found = {f.parameter: values.pop(f.parameter) for f in chosen}
        return function(**values, flags=collect(chosen, found))

    chosen = list(flags)
    fixed = [p for p in inspect.signature(function, eval_str=True).parameters.values() if p.name != "flags"]
    made = [
        inspect.Parameter(
            flag.parameter,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[
                str | None,
                typer.Option(
                    flag.option,
                    help=flag.help() if helped else "",
                    metavar=_metavar(flag.kind),
                    rich_help_panel=flag.panel,
                    show_default=False,
                ),
            ],
        )
        for flag in chosen
    ]
    call.__signature__ = inspect.Signature([*fixed, *made])  # type: ignore[attr-defined]
    call.__annotations__ = {p.name: p.annotation for p in [*fixed, *made]}
    call.__name__, call.__doc__ = function.__name__, function.__doc__
    return call


def collect(flags: Sequence[Flag], values: Mapping[str, str | None]) -> dict[str, Any]:
    """Return the values of the flags that were given, as a nested table."""
    table: dict[str, Any] = {}
    for flag in flags:
        value = values[flag.parameter]
        if value is None:
            continue
        place = table
        for key in flag.path[:-1]:
            place = place.setdefault(key, {})
        place[flag.path[-1]] = value.split(",") if get_origin(flag.kind) is tuple else value
    return table


def given_name(arguments: Sequence[str], option: str) -> str | None:
    """Return an option's value from unparsed arguments; some values decide which other flags exist."""
    found = None  # the last occurrence counts, as in the parser
    for position, argument in enumerate(arguments):
        if argument == option and position + 1 < len(arguments):
            found = arguments[position + 1]
        elif argument.startswith(f"{option}="):
            found = argument.partition("=")[2]
    return found


def given_position(arguments: Sequence[str], number: int = 1) -> str | None:
    """Return a positional argument after the command, by default the first, from unparsed arguments."""
    words, value = [], False
    for argument in arguments:
        option = argument.startswith("--")
        if not value and not option:
            words.append(argument)
        value = not value and option and "=" not in argument and argument not in SWITCHES
    return words[number] if len(words) > number else None

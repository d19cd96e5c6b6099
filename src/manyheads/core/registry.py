"""Things by name: ours, a user's own, and those of other installed packages."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Generic, TypeVar

from manyheads.core.errors import UserError, first_line, one_of

__all__ = ["Registry", "import_path"]

T = TypeVar("T")


class Registry(Generic[T]):
    """Classes (or objects) of one kind, by their ``name``.

    A package that declares an entry point in the group ``manyheads.<kind>s`` is found by the entry point's name, and
    anything that can be imported by ``package.module:Name``. ``check`` refuses a thing that lacks what the kind needs.

    >>> colours = Registry[type]("colour")
    >>> @colours.register
    ... class Red:
    ...     name = "red"
    >>> colours.find("red").__name__, "blue" in colours
    ('Red', False)
    """

    def __init__(self, kind: str, check: Callable[[Any], None] = lambda thing: None) -> None:
        self.kind, self._check = kind, check
        self._known: dict[str, T] = {}

    def register(self, thing: Any) -> Any:
        """Make a thing known by its name; usable as a decorator. The same class, defined again, takes its own place."""
        name = getattr(thing, "name", None)
        if not isinstance(name, str) or not name:
            raise UserError(f"{import_path(thing)} has no name", where=self.kind, fix="declare one: name = '...'")
        self._check(thing)
        before = self._known.get(name)
        if before is not None and import_path(before) != import_path(thing):
            raise UserError(
                f"there is another {self.kind} of that name: {import_path(before)}",
                where=self.kind,
                given=name,
                fix=f"give {import_path(thing)} another name",
            )
        self._known[name] = thing
        return thing

    def find(self, name: str, where: str | None = None) -> T:
        """The thing of that name, or the one at ``package.module:Name``."""
        if ":" in name:
            return self._imported(name, where)
        if name not in self._known:
            for entry in entry_points(group=self.group, name=name):
                self._add(self._loaded(entry.load, f"{entry.value} of {entry.dist.name if entry.dist else '?'}"), name)
        if name not in self._known:
            raise one_of(self.kind, name, self, where=where)
        return self._known[name]

    @property
    def group(self) -> str:
        """The group of entry points in which other packages declare such things."""
        return f"manyheads.{self.kind}s"

    def __iter__(self) -> Iterator[str]:
        """All names, those of other installed packages included."""
        return iter(sorted({*self._known, *(entry.name for entry in entry_points(group=self.group))}))

    def __contains__(self, name: object) -> bool:
        return name in self._known or any(entry.name == name for entry in entry_points(group=self.group))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def _imported(self, path: str, where: str | None) -> T:
        module, _, attribute = path.partition(":")
        here = str(Path.cwd())
        if here not in sys.path:
            sys.path.append(here)  # last, so that it hides nothing
        thing = self._loaded(lambda: getattr(importlib.import_module(module), attribute), path, where)
        return self._add(thing)

    def _loaded(self, load: Callable[[], Any], path: str, where: str | None = None) -> Any:
        try:
            return load()
        except Exception as error:
            raise UserError(
                f"cannot import the {self.kind} {path}: {first_line(error)}",
                where=where,
                fix="it is looked for on the Python path and in the current folder, as package.module:Name",
            ) from error

    def _add(self, thing: Any, name: str | None = None) -> T:
        found = getattr(thing, "name", None)
        if name is not None and found != name:
            raise UserError(f"the entry point {name!r} of {self.group} gives a {self.kind} named {found!r}")
        if self._known.get(str(found)) is not thing:
            self.register(thing)
        return self._known[str(found)]


def import_path(thing: Any) -> str:
    """``package.module:Name`` of a class, or of an object's class."""
    cls = thing if isinstance(thing, type) else type(thing)
    return f"{cls.__module__}:{cls.__qualname__}"

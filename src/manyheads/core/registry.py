"""Classes by name: those of this package, of the user, and of other installed packages."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from manyheads.core.errors import UserError, first_line, one_of

__all__ = ["Registry", "check_declared", "import_path", "is_import_path", "is_ours", "not_imported"]

T = TypeVar("T")
NAME = re.compile(r"[A-Za-z0-9][\w.-]*")
"""valid names, which are used on the command line, as TOML keys and in folder names"""
RESERVED = {"all", "custom"}
"""reserved words, which have another meaning in place of a name"""
_IMPORT_PATH = re.compile(r"(?P<module>[A-Za-z_]\w*(\.[A-Za-z_]\w*)*|.+\.py):(?P<name>[A-Za-z_]\w*(\.[A-Za-z_]\w*)*)")


class Registry(Mapping[str, T]):
    """Classes of one kind, by their ``name``.

    Classes that other packages declare as entry points in the ``group`` are found by the entry point's name. ``check``
    raises an error for a class that lacks what the kind needs.

    >>> colours = Registry[type]("colour")
    >>> @colours.register
    ... class Red:
    ...     name = "red"
    >>> colours.find("red").__name__, "blue" in colours
    ('Red', False)
    """

    def __init__(self, kind: str, check: Callable[[Any], None] = lambda thing: None, group: str | None = None) -> None:
        self.kind, self._check = kind, check
        self.group = group or f"manyheads.{kind}s"
        """the group of entry points in which other packages declare such classes"""
        self._known: dict[str, T] = {}

    def register(self, thing: Any) -> Any:
        """Make a class known by its name; usable as a decorator. The same class, defined again, replaces itself."""
        name, path = getattr(thing, "name", None), import_path(thing)
        if not isinstance(name, str) or not NAME.fullmatch(name) or name in RESERVED:
            what = f"{path} has no name" if name is None else f"{path} has a name that cannot be used"
            allowed = f"letters, digits and . _ -, but not {' or '.join(sorted(RESERVED))}"
            raise UserError(what, where=self.kind, given=name, allowed=allowed, fix="declare one: name = '...'")
        self._check(thing)
        before = self._known.get(name)
        if before is not None and import_path(before) != path:
            raise UserError(
                f"there is another {self.kind} of that name: {import_path(before)}",
                where=self.kind,
                given=name,
                fix=f"give {path} another name",
            )
        self._known[name] = thing
        return thing

    def find(self, name: str, where: str | None = None, path: str | None = None) -> T:
        """The class of that name. Only entry points of installed packages are imported, nothing else.

        ``path`` is the import path that was saved with the name; the error for an unknown name tells to import it.
        """
        if self.knows(name, path):
            return self[name]
        if path:
            raise not_imported([(self.kind, name, path)], where)
        if is_import_path(name):
            raise UserError(
                f"no {self.kind} is imported because a file, or another program, names it",
                where=where,
                given=name,
                fix=f"in Python: import {name.partition(':')[0]} and use its name; on the command line: --{self.kind} {name}",
            )
        raise one_of(self.kind, name, self, where=where)

    def knows(self, name: str, path: str | None = None) -> bool:
        """Whether the name is registered; with ``path``, a class of this package at another path does not count."""
        return name in self and not (path and is_ours(self[name]) and import_path(self[name]) != path)

    def imported(self, given: str, where: str | None = None) -> T:
        """The class that a user named, or gave as ``package.module:Name`` or ``file.py:Name``, which is imported."""
        found = _IMPORT_PATH.fullmatch(given)
        if given in self or not found:
            return self.find(given, where)
        return self._add(self._loaded(lambda: attrgetter(found["name"])(_module(found["module"])), given, where))

    def usable(self, say: Callable[[str], None]) -> dict[str, T]:
        """All classes by name, except entry points that cannot be imported, about which ``say`` is called."""
        found: dict[str, T] = {}
        for name in self:
            try:
                found[name] = self[name]
            except UserError as error:
                say(str(error))
        return found

    def __getitem__(self, name: str) -> T:
        if name not in self._known:
            for entry in self._declared().get(name, ()):
                self._add(self._loaded(entry.load, f"{entry.value} of {entry.dist.name if entry.dist else '?'}"), name)
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        """All names, those of other installed packages included."""
        return iter(sorted({*self._known, *self._declared()}))

    def __contains__(self, name: object) -> bool:
        return name in self._known or name in self._declared()

    def __len__(self) -> int:
        return len(list(iter(self)))

    def _declared(self) -> dict[str, list[EntryPoint]]:
        return _entry_points(self.group, tuple(sys.path))

    def _loaded(self, load: Callable[[], Any], path: str, where: str | None = None) -> Any:
        try:
            return load()
        except UserError:  # already explains what is wrong
            raise
        except (Exception, SystemExit) as error:
            raise UserError(
                f"cannot import the {self.kind} {path}: {first_line(error)}",
                where=where,
                fix="it is looked for on the Python path and in the current folder, as package.module:Name",
            ) from error

    def _add(self, thing: Any, name: str | None = None) -> T:
        found = getattr(thing, "name", None)
        if name is not None and found != name:
            raise UserError(f"the entry point {name!r} of {self.group} gives something named {found!r}")
        if self._known.get(str(found)) is not thing:
            self.register(thing)
        return self._known[str(found)]


@cache
def _entry_points(group: str, path: tuple[str, ...]) -> dict[str, list[EntryPoint]]:
    """The entry points in a group, by name; cached by the Python path, since a search takes milliseconds."""
    found: dict[str, list[EntryPoint]] = {}
    for entry in entry_points(group=group):
        found.setdefault(entry.name, []).append(entry)
    return found


def check_declared(
    thing: Any, *, base: type | None = None, attributes: Iterable[str] = (), methods: Iterable[str] = ()
) -> None:
    """Raise an error, listing what is missing, unless this is a settings class with these attributes and methods."""
    path = import_path(thing)
    if not isinstance(thing, type) or (base and not issubclass(thing, base)):
        raise UserError(
            f"{path} is no {base.__name__ if base else 'class'}",
            fix=f"class {path.rpartition(':')[2]}({base.__name__}): ..." if base else None,
        )
    lacking = [f"{name} = ..." for name in attributes if getattr(thing, name, None) is None]
    lacking += [f"{name}()" for name in methods if getattr(thing, name, None) is getattr(base, name, None)]
    if "__pydantic_fields__" not in vars(thing):
        lacking.append("@settings (manyheads.settings) on the class, below @register")
    if lacking:
        raise UserError(f"{path} lacks {', '.join(lacking)}")


def not_imported(missing: Sequence[tuple[str, str, str]], where: str | None, flags: str = "") -> UserError:
    """The error for classes (kind, name and import path) that a result was made with but that are not imported now."""
    things = ", ".join(f"the {kind} {name!r} ({path})" for kind, name, path in missing)
    modules = list(dict.fromkeys(path.partition(":")[0] for _, _, path in missing))
    flags = flags or " ".join(f"--{kind} {path}" for kind, _, path in missing)
    fix = f"in Python: import {', '.join(modules)}, with @register on the class; on the command line: {flags}"
    if "__main__" in modules:
        fix = "define and register it again, as that script did"
    return UserError(f"made with {things}, not imported here", where=where, fix=fix)


def import_path(thing: Any) -> str:
    """``package.module:Name`` of a class, or of an object's class."""
    cls = thing if isinstance(thing, type) else type(thing)
    return f"{cls.__module__}:{cls.__qualname__}"


def is_import_path(text: str) -> bool:
    """Whether a text has the form ``package.module:Name`` or ``file.py:Name``."""
    return _IMPORT_PATH.fullmatch(text) is not None


def is_ours(thing: Any) -> bool:
    """Whether a class, or an object's class, is part of this package."""
    return import_path(thing).startswith("manyheads.")


def _module(name: str) -> ModuleType:
    """The module of that name, which may be in the current folder, or the module in a file of that name."""
    file = Path(name).resolve() if name.endswith(".py") else None
    if file and not file.is_file():
        raise UserError(f"no such file: {name}")
    folder = str(file.parent if file else Path.cwd())
    if folder not in sys.path:
        sys.path.append(folder)  # last, so that it shadows no other module
    found = importlib.import_module(file.stem if file else name)
    if file and Path(str(found.__file__)).resolve() != file:
        raise UserError(f"{file.stem} is also the name of {found.__file__}", fix=f"give {name} another name")
    return found

"""Settings: frozen dataclasses whose fields are checked, documented once, and become TOML keys and command-line flags.

A string below a field is its documentation, shown by ``--help``. Values are checked on construction, whether they come
from Python, a TOML file or a flag, and a wrong one is a :class:`UserError` in the usual form.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from textwrap import dedent
from types import UnionType
from typing import Any, NamedTuple, TypeVar, Union, cast, dataclass_transform, get_args, get_origin

import pydantic
from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from manyheads.core.errors import UserError, one_of

__all__ = ["Setting", "as_dict", "build", "changed", "other_than", "settings", "walk"]

T = TypeVar("T")
_CONFIG = ConfigDict(extra="forbid", allow_inf_nan=False)


@dataclass_transform(frozen_default=True)
def settings(cls: type[T]) -> type[T]:
    """Make a class a frozen, checked dataclass."""
    made: Any = pydantic.dataclasses.dataclass(frozen=True, config=_CONFIG)(cls)
    checked_init: Callable[..., None] = made.__init__

    def init(self: T, *args: Any, **values: Any) -> None:
        try:
            checked_init(self, *args, **values)
        except ValidationError as error:
            raise _user_error(made, error, where=made.__name__) from None

    made.__init__ = init
    return cast("type[T]", made)


def build(cls: type[T], values: Mapping[str, Any], *, where: str) -> T:
    """Settings from a mapping, as read from TOML or flags; ``where`` names it in errors."""
    if not isinstance(values, Mapping):  # a file may hold any other value in its place
        raise UserError("bad value", where=where, given=values, allowed="a table of settings")
    try:
        return TypeAdapter(cls).validate_python(dict(values))
    except ValidationError as error:
        raise _user_error(cls, error, where=where) from None


def as_dict(value: Any) -> dict[str, Any]:
    """Settings as plain values that TOML and JSON can hold; fields that are None are left out."""
    plain = TypeAdapter(type(value)).dump_python(value, mode="json", exclude_none=True)
    return cast("dict[str, Any]", plain)


def changed(value: T, values: Mapping[str, Any]) -> T:
    """A copy with other values for some settings, nested ones by their path.

    >>> from manyheads.core.optim import FineTune
    >>> changed(FineTune(), {"lr": 0.5}).lr
    0.5
    """
    for path, new in values.items():
        first, _, rest = path.partition(".")
        value = dataclasses.replace(value, **{first: changed(getattr(value, first), {rest: new}) if rest else new})  # type: ignore[type-var]
    return value


def other_than(usual: Mapping[str, Any], table: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a table that differ from the usual ones; of nested settings, these.

    A nested table with other keys is one of another kind, and whole.

    >>> other_than({"lr": 0.1, "evaluate": {"every": 1, "who": "all"}}, {"lr": 0.1, "evaluate": {"every": 5, "who": "all"}})
    {'evaluate': {'every': 5}}
    """
    found = {}
    for key, value in table.items():
        before = usual.get(key)
        if isinstance(value, dict) and isinstance(before, dict) and value.keys() == before.keys():
            value = other_than(before, value)
        if value not in (before, {}):
            found[key] = value
    return found


class Setting(NamedTuple):
    """One leaf field of a settings class, found by :func:`walk`."""

    path: tuple[str, ...]
    type: Any
    default: Any
    owner: Any
    """the class whose field it is"""

    @property
    def doc(self) -> str:
        """The field's documentation: slow, as it is read from the source."""
        return _doc(self.owner, self.path[-1])


def walk(cls: type, path: tuple[str, ...] = (), defaults: object = None) -> Iterable[Setting]:
    """Every leaf field of a settings class, nested ones with their path.

    >>> from manyheads.core.optim import SGD
    >>> [".".join(s.path) for s in walk(SGD)]
    ['lr', 'momentum', 'weight_decay']
    """
    for name, info in _fields(cls).items():
        usual = None if info.is_required() else info.get_default(call_default_factory=True)
        default = getattr(defaults, name, usual)
        inside = _nested(info.annotation)
        if isinstance(inside, type) and dataclasses.is_dataclass(inside):
            yield from walk(inside, (*path, name), default)
        else:
            yield Setting((*path, name), info.annotation, default, cls)


def _nested(annotation: Any) -> Any:
    """The type of a field, without the None of a field that may be left out."""
    members = [member for member in get_args(annotation) if member is not type(None)]
    optional = get_origin(annotation) in (Union, UnionType) and len(members) == 1
    return members[0] if optional else annotation


def _fields(cls: Any) -> dict[str, FieldInfo]:
    return cls.__pydantic_fields__


def _doc(cls: type, name: str) -> str:
    """The string below a field in the nearest class that has one, or else the documentation of its type."""
    below = next((docs[name] for base in cls.__mro__ if name in (docs := _docs(base))), None)
    return below or _fields(cls)[name].description or ""


@cache
def _docs(cls: type) -> dict[str, str]:
    """The strings below a class's own fields; read from its source at the first call only, since that is slow."""
    try:
        (tree,) = ast.parse(dedent(inspect.getsource(cls))).body
    except (OSError, TypeError, SyntaxError):  # a builtin, or a class without source code
        return {}
    found = {}
    for field, below in pairwise(tree.body if isinstance(tree, ast.ClassDef) else ()):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found[name] = inspect.cleandoc(text)
    return found


def _user_error(cls: type, error: ValidationError, *, where: str) -> UserError:
    first = error.errors()[0]
    spot = _spot(cls, first["loc"])
    if first["type"] == "unexpected_keyword_argument":
        owner = _field_owner(cls, spot)
        names = [f.name for f in dataclasses.fields(owner)]
        return one_of("setting", str(first["loc"][-1]), names, where=".".join([where, *spot]))
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, UserError):
        return UserError(str(cause), where=where)
    if first["type"].startswith("missing"):
        return UserError("a value is missing", where=".".join([where, *spot]))
    what = first["msg"].removeprefix("Input should be ").removeprefix("Value error, ")
    return UserError("bad value", where=".".join([where, *spot]), given=first["input"], allowed=what)


def _spot(cls: Any, path: Sequence[int | str]) -> list[str]:
    """The part of an error's path that names fields and list positions, without the union members that follow."""
    spot: list[str] = []
    for name in path:
        known = dataclasses.is_dataclass(cls) and name in _fields(cls)
        if not known and not isinstance(name, int):
            break
        spot.append(str(name))
        cls = _nested(_fields(cls)[str(name)].annotation) if known else None
    return spot


def _field_owner(cls: Any, path: list[str]) -> Any:
    for name in path:
        cls = _nested(_fields(cls)[name].annotation)
    return cls

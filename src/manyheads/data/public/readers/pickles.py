"""Pickled arrays, read safely: an interpreter of the few pickle operations that arrays need.

A file cannot call any function. An array is made from its bytes here, after a check that its type (of numbers only),
shape and length fit.
"""

from __future__ import annotations

import math
import pickletools
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from manyheads.core.errors import UserError
from manyheads.data.content import content

__all__ = ["read_pickled_arrays"]

_NUMBERS = re.compile(r"[iuf][1248]|b1")


class _Global(NamedTuple):
    """A function or class that a pickle names."""

    module: str
    name: str


_NDARRAY, _DTYPE, _ENCODE = _Global("numpy", "ndarray"), _Global("numpy", "dtype"), _Global("_codecs", "encode")
_ARRAY = {_Global(f"numpy.{core}.multiarray", "_reconstruct") for core in ("core", "_core")}
_SCALAR = {_Global(f"numpy.{core}.multiarray", "scalar") for core in ("core", "_core")}
_BUFFER = {_Global(f"numpy.{core}.numeric", "_frombuffer") for core in ("core", "_core")}
ALLOWED = {_NDARRAY, _DTYPE, _ENCODE} | _ARRAY | _SCALAR | _BUFFER
"""names in pickles of numpy arrays and numbers; lists, dicts, text and Python's numbers need none"""


@dataclass
class _Begun:
    """An array or dtype whose state comes with a later BUILD operation."""

    code: str = ""
    """of a dtype; empty for an array"""
    keys: list[int] = field(default_factory=list)
    """its places in the memo, to be replaced by the finished object"""


class _Refused(Exception):
    """Something that a pickle of arrays does not contain."""


def read_pickled_arrays(path: Path) -> Any:
    """The content of a pickle of arrays, lists and dicts; any other pickle is refused."""
    raw = content(path)
    try:
        return _Interpreter(path).run(raw)
    except UserError:
        raise
    except Exception as error:  # a broken pickle may fail in any way
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise UserError(f"{path} is not a readable pickle: {reason}", fix="download it again") from None


class _Interpreter:
    """The format's stack machine, without the operations that could run code."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}

    def run(self, raw: bytes) -> Any:
        for operation, argument, _ in pickletools.genops(raw):
            if operation.name == "STOP":
                (result,) = self.stack
                return result
            if operation.name in _CONSTANTS:
                self.stack.append(_CONSTANTS[operation.name](argument))
            elif operation.name in _OPERATIONS:
                _OPERATIONS[operation.name](self, argument)
            elif operation.name not in ("PROTO", "FRAME"):
                raise _Refused(f"it holds the operation {operation.name}, which arrays do not need")
        raise _Refused("it has no end")

    def pop_mark(self) -> list[Any]:
        if not self.marks or len(self.stack) < self.marks[-1]:
            raise _Refused("it takes from an empty stack")
        return self.take(len(self.stack) - self.marks.pop())

    def take(self, count: int) -> list[Any]:
        if len(self.stack) < count:
            raise _Refused("it takes from an empty stack")
        cut = len(self.stack) - count
        items = self.stack[cut:]
        del self.stack[cut:]
        return items

    def ask(self, module: Any, name: Any) -> None:
        wanted = _Global(_text(module), _text(name))
        if wanted not in ALLOWED:
            raise UserError(
                f"{self.path} is refused: its pickle asks for {wanted.module}.{wanted.name}",
                allowed="numpy arrays, lists and dicts",
                fix="nothing of it was run; fetch the file from the dataset's own page, or use the binary version",
            )
        self.stack.append(wanted)

    def put(self, key: int) -> None:
        self.memo[key] = self.stack[-1]
        if isinstance(self.stack[-1], _Begun):
            self.stack[-1].keys.append(key)

    def add(self, items: list[Any]) -> None:
        if not isinstance(self.stack[-1], list):
            raise _Refused("it appends to something that is not a list")
        self.stack[-1].extend(items)

    def make_dict(self, items: list[Any]) -> None:
        self.stack.append({})
        self.fill(items)

    def fill(self, items: list[Any]) -> None:
        keys, values = items[::2], items[1::2]
        if not isinstance(self.stack[-1], dict) or not all(type(k) in (str, bytes) for k in keys):
            raise _Refused("it has a dict whose keys are not text")
        self.stack[-1].update(zip(keys, values, strict=True))

    def reduce(self) -> None:
        function, arguments = self.take(2)
        if type(arguments) is not tuple:
            raise _Refused("it calls without arguments")
        self.stack.append(_made(function, arguments))

    def build(self) -> None:
        (state,) = self.take(1)
        begun = self.stack.pop()
        if not isinstance(begun, _Begun) or type(state) is not tuple:
            raise _Refused("it sets the state of something that is not an array")
        done = _dtype(begun.code, state) if begun.code else _array(*_five(state))
        for key in begun.keys:
            self.memo[key] = done
        self.stack.append(done)


def _made(function: Any, arguments: tuple[Any, ...]) -> Any:
    """The result of calling an allowed name."""
    match arguments:
        case (text, codec) if function == _ENCODE and type(text) is str:
            if _text(codec) != "latin1":  # how protocols before 3 store bytes
                raise _Refused(f"codec {_text(codec)!r}")
            return text.encode("latin1")
        case (kind, tuple(), _) if function in _ARRAY and kind == _NDARRAY:
            return _Begun()
        case (code, 0 | 1, 0 | 1) if function == _DTYPE:
            if not _NUMBERS.fullmatch(_text(code)):
                raise _Refused(f"arrays of the type {_text(code)!r}")
            return _Begun(_text(code))
        case (dtype, data) if function in _SCALAR:
            return _array(1, (), dtype, False, data).item()
        case (data, dtype, shape, order) if function in _BUFFER and order in ("C", "F"):
            return _array(1, shape, dtype, order == "F", data)
    raise _Refused("it calls something that does not make an array")


def _five(state: tuple[Any, ...]) -> tuple[Any, Any, Any, Any, Any]:
    if len(state) != 5:
        raise _Refused("it has an array whose state is not that of numpy's arrays")
    return state


def _array(version: Any, shape: Any, dtype: Any, fortran: Any, data: Any) -> np.ndarray:
    """An array from its bytes, if their number fits its shape and type."""
    if not isinstance(dtype, np.dtype) or type(data) not in (bytes, bytearray):
        raise _Refused("it has an array that is not made of bytes")
    if type(shape) is not tuple or not all(type(n) is int and 0 <= n <= len(data) for n in shape) or len(shape) > 4:
        raise _Refused("it has an array without a valid shape")
    if math.prod(shape) * dtype.itemsize != len(data):
        raise _Refused(f"an array of shape {shape} has {len(data)} bytes")
    return np.frombuffer(bytes(data), dtype).reshape(shape, order="F" if fortran else "C")


def _dtype(code: str, state: tuple[Any, ...]) -> np.dtype[Any]:
    """A type of numbers, in the byte order that its state gives."""
    match state:
        case (3, order, None, None, None, -1, -1, 0) if _text(order) in ("<", ">", "|", "="):
            return np.dtype(_text(order) + code)
    raise _Refused("it has an array of something other than numbers")


def _text(value: Any) -> str:
    """A name; Python 2 wrote text as bytes."""
    if type(value) not in (str, bytes):
        raise _Refused("it has something other than a name where one is needed")
    return value if type(value) is str else value.decode("latin1")


_CONSTANTS: dict[str, Callable[[Any], Any]] = {
    **{name: lambda a: a for name in (
        "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT",
        "UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8",
    )},
    **{name: lambda a: a.encode("latin1") for name in ("STRING", "BINSTRING", "SHORT_BINSTRING")},  # from Python 2
    "NONE": lambda _: None,
    "NEWTRUE": lambda _: True,
    "NEWFALSE": lambda _: False,
    "EMPTY_LIST": lambda _: [],
    "EMPTY_TUPLE": lambda _: (),
    "EMPTY_DICT": lambda _: {},
}  # fmt: skip
_OPERATIONS: dict[str, Callable[[_Interpreter, Any], None]] = {
    "MARK": lambda m, _: m.marks.append(len(m.stack)),
    "GLOBAL": lambda m, a: m.ask(*a.split(" ", 1)),
    "STACK_GLOBAL": lambda m, _: m.ask(*m.take(2)),
    "INST": lambda m, a: m.ask(*a.split(" ", 1)),
    "LIST": lambda m, _: m.stack.append(m.pop_mark()),
    "APPEND": lambda m, _: m.add(m.take(1)),
    "APPENDS": lambda m, _: m.add(m.pop_mark()),
    "TUPLE": lambda m, _: m.stack.append(tuple(m.pop_mark())),
    "TUPLE1": lambda m, _: m.stack.append(tuple(m.take(1))),
    "TUPLE2": lambda m, _: m.stack.append(tuple(m.take(2))),
    "TUPLE3": lambda m, _: m.stack.append(tuple(m.take(3))),
    "DICT": lambda m, _: m.make_dict(m.pop_mark()),
    "SETITEM": lambda m, _: m.fill(m.take(2)),
    "SETITEMS": lambda m, _: m.fill(m.pop_mark()),
    "REDUCE": lambda m, _: m.reduce(),
    "BUILD": lambda m, _: m.build(),
    "PUT": lambda m, a: m.put(a),
    "BINPUT": lambda m, a: m.put(a),
    "LONG_BINPUT": lambda m, a: m.put(a),
    "MEMOIZE": lambda m, _: m.put(len(m.memo)),
    "GET": lambda m, a: m.stack.append(m.memo[a]),
    "BINGET": lambda m, a: m.stack.append(m.memo[a]),
    "LONG_BINGET": lambda m, a: m.stack.append(m.memo[a]),
}

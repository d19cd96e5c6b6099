"""Files with a seal, a hash of their own content, so that damage or changes on disk are noticed when they are read.

JSON ends in a field ``"seal"``, TOML in a comment ``# seal:``; to any other reader they are plain JSON and plain TOML.
The seal is the beginning of the SHA-256 of ``of`` and all bytes before the seal. ``of`` identifies the run that a file
belongs to and must be known to its reader, so that an intact file of another run is not mistaken for this run's. A seal
finds damage and accidental changes; it is not a signature.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli_w

from manyheads.core.errors import Damaged
from manyheads.core.files import content, write_text
from manyheads.core.plain import to_json

__all__ = [
    "fingerprint",
    "fingerprint_of",
    "read_json",
    "read_toml",
    "sealed_json",
    "sealed_toml",
    "unsealed_json",
    "write_json",
    "write_toml",
]

Table = dict[str, Any]
_DIGITS = 16
_JSON, _TOML = b'"seal": "', b"# seal: "
_JSON_END, _TOML_END = re.compile(rb'([0-9a-f]{16})"\s*}\s*'), re.compile(rb"([0-9a-f]{16})\s*")


def fingerprint(data: bytes) -> str:
    """A short hash of bytes."""
    return hashlib.sha256(data).hexdigest()[:_DIGITS]


def fingerprint_of(value: Any) -> str:
    """A short hash of plain values, whatever the order of their keys.

    >>> fingerprint_of({"a": 1, "b": 2}) == fingerprint_of({"b": 2, "a": 1})
    True
    """
    return fingerprint(to_json(value, sort_keys=True).encode())


def sealed_json(facts: Mapping[str, Any], indent: int | None = None, of: str = "") -> str:
    """An object as JSON with its seal, on a single line unless ``indent`` is given.

    >>> sealed_json({"round": 1})
    '{"round": 1, "seal": "43d1c7097e0a202e"}'
    """
    text = to_json({**facts, "seal": "0" * _DIGITS}, indent=indent).encode()
    body, _, end = text.rpartition(_JSON)
    return (body + _JSON + fingerprint(of.encode() + body).encode() + end[_DIGITS:]).decode()


def sealed_toml(table: Mapping[str, Any]) -> str:
    """A table as TOML with its seal."""
    text = tomli_w.dumps(table)
    return f"{text}{_TOML.decode()}{fingerprint(text.encode())}\n"


def unsealed_json(data: bytes, name: object, of: str = "") -> Table:
    """The object in sealed JSON, without the seal; ``name`` names its file or line in errors."""
    _check(data, _JSON, _JSON_END, name, of)
    try:
        facts = json.loads(data)
        del facts["seal"]
    except (ValueError, TypeError, RecursionError):
        raise Damaged(f"{name} is damaged: it is not the JSON that was written") from None
    return dict(facts)


def write_json(path: Path, facts: Mapping[str, Any], indent: int | None = None, of: str = "") -> None:
    """Write a sealed JSON file atomically."""
    write_text(path, sealed_json(facts, indent, of) + "\n")


def write_toml(path: Path, table: Mapping[str, Any]) -> None:
    """Write a sealed TOML file atomically."""
    write_text(path, sealed_toml(table))


def read_json(path: Path, fix: str | None = None, of: str = "") -> Table:
    """The content of a file written by :func:`write_json`; an error, with ``fix``, if the file has changed."""
    try:
        return unsealed_json(_content(path), path, of)
    except Damaged as error:
        raise Damaged(str(error), fix=fix) from None


def read_toml(path: Path, fix: str | None = None) -> Table:
    """The content of a file written by :func:`write_toml`; an error, with ``fix``, if the file has changed."""
    try:
        data = _content(path)
        _check(data, _TOML, _TOML_END, path)
        return tomllib.loads(data.decode())
    except Damaged as error:
        raise Damaged(str(error), fix=fix) from None
    except (ValueError, RecursionError) as error:
        raise Damaged(f"{path} is damaged: {error}", fix=fix) from None


def _content(path: Path) -> bytes:
    try:
        return content(path)
    except OSError as error:
        raise Damaged(f"{path} cannot be read: {error.strerror or error}") from None


def _check(data: bytes, mark: bytes, end: re.Pattern[bytes], name: object, of: str = "") -> None:
    body, found, rest = data.rpartition(mark)
    seal = end.fullmatch(rest) if found else None
    if seal is None:
        raise Damaged(f"{name} is damaged: it has no seal (cut off, altered, or written by an earlier manyheads)")
    if seal[1].decode() != fingerprint(of.encode() + body):
        raise Damaged(f"{name} is damaged: it is not what was written{' by this run' if of else ''}")

"""What happens to files: bits flip, disks fill, hands slip, editors save."""

from __future__ import annotations

import json
import os
import re
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import tomli_w

__all__ = ["damage"]

Change = Callable[[bytes, Random], tuple[bytes, str]]


def damage(folder: Path, twin: Path, rng: Random) -> str:
    """Change something in a folder, and say what. ``twin`` holds the same files, of another seed."""
    while True:
        files = sorted(p for p in folder.rglob("*") if p.is_file() and not p.name.startswith("."))
        kind = rng.choice(sorted({p.name for p in files}))  # of many files of one name, each gets its share of them
        file = rng.choice([p for p in files if p.name == kind])
        name = file.relative_to(folder)
        if rng.random() < 0.2:
            what = rng.choice(FOLDER)(file, files, twin / name, rng)
        else:
            old = file.read_bytes()
            new, what = rng.choice(CHANGES)(old, rng)
            what = what if new != old else ""
            file.write_bytes(new)
        if what:
            return f"{name}: {what}"


def _span(data: bytes, rng: Random) -> tuple[int, int]:
    start = rng.randrange(len(data) + 1)
    return start, min(len(data), start + rng.choice([1, 2, 8, 100, 10_000]))


def _flip_bit(data: bytes, rng: Random) -> tuple[bytes, str]:
    if not data:
        return data, ""
    at, bit = rng.randrange(len(data)), rng.randrange(8)
    return data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :], f"bit {bit} of byte {at} flipped"


def _digit(data: bytes, rng: Random) -> tuple[bytes, str]:
    """One digit becomes another, which still reads as a number."""
    places = [m.start() for m in re.finditer(rb"\d", data)]
    if not places:
        return data, ""
    at, digit = rng.choice(places), rng.choice(b"0123456789")
    return data[:at] + bytes([digit]) + data[at + 1 :], f"digit {chr(data[at])} at {at} made {chr(digit)}"


def _truncate(data: bytes, rng: Random) -> tuple[bytes, str]:
    keep = rng.choice([0, len(data) - 1, len(data) // 2, rng.randrange(len(data) + 1)])
    return data[: max(keep, 0)], f"cut to {keep} bytes"


def _zero(data: bytes, rng: Random) -> tuple[bytes, str]:
    start, end = _span(data, rng)
    return data[:start] + bytes(end - start) + data[end:], f"bytes {start} to {end} made zero"


def _remove(data: bytes, rng: Random) -> tuple[bytes, str]:
    start, end = _span(data, rng)
    return data[:start] + data[end:], f"bytes {start} to {end} taken out"


def _insert(data: bytes, rng: Random) -> tuple[bytes, str]:
    at = rng.choice([0, len(data), rng.randrange(len(data) + 1)])
    junk = rng.choice([b"\n", b"\0", b" ", b"x", b"\xff\xfe", b"{}\n", rng.randbytes(20), data[:500]])
    return data[:at] + junk + data[at:], f"{junk[:20]!r} put in at {at}"


def _lines(data: bytes, rng: Random) -> tuple[bytes, str]:
    """Lines swapped, doubled or taken out."""
    lines = data.splitlines(keepends=True)
    if len(lines) < 2:
        return data, ""
    i, j = rng.sample(range(len(lines)), 2)
    how = rng.choice(["swapped with", "copied over", "put before", "taken out, not"])
    if how == "swapped with":
        lines[i], lines[j] = lines[j], lines[i]
    elif how == "copied over":
        lines[j] = lines[i]
    elif how == "put before":
        lines.insert(j, lines[i])
    else:
        del lines[i]
    return b"".join(lines), f"line {i + 1} {how} line {j + 1}"


def _value(data: bytes, rng: Random) -> tuple[bytes, str]:
    """A number or word of a JSON or TOML file, or of one line of JSON, becomes another that is as valid."""
    try:
        text = data.decode()
        try:
            table = tomllib.loads(text)
            what = _other(table, rng)
            return tomli_w.dumps(table).encode(), what
        except ValueError:
            pass
        lines = text.splitlines()
        at = rng.randrange(len(lines)) if lines and _is_json(lines[0]) else None
        table = json.loads(text if at is None else lines[at])
        what = _other(table, rng)
        if at is None:
            return (json.dumps(table, indent=2) + "\n").encode(), what
        lines[at] = json.dumps(table)
        return ("\n".join(lines) + "\n").encode(), f"line {at + 1}: {what}"
    except ValueError:
        return data, ""


def _is_json(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _other(table: Any, rng: Random) -> str:
    """Change one leaf of a nested value in place; tell which, or nothing if there is none."""
    leaves = list(_leaves(table))
    if not leaves:
        return ""
    owner, key, path = rng.choice(leaves)
    old = owner[key]
    owner[key] = _another(old, rng)
    return "" if owner[key] == old else f"{path} {str(old)[:40]!r} made {str(owner[key])[:40]!r}"


def _leaves(value: Any, path: str = "") -> Any:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        here = f"{path}.{key}" if path else str(key)
        if isinstance(item, dict | list) and item:
            yield from _leaves(item, here)
        else:
            yield value, key, here


def _another(old: Any, rng: Random) -> Any:
    if isinstance(old, bool):
        return not old
    if isinstance(old, int):
        return rng.choice([old + 1, max(old - 1, 0), old * 2, 0, 1])
    if isinstance(old, float):
        return rng.choice([old * 2, old / 2, old + 0.1, 1.0, 0.0])
    if isinstance(old, str):
        return rng.choice(
            [old + "x", old[:-1], old.swapcase(), "auto", "fedavg", "0" * 64 if len(old) == 64 else old[::-1]]
        )
    return rng.choice([None, 0, 1, "x", [], {}]) if old is None else type(old)()


CHANGES: list[Change] = [
    *(_flip_bit, _flip_bit, _digit, _digit, _digit, _truncate, _zero, _remove, _insert, _lines, _value, _value, _value)
]


def _delete(file: Path, files: list[Path], twin: Path, rng: Random) -> str:
    file.unlink()
    return "deleted"


def _swap(file: Path, files: list[Path], twin: Path, rng: Random) -> str:
    other = rng.choice(files)
    if other == file or other.read_bytes() == file.read_bytes():
        return ""
    mine, theirs = file.read_bytes(), other.read_bytes()
    file.write_bytes(theirs)
    other.write_bytes(mine)
    return f"swapped with {other.name} of {other.parent.name}"


def _overwrite(file: Path, files: list[Path], twin: Path, rng: Random) -> str:
    other = rng.choice(files)
    if other == file or other.read_bytes() == file.read_bytes():
        return ""
    file.write_bytes(other.read_bytes())
    return f"overwritten by {other.name} of {other.parent.name}"


def _of_twin(file: Path, files: list[Path], twin: Path, rng: Random) -> str:
    """The file of the same name from a run with another seed: whole in itself, but not of this run."""
    if not twin.is_file() or twin.read_bytes() == file.read_bytes():
        return ""
    file.write_bytes(twin.read_bytes())
    return "replaced by that of another run"


def _stray(file: Path, files: list[Path], twin: Path, rng: Random) -> str:
    name = rng.choice([f"{file.name}~", f"copy of {file.name}", f"round-{file.name}", f".{file.name}.1234.tmp"])
    shutil.copyfile(file, file.with_name(name))
    return f"copied to {name!r}"


def _folder(file: Path, files: list[Path], twin: Path, rng: Random) -> str:
    file.unlink()
    file.mkdir()
    return "made a folder"


def _link(file: Path, files: list[Path], twin: Path, rng: Random) -> str:
    file.unlink()
    to = rng.choice([file.name, "nowhere", "/dev/null"])
    file.symlink_to(to)
    return f"made a link to {to}"


def _pipe(file: Path, files: list[Path], twin: Path, rng: Random) -> str:
    file.unlink()
    os.mkfifo(file)
    return "made a pipe"


def _whole_folder(file: Path, files: list[Path], twin: Path, rng: Random) -> str:
    if file.parent == min((f.parent for f in files), key=lambda p: len(p.parts)):  # nothing would be left to use
        return ""
    shutil.rmtree(file.parent)
    return "deleted with its folder"


FOLDER = [
    _delete,
    _delete,
    _swap,
    _overwrite,
    _of_twin,
    _of_twin,
    _of_twin,
    _stray,
    _stray,
    _folder,
    _link,
    _pipe,
    _whole_folder,
]

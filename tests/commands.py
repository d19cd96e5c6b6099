"""The command line, called as a user would."""

from __future__ import annotations

import json

import pytest

from manyheads.cli import main


def call(*arguments: object) -> int:
    """The exit code of a command."""
    with pytest.raises(SystemExit) as stopped:
        main([str(a) for a in arguments])
    return int(stopped.value.code or 0)


def facts_of(capsys, *arguments: object, code: int = 0) -> dict:
    """What a command prints as JSON: one object, and nothing else on standard output."""
    capsys.readouterr()
    found = call(*arguments, "--json")
    out, err = capsys.readouterr()
    assert found == code, err
    return json.loads(out)


def error_of(capsys, *arguments: object) -> str:
    """The error of a command that must fail with exit code 2, one line, and nothing on standard output."""
    capsys.readouterr()
    assert call(*arguments) == 2
    out, err = capsys.readouterr()
    lines = [line for line in err.splitlines() if line.strip()]
    assert out == ""
    assert len(lines) == 1, err
    assert lines[0].startswith("error: ")
    return lines[0]

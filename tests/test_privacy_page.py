"""docs/privacy.md lists every method, every action and every policy, as the code has them."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import manyheads.algorithms  # noqa: F401, registers the methods
from manyheads.core.contract import ALGORITHMS
from manyheads.core.registry import is_ours
from manyheads.federate.rules import ACTIONS, Policy

PAGE = (Path(__file__).parent.parent / "docs" / "privacy.md").read_text()


def rows_of(part: str) -> list[list[str]]:
    """The cells of a part's table, without its head."""
    lines = [line for line in part.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def section(title: str) -> str:
    return PAGE.split(f"## {title}\n")[1].split("\n## ")[0]


def test_every_method_says_what_travels_and_what_stays():
    ours = {name: ALGORITHMS[name] for name in ALGORITHMS if is_ours(ALGORITHMS[name])}
    expected = [[f"`{name}`", cls.travels, cls.stays] for name, cls in sorted(ours.items())]
    assert len(expected) > 10
    assert rows_of(section("By method")) == expected


def test_every_action_is_listed():
    assert [row[0] for row in rows_of(section("By action"))] == [f"`{action}`" for action in ACTIONS]


def test_every_policy_is_listed():
    rows = rows_of(section("What a site can forbid"))
    assert [row[0] for row in rows] == [f"`{each.name}`" for each in fields(Policy)]
    assert {row[0]: row[1] for row in rows}["`min_count`"] == str(Policy().min_count)

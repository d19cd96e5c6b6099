"""Measurements that each have a process of their own, so that its start-up and its peak memory are its own."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Case = tuple[str, int]
"""what is measured, and its size"""
Found = dict[str, float]


def parser_of(about: str | None, repeats: int) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--repeats", type=int, default=repeats)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    return parser


def parsed(parser: argparse.ArgumentParser, measure: Callable[[str, int], Found]) -> argparse.Namespace:
    """The options; in a process that was started for one case, measure that and end."""
    options = parser.parse_args()
    if options.one:
        what, size = options.one
        print(json.dumps(measure(what, int(size))))
        raise SystemExit
    return options


def repeated(script: str, cases: Sequence[Case], repeats: int) -> dict[Case, list[Found]]:
    """What each case gave; all are measured in turn, several times."""
    found: dict[Case, list[Found]] = {case: [] for case in cases}
    for _ in range(repeats):
        for what, size in cases:
            command = [sys.executable, script, "--one", what, str(size)]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            found[what, size].append(json.loads(done.stdout))
            print(".", end="", file=sys.stderr, flush=True)
    return found


def write(path: Path, rows: list[dict[str, Any]], repeats: int, **more: Any) -> None:
    from manyheads.core.machine import machine_facts

    facts = {"rows": rows, **more, "repeats": repeats, "load": os.getloadavg()[0], "machine": machine_facts()}
    path.write_text(json.dumps(facts, indent=2) + "\n")

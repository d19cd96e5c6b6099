"""Files and functions that a reader can take in at a glance."""

from __future__ import annotations

import ast
from pathlib import Path

import manyheads

ROOT = Path(manyheads.__file__).parent
FILE_LINES, FUNCTION_LINES = 300, 60


def test_files_and_functions_are_short():
    long = {}
    for file in sorted(ROOT.rglob("*.py")):
        text, name = file.read_text(), str(file.relative_to(ROOT))
        if (lines := len(text.splitlines())) > FILE_LINES:
            long[name] = lines
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef) and (lines := node.end_lineno - node.lineno + 1) > FUNCTION_LINES:
                long[f"{name}: {node.name}"] = lines
    assert long == {}

"""Imports point one way.

core <- data, models, metrics, algorithms <- engines <- monitors <- run, baselines <- onboarding, theory <- reproduce <-
experiments <- report <- federate <- cli
"""

from __future__ import annotations

import ast
from pathlib import Path

import manyheads

ROOT = Path(manyheads.__file__).parent
MAY_IMPORT = {
    "core": set(),
    "data": {"core"},
    "models": {"core"},
    "metrics": {"core"},
    "algorithms": {"core"},
}
MAY_IMPORT["engines"] = {*MAY_IMPORT}
MAY_IMPORT["monitors"] = {*MAY_IMPORT}
MAY_IMPORT["run"] = {*MAY_IMPORT}
MAY_IMPORT["baselines"] = {"core", "data", "metrics"}
MAY_IMPORT["onboarding"] = {*MAY_IMPORT}
MAY_IMPORT["theory"] = {*MAY_IMPORT}
MAY_IMPORT["reproduce"] = {*MAY_IMPORT}
MAY_IMPORT["experiments"] = {*MAY_IMPORT}
MAY_IMPORT["report"] = {*MAY_IMPORT}
MAY_IMPORT["federate"] = {*MAY_IMPORT} - {"theory", "reproduce"}
MAY_IMPORT["cli"] = {*MAY_IMPORT}


def imports(path: Path) -> set[str]:
    """Layers of manyheads that a file imports from."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = [node.module or ""]
            if node.module == "manyheads":
                names = [f"manyheads.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        found |= {n.split(".")[1] for n in names if n.startswith("manyheads.")}
    return found


def test_imports_point_one_way():
    checked = 0
    for path in ROOT.rglob("*.py"):
        layer = path.relative_to(ROOT).parts[0]
        if layer in ("__init__.py", "__main__.py", "api.py"):
            continue
        others = imports(path) - {layer}
        public = {"__version__"} if layer == "cli" else set()
        assert others <= MAY_IMPORT[layer] | public, f"{path.relative_to(ROOT)} imports {others - MAY_IMPORT[layer]}"
        checked += 1
    assert checked > 20


def test_algorithms_do_not_know_each_other_nor_any_engine():
    for path in (ROOT / "algorithms").glob("*.py"):
        if path.name != "__init__.py":
            assert imports(path) == {"core"}, path.name

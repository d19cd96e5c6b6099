"""The kinds of classes that users can add, and the import paths of those that a run uses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from manyheads.core.contract import ALGORITHMS, Algorithm
from manyheads.core.registry import Registry, import_path, is_ours, not_imported
from manyheads.core.tasks import TASKS, Task
from manyheads.data import PARTITIONERS, SOURCES
from manyheads.data.partitions.partitioners import Partition
from manyheads.metrics import METRICS, Metric
from manyheads.models import MODELS
from manyheads.monitors import MONITORS, Monitor

__all__ = ["KINDS", "Code", "code_of", "register", "require_imported"]

T = TypeVar("T")

Code = dict[str, dict[str, str]]
"""import paths by kind and name"""
KINDS: dict[str, Registry[Any]] = {
    known.kind: known for known in (ALGORITHMS, MODELS, SOURCES, PARTITIONERS, METRICS, MONITORS)
}


def code_of(**things: Iterable[Any]) -> Code:
    """The import paths of those ``things``, given by kind, whose classes are not part of this package."""
    found = {kind: {t.name: import_path(t) for t in some if not is_ours(t)} for kind, some in things.items()}
    return {kind: paths for kind, paths in found.items() if paths}


def require_imported(code: Mapping[str, Mapping[str, str]], where: str, methods: Sequence[str] = ()) -> None:
    """Raise an error that names all classes in ``code`` not imported yet; ``methods`` are those of a comparison."""
    recorded = [(kind, name, path) for kind, paths in code.items() for name, path in paths.items()]
    missing = [(kind, name, path) for kind, name, path in recorded if not KINDS[kind].knows(name, path)]
    if missing:
        flags = {f"--{kind} {path}": None for kind, _, path in missing}
        if methods:
            origin = code.get("algorithm", {})
            named = ((origin.get(name, name), plus, rest) for name, plus, rest in (m.partition("+") for m in methods))
            told = "--methods " + ",".join(map("".join, named))
            flags = {told if flag.startswith("--algorithm ") else flag: None for flag in flags}
        raise not_imported(missing, where, " ".join(flags))


def register(cls: type[T]) -> type[T]:
    """Make a class of your own known by its name: a method, a model, data, a partition, a metric, a monitor or a task.

    It is then found by :func:`manyheads.load` and wherever a name is wanted.
    """
    bases: dict[type, Registry[Any]] = {
        Algorithm: ALGORITHMS,
        Metric: METRICS,
        Monitor: MONITORS,
        Task: TASKS,
        Partition: PARTITIONERS,
    }
    known = next((known for base, known in bases.items() if issubclass(cls, base)), None)
    if known is None:
        known = MODELS if hasattr(cls, "build") else SOURCES
    known.register(cls)
    return cls

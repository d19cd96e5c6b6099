"""Paths that a user gives."""

from __future__ import annotations

from pathlib import Path

from manyheads.core.errors import did_you_mean

__all__ = ["beside", "home", "like_it"]


def home(path: str | Path) -> Path:
    """A path whose ``~`` is the user's home folder, if there is one."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def beside(path: Path) -> list[str]:
    """Names in the folder where a path leads, or would."""
    try:
        return [p.name for p in path.parent.iterdir() if not p.name.startswith(".")]
    except (OSError, ValueError):
        return []


def like_it(path: Path) -> str | None:
    """Of a path that leads nowhere: a question with the nearest name that is there."""
    return did_you_mean(path.name, beside(path))

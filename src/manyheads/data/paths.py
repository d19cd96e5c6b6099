"""Paths given by a user: the home folder, and suggestions for a path that does not exist."""

from __future__ import annotations

from pathlib import Path

from manyheads.core.errors import did_you_mean

__all__ = ["home", "siblings", "suggestion"]


def home(path: str | Path) -> Path:
    """A path whose ``~`` is the user's home folder, if there is one."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def siblings(path: Path) -> list[str]:
    """Names in a path's parent folder; none if that cannot be read."""
    try:
        return [p.name for p in path.parent.iterdir() if not p.name.startswith(".")]
    except (OSError, ValueError):
        return []


def suggestion(path: Path) -> str | None:
    """For a path that does not exist: "did you mean" with the most similar name in its folder."""
    return did_you_mean(path.name, siblings(path))

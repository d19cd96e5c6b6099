"""``federate demo``: a server and three sites on this machine, with embedded data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["demonstrate"]

HOSPITALS = ("Cleveland", "Hungarian", "VA")


def demonstrate(out: Path | None, rounds: int, say: Callable[[str], None]) -> dict[str, Any]:
    return {}

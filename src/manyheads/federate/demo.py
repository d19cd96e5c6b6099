"""``federate demo``: a server and three sites on this machine, with embedded data."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from manyheads.data.public.hospitals import HEART, Heart
from manyheads.federate.follow import followed
from manyheads.federate.kit import Kit, init_study
from manyheads.federate.processes import free_port
from manyheads.federate.serve import server, site
from manyheads.federate.study import Study

__all__ = ["demonstrate"]

HOSPITALS = ("Cleveland", "Hungarian", "VA")


def demonstrate(out: Path | None, rounds: int, say: Callable[[str], None]) -> dict[str, Any]:
    return {}

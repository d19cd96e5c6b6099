"""The machine and the software versions with which a result was computed."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

__all__ = ["Machine", "machine_facts", "this_machine", "version_of"]

PACKAGES = ("manyheads", "torch", "numpy", "safetensors", "scikit-learn")


@dataclass(frozen=True)
class Machine:
    """Versions, cores, git commit."""

    python: str
    platform: str
    processor: str
    cores: int | None
    packages: dict[str, str | None]
    git_commit: str | None


def this_machine() -> Machine:
    """The machine that this process runs on."""
    return Machine(
        python=sys.version.split()[0],
        platform=platform.platform(),
        processor=platform.processor() or platform.machine(),
        cores=os.cpu_count(),
        packages={name: version_of(name) for name in PACKAGES},
        git_commit=_commit(),
    )


def machine_facts() -> dict[str, Any]:
    """This machine as a dictionary of plain values."""
    return asdict(this_machine())


def version_of(package: str) -> str | None:
    """The version of an installed package; None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _commit() -> str | None:
    asked = ["git", "rev-parse", "HEAD"]
    here = Path(__file__).parent
    try:
        return subprocess.run(asked, cwd=here, capture_output=True, text=True, timeout=5, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None

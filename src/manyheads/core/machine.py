"""Where and with what something was made."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

__all__ = ["machine_facts"]

PACKAGES = ("manyheads", "torch", "numpy", "safetensors", "scikit-learn")


def machine_facts() -> dict[str, Any]:
    """Versions, cores, git commit."""
    return {
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "packages": {name: _version(name) for name in PACKAGES},
        "git_commit": _commit(),
    }


def _version(package: str) -> str | None:
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

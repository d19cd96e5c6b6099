"""An audit log as JSON lines: who asked for what, what left, how many bytes, by which hash."""

from __future__ import annotations

import hashlib
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from manyheads.core.plain import to_json

__all__ = ["Audit"]


class Audit:
    """Appends lines to a file; each line is one write, so that several processes may."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, event: str, **facts: Any) -> None:
        """Add a line, with the time in UTC."""
        line = to_json({"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": event, **facts}) + "\n"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, line.encode())
        finally:
            os.close(file)

    def message(self, event: str, data: bytes, **facts: Any) -> None:
        """Add a line about bytes that came or left."""
        self.write(event, **facts, bytes=len(data), sha256=hashlib.sha256(data).hexdigest())

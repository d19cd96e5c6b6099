"""The copies of public datasets beside the repository, or where ``MANYHEADS_DATA`` says; tests on them skip without them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

DATA = Path(os.environ.get("MANYHEADS_DATA") or Path(__file__).parents[2] / "shared" / "data")


def real(name: str) -> pytest.MarkDecorator:
    """Marks a test on a dataset."""
    return pytest.mark.skipif(not (DATA / name).is_dir(), reason=f"{DATA / name} is not there")

"""Folders of comparisons: gone on with, and reported on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fuzz.child import Ended
from fuzz.damaged import Damaged, Use, page

__all__ = ["COMPARISONS"]


def _resumed(place: Path, ended: Ended) -> Any:
    return {"facts": json.loads(ended.out), "page": page("comparison")(place, ended)}


RESUME = ["compare", "--resume", "--out", "comparison", "--json"]
COMPARISONS = Damaged(
    "comparisons",
    "comparison",
    ("clinics",),
    (
        Use("resume", RESUME, _resumed, writes=True, data="clinics"),
        Use("report", ["report", "comparison", "--json"], page("comparison")),
    ),
)

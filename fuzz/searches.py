"""Folders of searches for a method's settings: gone on with, and reported on."""

from __future__ import annotations

from fuzz.damaged import Damaged, Use, page, printed

__all__ = ["SEARCHES"]

SEARCHES = Damaged(
    "searches",
    "search",
    ("clinics",),
    (
        Use(
            "resume", ["tune", "fedprox", "--resume", "--out", "search", "--json"], printed, writes=True, data="clinics"
        ),
        Use("report", ["report", "search", "--json"], page("search")),
    ),
)

"""Draw the pictures of docs/theory.md from live runs: ``python docs/make_theory_figures.py [NAME ...]``."""

from __future__ import annotations

import sys
from pathlib import Path

from manyheads.theory import PAPERS, figure_of, theory

IMAGES = Path(__file__).parent / "img"

if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    for name in sys.argv[1:] or PAPERS:
        figure_of(theory(PAPERS.find(name)())).save(IMAGES / f"theory-{name}.svg")

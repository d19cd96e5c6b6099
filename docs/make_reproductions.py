"""Write docs/reproductions.md, and the table in the README, from results/: ``python docs/make_reproductions.py``."""

from __future__ import annotations

import re
from pathlib import Path

from manyheads.reproduce.page import page, summary

ROOT = Path(__file__).parent.parent
RESULTS, PAGE, README = ROOT / "results", ROOT / "docs" / "reproductions.md", ROOT / "README.md"
MARKED = re.compile(r"(<!-- reproductions -->\n).*?(<!-- /reproductions -->)", re.DOTALL)


def pages() -> dict[Path, str]:
    """The text of each page that has results of reproductions."""
    readme = MARKED.sub(lambda marks: marks[1] + summary(RESULTS) + marks[2], README.read_text(encoding="utf-8"))
    return {PAGE: page(RESULTS, "../results"), README: readme}


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")

"""Files that the documentation names are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
NAMED = re.compile(r"`([\w.-]+(?:/[\w.-]+)+\.(?:py|json|svg))`")


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_file_that_a_page_names_exists(page):
    for name in NAMED.findall(page.read_text()):
        assert any((folder / name).exists() for folder in (ROOT, ROOT / "src" / "manyheads")), name


def test_some_are_named():
    assert sum(len(NAMED.findall(page.read_text())) for page in PAGES) > 20

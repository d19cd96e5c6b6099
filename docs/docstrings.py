"""Docstrings as Markdown, for the site: doctests become code, and roles such as ``:class:`X``` plain code."""

from __future__ import annotations

import re
from typing import Any

import griffe

ROLE = re.compile(r":\w+:`~?\.?([^`]+)`")
DOCTEST = re.compile(r"^[ \t]*>>> (?:.+\n?)+", re.MULTILINE)


class Docstrings(griffe.Extension):
    """Rewrites every docstring as it is read."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring:
            text = ROLE.sub(r"`\1`", obj.docstring.value)
            obj.docstring.value = DOCTEST.sub(lambda found: f"```python\n{found[0].rstrip()}\n```\n", text)

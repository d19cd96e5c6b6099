"""HTML pages from templates: all values are escaped, and scripts and styles are embedded."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import vl_convert
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from manyheads.core.plain import plain
from manyheads.core.words import plural
from manyheads.report.names import display
from manyheads.report.words import first_upper

__all__ = ["library", "rendered"]

ASSETS = Path(__file__).parent / "assets"


@cache
def library() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script."""
    return vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")


def _inline(value: Any) -> Markup:
    """Return a value as JSON that is safe inside a script element."""
    text = json.dumps(plain(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _compact(datasets: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, dict[str, list[Any]]]:
    """Return datasets as tables whose column names are stored once, not in every row.

    >>> _compact({"sites": [{"a": 1, "b": 2}, {"b": 3}]})
    {'sites': {'columns': ['a', 'b'], 'rows': [[1, 2], [None, 3]]}}
    """
    columns = {name: list(dict.fromkeys(key for row in rows for key in row)) for name, rows in datasets.items()}
    return {
        name: {"columns": columns[name], "rows": [[row.get(key) for key in columns[name]] for row in rows]}
        for name, rows in datasets.items()
    }


@cache
def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(ASSETS),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"inline": _inline, "compact": _compact, "display": display, "first_upper": first_upper}
    made.globals |= {"plural": plural}
    return made


def rendered(template: str, **values: Any) -> str:
    """Return the HTML of a template with its values, scripts and styles filled in."""
    assets = {"style": "style.css", "script": "page.js", "live_script": "live.js"}
    texts = {name: Markup((ASSETS / file).read_text(encoding="utf-8")) for name, file in assets.items()}
    return _environment().get_template(template).render(library=Markup(library()), **texts, **values)

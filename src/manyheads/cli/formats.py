"""The option that names the formats in which a model is exported."""

from __future__ import annotations

from typing import Annotated

import typer

from manyheads.core.errors import one_of
from manyheads.onboarding.export import FORMATS, require

__all__ = ["Formats", "formats_of"]

Formats = Annotated[
    str | None,
    typer.Option(
        help=r"onnx, torch, both with a comma, or none  \[default: torch, and onnx if it is installed]",
        show_default=False,
    ),
]


def formats_of(text: str | None, where: str) -> list[str] | None:
    """Return the formats in the option ``where``; None if it was not given."""
    if text is None:
        return None
    names = [] if text == "none" else [n.strip() for n in text.split(",")]
    for name in names:
        if name not in FORMATS:
            raise one_of("format", name, [*FORMATS, "none"], where=where)
        require(name)
    return names

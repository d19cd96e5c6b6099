"""Output of commands. Names of files and sites are printed literally, not interpreted as markup."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.progress import Task, TextColumn
from rich.text import Text

from manyheads.core.plain import visible

__all__ = ["Plain", "Words", "bold", "warn"]

WARNINGS_SHOWN = 10


class Plain(Console):
    """A console without markup and emoji codes that escapes control characters, and wraps lines only if ``wrap``."""

    def __init__(self, *, stderr: bool = False, wrap: bool = False) -> None:
        super().__init__(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=not wrap)

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(visible(text), **options)


def warn(console: Console, warnings: Sequence[str]) -> None:
    """Print the first warnings, a line each, and how many more there are."""
    for warning in warnings[:WARNINGS_SHOWN]:
        console.print(f"warning: {warning}")
    if len(warnings) > WARNINGS_SHOWN:
        console.print(f"warning: and {len(warnings) - WARNINGS_SHOWN} more: all of them are in the results")


def bold(text: str) -> Text:
    return Text(visible(text), style="bold")


class Words(TextColumn):
    """A column of a progress bar, without markup."""

    def __init__(self, template: str) -> None:
        super().__init__(template, markup=False)

    def render(self, task: Task) -> Text:
        return Text(visible(super().render(task).plain))

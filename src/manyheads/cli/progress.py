"""Progress of a run on standard error: a bar on a terminal, otherwise a line every few seconds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TimeRemainingColumn

from manyheads.cli.output import Words
from manyheads.cli.stops import check
from manyheads.core.history import metrics_of
from manyheads.core.quantities import Quantity, named_quantity
from manyheads.metrics import METRICS

__all__ = ["progress", "quantity_of"]

SECONDS_BETWEEN_LINES = 5.0


class _Follow:
    """Updates the progress display; called with the record of each round."""

    def __init__(self, console: Console, bar: Progress, rounds: int, name: str) -> None:
        self.console, self.bar, self.rounds = console, bar, rounds
        self.task = bar.add_task(name, total=rounds, score="", speed="")
        self.first: int | None = None
        self.started = self.spoke = time.monotonic()

    def __call__(self, record: dict[str, Any]) -> None:
        check()
        now = time.monotonic()
        if self.first is None:
            self.first = record["round"]
        speed = (record["round"] - self.first + 1) / max(now - self.started, 1e-9)
        score = self._score(record)
        self.bar.update(self.task, completed=record["round"], speed=f"{speed:.1f} rounds/s")
        if score:
            self.bar.update(self.task, score=score)
        for drop in record["dropped"]:
            self.console.print(f"round {record['round']}: dropped the upload of client {drop['client']}: {drop['why']}")
        if not self.console.is_terminal and now - self.spoke >= SECONDS_BETWEEN_LINES:
            self.spoke = now
            left = (self.rounds - record["round"]) / speed
            self.console.print(
                f"round {record['round']}/{self.rounds}  {score}  {speed:.1f} rounds/s  {left:.0f} s left"
            )

    @staticmethod
    def _score(record: dict[str, Any]) -> str:
        score = next(iter(metrics_of([record])), None)
        value = record["evaluation"][score] if score else None
        return f"{quantity_of(str(score)).title} {value:.4g}" if value is not None else ""


def quantity_of(metric: str) -> type[Quantity]:
    """The metric of that name, or what can be said of one that is not registered."""
    return METRICS.get(metric) or named_quantity(metric)


@contextmanager
def progress(console: Console, rounds: int, name: str) -> Iterator[_Follow]:
    """Show the progress of a run with this many rounds during the block."""
    columns = (
        Words("{task.description}"),
        BarColumn(),
        Words("{task.completed}/{task.total}"),
        TaskProgressColumn(),
        Words("{task.fields[score]}"),
        Words("{task.fields[speed]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        yield _Follow(console, bar, rounds, name)

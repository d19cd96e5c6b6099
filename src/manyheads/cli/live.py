"""``manyheads live``, and ``run --live``: watch a run while it trains."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from manyheads.cli.output import Plain
from manyheads.core.plain import to_json

if TYPE_CHECKING:
    from manyheads.run.config_file import RunConfig

__all__ = ["live", "watched"]


def live(
    folder: Annotated[
        Path, typer.Argument(help="a run directory, of a run in progress or finished", show_default=False)
    ],
    *,
    port: Annotated[int, typer.Option(help="port on 127.0.0.1; 0: any free port", min=0, max=65535)] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object on standard output")] = False,
) -> None:
    """Serve a page with the curves of a run as they grow, on this machine alone, until Ctrl-C.

    It reads the run's files only: the run may be another process's.

    Examples:

      manyheads live runs/my-run

      manyheads live runs/my-run --port 8000
    """
    from manyheads.report.live import Live  # slow: imports the drawing libraries
    from manyheads.report.runs import read_run

    errors = Plain(stderr=True)
    try:
        with Live(folder, read_run(folder).config, port) as server:
            errors.print(f"watch {folder} at {server.address} (Ctrl-C ends this)")
            if as_json:
                typer.echo(to_json({"address": server.address}))
            while True:
                time.sleep(3600)
    except KeyboardInterrupt:
        errors.print("ended")


@contextmanager
def watched(folder: Path, config: RunConfig, port: int, errors: Console) -> Iterator[None]:
    """Serve the live page of a run during the block."""
    from manyheads.report.live import Live

    with Live(folder, config, port) as server:
        errors.print(f"watch it at {server.address}")
        yield
    errors.print(f"the page at {server.address} can stay open; a report: manyheads report {folder}")

"""The command ``manyheads``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from manyheads import __version__
from manyheads.cli.algorithms import algorithms
from manyheads.cli.compare import compare, compare_flags
from manyheads.cli.data import data_app
from manyheads.cli.flags import with_flags
from manyheads.cli.live import live
from manyheads.cli.personalize import personalize
from manyheads.cli.predict import predict
from manyheads.cli.report import report
from manyheads.cli.run import run, run_flags
from manyheads.cli.theory import theory, theory_flags
from manyheads.core.errors import UserError

__all__ = ["app_for", "main"]

# typer keeps its own copy of click, and shows only this of the errors for wrong words on the command line
_WrongWords: Any = next(cls for cls in typer.BadParameter.__mro__ if cls.__name__ == "ClickException")


def app_for(arguments: Sequence[str]) -> typer.Typer:
    """The command line, with the flags of the things that ``arguments`` name."""
    app = typer.Typer(
        help="Personalized federated learning: one shared body, many personal heads.",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
    )

    @app.callback(invoke_without_command=True)
    def common(
        version: Annotated[bool, typer.Option("--version", help="print the version")] = False,
        debug: Annotated[bool, typer.Option("--debug", help="show where an error came from")] = False,
    ) -> None:
        if version:
            typer.echo(__version__)
            raise typer.Exit

    app.command()(with_flags(compare, compare_flags(arguments)))
    app.command()(with_flags(run, run_flags(arguments)))
    app.command()(report)
    app.command()(live)
    app.command()(personalize)
    app.command()(predict)
    app.command()(algorithms)
    app.command()(with_flags(theory, theory_flags(arguments)))
    app.add_typer(data_app(arguments), name="data")
    return app


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; errors are one line and exit code 2."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = app_for(arguments)(arguments, prog_name="manyheads", standalone_mode=False)
    except UserError as error:
        _fail(str(error), arguments)
    except _WrongWords as error:
        _fail(error.format_message(), arguments)
    sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str, arguments: Sequence[str]) -> None:
    if "--debug" in arguments:
        raise
    typer.echo(f"error: {' '.join(message.split())}", err=True)
    sys.exit(2)

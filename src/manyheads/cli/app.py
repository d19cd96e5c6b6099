"""The commands and their flags, and the call of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from manyheads import __version__
from manyheads.cli.algorithms import algorithms
from manyheads.cli.compare import compare, compare_flags
from manyheads.cli.data import data_app
from manyheads.cli.flags import with_flags
from manyheads.cli.given import refuse_unknown
from manyheads.cli.live import live
from manyheads.cli.personalize import personalize
from manyheads.cli.predict import predict
from manyheads.cli.report import report
from manyheads.cli.run import run, run_flags
from manyheads.cli.theory import theory, theory_flags
from manyheads.core.errors import UserError

__all__ = ["command"]

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


def command(arguments: Sequence[str]) -> int:
    """Do what ``arguments`` say; the exit code."""
    made = typer.main.get_command(app_for(arguments))
    try:
        # not by its main(), which makes other errors and exit codes of interrupts and of closed pipes
        with made.make_context("manyheads", list(arguments)) as context:
            made.invoke(context)
    except typer.Exit as exit:
        return exit.exit_code
    except _WrongWords as error:
        if not error.format_message():  # no command was named, and the help has been shown
            return 2
        if "run" in arguments[:1] or "compare" in arguments[:1]:
            refuse_unknown(arguments)
        raise UserError(error.format_message()) from error
    return 0

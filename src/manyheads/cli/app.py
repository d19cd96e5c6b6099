"""Builds the command line, and calls the command that was given."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any

import typer

from manyheads import __version__
from manyheads.core.errors import UserError

__all__ = ["ABOUT", "app_for", "called"]

ABOUT = {
    "compare": "Should we federate at all? Which method, which sites gain, how sure are we, what does it cost?",
    "run": "Train one method on one federation.",
    "tune": "Search step size and other settings of one method, by validation samples.",
    "report": "Make report.html: one page that works offline, on a phone and on paper.",
    "live": "Serve a page with the curves of a run as they grow, on this machine alone, until Ctrl-C.",
    "personalize": "Give a new client its own model, from a trained run and a few samples of the client.",
    "export": "Give a site that took part in a run its own model, as a folder for [bold]manyheads predict[/bold].",
    "predict": "Predict with a model of [bold]manyheads personalize[/bold] or [bold]export[/bold].",
    "algorithms": "List the methods: their paper, what travels, what stays, and their settings.",
    "theory": "Show a theorem at work: its quantities on a run, its assumptions one by one, its bound beside what is "
    "measured.",
    "reproduce": "Reproduce a figure or table of the papers, and judge its claims.",
    "federate": "Train and compare across real sites that cannot pool their data, on Flower.",
    "data": "What data there is: list, get, check your own, describe a federation.",
}
"""The first line of each command's help; a command is defined in the module of the same name in this package."""

# the base class of usage errors, of which typer exports only subclasses
_UsageError: Any = next(cls for cls in typer.BadParameter.__mro__ if cls.__name__ == "ClickException")


def app_for(arguments: Sequence[str]) -> typer.Typer:
    """Return the command line, with the flags of the data, model and algorithm that ``arguments`` name.

    Only the module of the called command is imported (and torch with it); the others are listed in the help by name.
    """
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

    called = next((word for word in arguments if not word.startswith("-")), None)
    for name, about in ABOUT.items():
        if name == called:
            _add(app, name, arguments)
        else:
            app.command(name, short_help=about)(lambda: None)
    return app


def _add(app: typer.Typer, name: str, arguments: Sequence[str]) -> None:
    """Add a command from its module: a function, with generated flags if it has any, or an app with subcommands."""
    from manyheads.cli.flags import with_flags

    module = import_module(f"manyheads.cli.{name}")
    if hasattr(module, f"{name}_app"):
        app.add_typer(getattr(module, f"{name}_app")(arguments), name=name, help=ABOUT[name])
        return
    flags = getattr(module, f"{name}_flags", None)
    function = getattr(module, name)
    made = with_flags(function, flags(arguments), arguments) if flags else function
    app.command(name, short_help=ABOUT[name])(made)


def called(app: typer.Typer, arguments: Sequence[str]) -> int:
    """Call the command that ``arguments`` name; returns the exit code."""
    made = typer.main.get_command(app)
    try:
        # not main(), which has its own messages and exit codes for interrupts and closed pipes
        with made.make_context("manyheads", list(arguments)) as context:
            made.invoke(context)
    except typer.Exit as exit:
        return exit.exit_code
    except _UsageError as error:
        if not error.format_message():  # no command was named, and the help has been shown
            return 2
        if arguments[:1] and arguments[0] in ("run", "compare", "tune"):
            from manyheads.cli.given import refuse_unknown

            refuse_unknown(arguments)
        raise UserError(error.format_message()) from error
    return 0

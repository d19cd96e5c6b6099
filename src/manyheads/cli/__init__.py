"""The command ``manyheads``. Signals and errors are handled before the slow imports, and so during them too."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from manyheads.cli import stops

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0, 2 after an error, which is one line, 130 when stopped.

    Without ``arguments`` it is this process's own, and its signals and standard streams are seen to as well.
    """
    own = arguments is None
    words = list(sys.argv[1:] if arguments is None else arguments)
    if own:
        stops.at_once()
    from manyheads.cli import streams
    from manyheads.cli.failures import failed

    if own:
        streams.guard()
    try:
        from manyheads.cli.app import app_for, called

        app = app_for(words)  # slow where it imports torch
        if own:
            stops.by_interrupt()
        code = called(app, words)
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = stops.stopped()
    except Exception as error:
        code = stops.stopped() if stops.asked else failed(error, words)
    if own:
        stops.at_once()  # nothing is left to do
    sys.exit(code)

"""The command ``manyheads``. Signal handlers are installed before the slow imports, so that they work during them."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence

from manyheads.cli import stops

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 on success, 2 after an error (one line on standard error), 130 when stopped.

    Without ``arguments``, those of this process are used, and its signal handlers and standard streams are set up.
    """
    own = arguments is None
    words = list(sys.argv[1:] if arguments is None else arguments)
    if own:
        stops.at_once()
        gc.disable()  # imports make hundreds of thousands of objects, none of which is garbage
    from manyheads.cli import streams
    from manyheads.cli.failures import failed

    if own:
        streams.guard()
    try:
        from manyheads.cli.app import app_for, called

        app = app_for(words)  # slow: most commands import torch
        if own:
            stops.by_interrupt()
            gc.freeze()
            gc.enable()
        code = called(app, words)
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = stops.stopped()
    except Exception as error:
        code = stops.stopped() if stops.asked else failed(error, words)
    if own:
        stops.at_once()  # no work is left to clean up
        gc.freeze()  # nor any garbage, for which the interpreter would search on its way out
    sys.exit(code)

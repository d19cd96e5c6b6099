"""Looking at something periodically while other work goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["watching"]

SECONDS_BETWEEN_LOOKS = 0.3


@contextmanager
def watching(look: Callable[[], None]) -> Iterator[None]:
    """Call ``look`` periodically in a thread: worker processes show their progress only by the files they write."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(SECONDS_BETWEEN_LOOKS):
            look()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()

"""Memory that a worker process keeps for its next step."""

from __future__ import annotations

import ctypes
from contextlib import suppress

__all__ = ["keep_heap"]

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""numbers of the settings, from malloc.h"""
KEPT = 512 * 2**20
"""bytes that stay with the process when they are freed at the end of its heap"""
LARGEST = 32 * 2**20
"""bytes of a piece of memory that comes from the heap; the C library takes no more"""


def keep_heap() -> None:
    """Let the C library keep what is freed, as far as it can be told to.

    The arrays of a step have the sizes of those of the step before. By default the C library returns large ones to the
    system when they are freed, and each of their pages is then fetched and cleared anew.
    """
    with suppress(OSError, AttributeError):  # another C library
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(TRIM_THRESHOLD, KEPT)
        mallopt(MMAP_THRESHOLD, LARGEST)

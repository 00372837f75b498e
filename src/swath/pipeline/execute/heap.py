"""Heap: lets a worker keep the memory that it has freed. The tree of a page is made and freed for every item, and glibc
hands the top of the heap back to the system each time: two fifths of the time of parsing went into having it back.

Called once by worker.py, before the first page. Where the C library is another one, nothing happens.
"""

from __future__ import annotations

import ctypes
from typing import Final

__all__ = ["keep_freed_memory"]

_TRIM_THRESHOLD: Final = -1  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD: see mallopt(3)
_MMAP_THRESHOLD: Final = -3
KEPT_BYTES: Final = 32 << 20  # free at the top of the heap before any is handed back
LARGE_BYTES: Final = 4 << 20  # blocks from this size on are the system's own, and go back to it at once


def keep_freed_memory() -> None:
    """For the rest of the process."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # musl, macOS, Windows
        return
    mallopt(_TRIM_THRESHOLD, KEPT_BYTES)
    mallopt(_MMAP_THRESHOLD, LARGE_BYTES)

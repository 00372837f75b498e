"""Memory: how much a process has together with all that it started. launch.py asks in a thread, every few seconds."""

from __future__ import annotations

from contextlib import suppress

import psutil

__all__ = ["tree_bytes"]


def tree_bytes(root: int) -> int:
    try:
        processes = [psutil.Process(root), *psutil.Process(root).children(recursive=True)]
    except psutil.Error:
        return 0
    return sum(_bytes_of(process) for process in processes)


def _bytes_of(process: psutil.Process) -> int:
    """What it has for itself and its share of the rest; where that is not told, all that it has."""
    with suppress(psutil.Error, AttributeError, OSError):
        return int(process.memory_full_info().pss)
    with suppress(psutil.Error):
        return int(process.memory_info().rss)
    return 0

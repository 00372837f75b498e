"""A real process that is frozen inside a write transaction of one of our SQLite files, by our own code for writing."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

__all__ = ["freeze_in_transaction", "frozen_in", "holds_for_writing", "is_stopped", "until"]

PATIENCE_SECONDS: Final = 60.0  # of a machine that is busy with other tests

_STORE: Final = """
import asyncio, signal, sys, threading
from pathlib import Path
from swath.backends.clock import SystemClock
from swath.backends.sqlite.sites.site_file import SiteFile
from swath.backends.sqlite.store.store import SqliteStore

def stop_here(db, *_):
    # Sent to this very thread: one that is sent to the process may let this thread run on for a moment, to the commit.
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)

async def main(folder, which):
    if which == "sites.sqlite":
        file = SiteFile(folder / which, SystemClock())
        await file.write(stop_here)
        await file.close()
    else:
        store = SqliteStore.open(folder, SystemClock())
        await store._db.write(stop_here)
        await store.close()

asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
"""


@contextlib.contextmanager
def frozen_in(folder: Path, which: str = "swath.db", *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has stopped itself inside a transaction; it goes on after SIGCONT, and is ended at any rate."""
    process = subprocess.Popen([sys.executable, "-c", _STORE, str(folder), which, *arguments])
    try:
        until(lambda: is_stopped(process.pid), "the helper stops")
        yield process
    finally:
        process.kill()
        process.wait(PATIENCE_SECONDS)


def until(told: Callable[[], object], what: str) -> None:
    """Waits until the function answers with something true."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not told():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.005)


def is_stopped(pid: int) -> bool:
    """Whether the process is stopped by a signal."""
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "T"


def holds_for_writing(pid: int, file: Path) -> bool:
    """Whether /proc/locks says that the process has SQLite's lock for writing: byte 120 of the log's index."""
    index = Path(f"{file}-shm")
    wanted = f"WRITE {pid} ", f":{index.stat().st_ino} 120 120"
    lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    return any(all(part in f"{line} " or line.endswith(part) for part in wanted) for line in lines)


def freeze_in_transaction(pid: int, file: Path) -> None:
    """Stops a process again and again, until that is inside a transaction."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        os.kill(pid, signal.SIGSTOP)
        until(lambda: is_stopped(pid), "it stops")
        if holds_for_writing(pid, file):
            return
        os.kill(pid, signal.SIGCONT)
        assert time.monotonic() < deadline, "it never was inside a transaction"
        time.sleep(0.001)

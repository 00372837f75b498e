"""The ports at which controllers of this machine listen, so that no scraper can reach them (Z4).

Each controller holds a lock on a file named after its port. The egress guard of every process that shares the data
folder reads them, also in processes that started earlier.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from swath.backends.private_files import make_folder

__all__ = ["ListeningPorts"]

_SUFFIX: Final = ".port"
_FRESH_SECONDS: Final = 1.0


class ListeningPorts:
    """A container of ports: `8000 in ports`. Looks at the folder no more than once a second."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: frozenset[int] = frozenset()
        self._looked_at = -_FRESH_SECONDS

    def __contains__(self, port: object) -> bool:
        now = time.monotonic()
        if now - self._looked_at >= _FRESH_SECONDS:
            self._known, self._looked_at = frozenset(self._living()), now
        return port in self._known

    @contextmanager
    def listening(self, port: int) -> Iterator[None]:
        """Says so while the context lasts. Raises OSError when the file cannot be made."""
        make_folder(self._folder)
        path = self._folder / f"{port}{_SUFFIX}"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            # Two may have one port at two addresses; the lock is shared, and lasts as long as one of them does.
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            self._looked_at = -_FRESH_SECONDS
            yield
        finally:
            os.close(descriptor)

    def _living(self) -> Iterator[int]:
        with suppress(OSError):  # there is no such folder: nobody ever listened
            for path in self._folder.iterdir():
                if path.suffix == _SUFFIX and path.stem.isdecimal() and _is_locked(path):
                    yield int(path.stem)


def _is_locked(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe must not keep us waiting
    except FileNotFoundError:
        return False
    except OSError:  # somebody else's: rather one port too many
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False

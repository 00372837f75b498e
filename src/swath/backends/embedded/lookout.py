"""Lookout: notices that another process has changed the SQLite file, while somebody in this one listens.

Before: database.py starts it with the first listener and stops it with the last. After: the bulletin tells them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

__all__ = ["Lookout"]

LOOK_SECONDS: Final = 0.025
BLIND_SECONDS: Final = 1.0  # while nothing can be seen, something may have changed so often


class Lookout:
    """`look` answers with something that is other after each foreign commit, or None when it cannot tell; it fails
    when the store is closed. `seen` is what it last answered."""

    def __init__(self, look: Callable[[], object], notice: Callable[[], None], seen: object) -> None:
        self._look = look
        self._notice = notice
        self._seen = seen
        self._over = threading.Event()

    def start(self) -> None:
        """Looks at once, and then again and again, in a thread of its own."""
        self._over = threading.Event()
        threading.Thread(target=self._run, args=(self._over,), name="swath-store-news", daemon=True).start()

    def stop(self) -> None:
        """The thread ends soon; nobody waits for it."""
        self._over.set()

    def _run(self, over: threading.Event) -> None:
        while not over.is_set():
            try:
                seen = self._look()
            except RuntimeError:  # the store's threads are gone
                return
            if seen is None or seen != self._seen:
                self._seen = seen
                self._notice()
            over.wait(BLIND_SECONDS if seen is None else LOOK_SECONDS)

"""News: which jobs have changed, for those who watch (entrypoints/api: event streams, and scrapes that are waited for).

It is a hint: whoever hears it reads the store. What this process has changed itself is told at once and by name; that
others have changed something is noticed as soon as that costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

__all__ = ["News"]


class News(Protocol):
    """One listener's end; it has missed nothing since it was made or last asked. Used from one event loop."""

    async def hear(self, seconds: float) -> Collection[str] | None:
        """Returns when a job may have changed, or after so many seconds. The ids of the changed jobs (none when the
        time is over), or None when any may have."""
        ...

    def close(self) -> None:
        """Listens no more."""
        ...

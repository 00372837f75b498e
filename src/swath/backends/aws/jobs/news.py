"""AwsNews: which jobs change, as far as that can be told without asking the table. Implements ports/news.py.

heads.py tells of every change that this process makes. What others change is not looked for: whoever listens is told
once a second that any job may have changed, and reads what it cares about.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Final

from swath.backends.bulletin import Listener

__all__ = ["ANY_SECONDS", "AwsNews"]

ANY_SECONDS: Final = 1.0
_EARLY_SECONDS: Final = 0.01  # by which a timer may be


class AwsNews:
    """Implements News. While nobody waits in `hear` nothing runs."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._any_at = time.monotonic() + ANY_SECONDS

    async def hear(self, seconds: float) -> Collection[str] | None:
        changed = await self._listener.hear(max(0.0, min(seconds, self._any_at - time.monotonic())))
        late_seconds = time.monotonic() - self._any_at + _EARLY_SECONDS
        # Names come first, but not for ever: else a busy process would never hear of what others change.
        if late_seconds < 0 or (changed and late_seconds < ANY_SECONDS):
            return changed
        self._any_at = time.monotonic() + ANY_SECONDS
        return None

    def close(self) -> None:
        self._listener.close()

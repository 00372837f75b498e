"""Backoff: how long the pool waits before it starts another browser after one did not start, or died at once."""

from __future__ import annotations

import logging

from swath.browser.pool.limits import PoolOptions
from swath.domain.errors import Failed
from swath.ports.clock import Clock

__all__ = ["Backoff"]

_log = logging.getLogger(__name__)


class Backoff:
    """Each failure in a row doubles the wait, until a browser has served a page. `trouble` is why, while it lasts."""

    def __init__(self, options: PoolOptions, clock: Clock) -> None:
        self._options = options
        self._clock = clock
        self._in_a_row = 0
        self._again_at = 0.0
        self.trouble: str | None = None

    @property
    def wait_seconds(self) -> float:
        """Until the next start; zero when one may be made now."""
        return max(0.0, self._again_at - self._clock.boot())

    def failed(self, error: Exception) -> float:
        """It did not start. How long to wait."""
        why = error.failure.message if isinstance(error, Failed) else f"{type(error).__name__}: {error}"
        wait = self._hold_off(why, self._in_a_row)
        _log.warning("a browser did not start; the next try is in %.0f s: %s", wait, why)
        return wait

    def died_early(self, why: str) -> float:
        """It died before it had served a page, which may happen once without any wait."""
        return self._hold_off(f"{why} before it served a page", self._in_a_row - 1)

    def started(self) -> None:
        """It runs; what that is worth will be seen."""
        self.trouble = None

    def works(self) -> None:
        """It has served a page."""
        self._in_a_row, self._again_at, self.trouble = 0, 0.0, None

    def _hold_off(self, why: str, doublings: int) -> float:
        options = self._options
        wait = options.first_backoff_seconds * 2.0 ** min(doublings, 32) if doublings >= 0 else 0.0
        wait = min(options.longest_backoff_seconds, wait)
        self._in_a_row += 1
        self._again_at = self._clock.boot() + wait
        self.trouble = why
        return wait

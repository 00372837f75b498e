"""Member: one browser of the pool with its books, and the pool's figures. pool.py keeps several; limits.py judges."""

from __future__ import annotations

import asyncio

import msgspec

from swath.browser.chromium.running import Running
from swath.browser.pool.limits import PoolOptions, Use, why_due
from swath.browser.pool.place import Place

__all__ = ["Member", "PoolStats"]


class PoolStats(msgspec.Struct, frozen=True, kw_only=True):
    """`total`, `available` and `in_use` count places. `trouble` is why the last start failed, while it does."""

    total: int
    available: int
    in_use: int
    waiting: int
    pages_processed: int
    recycled_count: int
    crashed_count: int
    browsers: int
    memory_bytes: int
    versions: tuple[str, ...]
    trouble: str | None


class Member:
    """One browser and its books. `due`: why it takes nobody any more, which lasts."""

    def __init__(self, running: Running, started_at: float) -> None:
        self.running = running
        self.started_at = started_at
        self.pages = 0
        self.memory_bytes = 0
        self.places: set[Place] = set()
        self.due: str | None = None
        self.watch: asyncio.Task[None] | None = None

    def judge(self, options: PoolOptions, now: float) -> None:
        """Sees whether it is due by now."""
        if self.due is None:
            use = Use(
                pages=self.pages,
                in_use=len(self.places),
                memory_bytes=self.memory_bytes,
                age_seconds=now - self.started_at,
            )
            self.due = why_due(options, use)

    def enter(self) -> Place:
        """One more place in it."""
        place = Place(self.running)
        self.places.add(place)
        return place

    def lose(self, why: str) -> None:
        """It is gone, and all places with it."""
        for place in self.places:
            place.lose(why)

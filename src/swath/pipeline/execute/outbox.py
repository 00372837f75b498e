"""Outbox: ends of items on their way to the store, collected into groups.

Before: runner.py puts them in. After: committer.py takes a group when it is large enough, old enough (the sooner if
something failed), when nothing else is running, so that a lone item does not wait, or when one after the other fails.
"""

from __future__ import annotations

import asyncio

import msgspec

from swath.domain.attempt import Ended, Finding, HandedBack
from swath.domain.result import Result
from swath.domain.transitions import ItemState

__all__ = ["GROUP_ITEMS", "GROUP_SECONDS", "Outbox", "Outcome", "worries"]

GROUP_ITEMS = 200
GROUP_SECONDS = 0.05
FAILED_IN_A_ROW = 3  # so many hurry, because a circuit may be about to open, and nothing is known before the commit
CROWDED_GROUPS = 2
CROWDED_BYTES = 64 * 1024 * 1024


class Outcome(msgspec.Struct, frozen=True):
    """An item's way out of a lease, with what is to be stored for it."""

    item_id: str
    end: Ended | HandedBack
    result: Result | None = None

    @property
    def size(self) -> int:
        """Bytes it keeps in memory."""
        if self.result is None:
            return 0
        size = 0  # asked of every item, and most have a single page
        for page in self.result.pages:
            size += len(page.body)
        for download in self.result.downloads:
            size += len(download.body)
        return size


class Outbox:
    """Bounded by `crowded`: while it is, the runner starts nothing. `heeds_failures`: several in a row make it so.
    `group_items` are as many as one commit takes."""

    def __init__(self, *, heeds_failures: bool = True, group_items: int = GROUP_ITEMS) -> None:
        self._heeds_failures = heeds_failures
        self._group_items = group_items
        self._outcomes: list[Outcome] = []
        self._bytes = 0
        self._taken_bytes = 0  # of the group that is being committed
        self._failed_in_a_row = 0
        self._bad_news = 0
        self._gathers_on = False
        self._some = asyncio.Event()
        self._group = asyncio.Event()

    def __len__(self) -> int:
        return len(self._outcomes)

    @property
    def unstored_bytes(self) -> int:
        """What is kept in memory here until it is stored, with the group that is being committed."""
        return self._bytes + self._taken_bytes

    @property
    def crowded(self) -> bool:
        """Whether the store is so far behind that starting more would only pile up pages, or failures."""
        failing = self._heeds_failures and bool(self._outcomes) and self._failed_in_a_row >= FAILED_IN_A_ROW
        return failing or len(self._outcomes) >= CROWDED_GROUPS * self._group_items or self._bytes >= CROWDED_BYTES

    def put(self, outcome: Outcome, *, idle: bool) -> None:
        """Adds one; `idle` says that nothing else runs which a group could wait for."""
        self._outcomes.append(outcome)
        self._bytes += outcome.size
        self._bad_news += worries(outcome.end)
        self._some.set()
        if isinstance(outcome.end, Ended):
            self._failed_in_a_row = self._failed_in_a_row + 1 if outcome.end.state is ItemState.FAILED else 0
        if idle or len(self._outcomes) >= self._group_items or self.crowded or (self._gathers_on and self._worries):
            self._group.set()

    @property
    def _worries(self) -> bool:
        """Whether a circuit may be nearer to opening by what is in it, which others hear of with the commit only."""
        return self._bad_news > 0

    def hurry(self) -> None:
        """Lets a waiting `group` return at once, with what there is."""
        self._some.set()
        self._group.set()

    def clear(self) -> None:
        """Forgets everything."""
        self._outcomes.clear()
        self._bytes = self._bad_news = 0
        self.hurry()

    async def group(
        self, patience_seconds: float, group_seconds: float = GROUP_SECONDS, longest_seconds: float = 0.0
    ) -> list[Outcome]:
        """The next group; empty when nothing came within `patience_seconds` or somebody is in a hurry.

        The first that ends waits no longer than `group_seconds` for others, or, if all is well, `longest_seconds`.
        The group before counts as stored from now on.
        """
        self._taken_bytes = 0
        if not self._outcomes:
            await _set_within(self._some, patience_seconds)
        if self._outcomes and len(self._outcomes) < self._group_items:
            await _set_within(self._group, group_seconds)
            if longest_seconds > group_seconds and not self._group.is_set() and not self._worries:
                await self._gather_on(longest_seconds - group_seconds)
        taken, self._outcomes = self._outcomes[: self._group_items], self._outcomes[self._group_items :]
        before, self._bytes = self._bytes, sum(outcome.size for outcome in self._outcomes)  # mostly of none
        self._taken_bytes = before - self._bytes
        self._bad_news = sum(worries(outcome.end) for outcome in self._outcomes)
        if not self._outcomes:
            self._some.clear()
            self._group.clear()
        return taken

    async def _gather_on(self, seconds: float) -> None:
        self._gathers_on = True
        await _set_within(self._group, seconds)
        self._gathers_on = False


def worries(end: Ended | HandedBack) -> bool:
    """Whether an end is bad news."""
    return isinstance(end, Ended) and (end.state is ItemState.FAILED or end.finding is Finding.NOT_FOUND)


async def _set_within(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return

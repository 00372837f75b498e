"""Collects outcomes into groups for the committer, and decides how long a group is gathered.

A group is committed when it is large enough or old enough, when nothing else runs, or after failures in a row. Where
many workers share a job their commits wait for each other, so slow answers make groups longer.
"""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from swath.domain.item import EndedItem, HandedBackItem, SuccessOutcome
from swath.domain.result import Result
from swath.domain.transitions import ItemState

__all__ = ["GROUP_ITEMS", "GROUP_SECONDS", "CommitInterval", "Outcome", "OutcomeBuffer", "is_bad_news"]

GROUP_ITEMS = 200
GROUP_SECONDS = 0.05
FAILED_IN_A_ROW = 3  # so many hurry, because a circuit may be about to open, and nothing is known before the commit
MAX_BUFFERED_GROUPS = 2
MAX_BUFFERED_BYTES = 64 * 1024 * 1024


class Outcome(msgspec.Struct, frozen=True):
    """An item's way out of a lease, with what is to be stored for it."""

    item_id: str
    end: EndedItem | HandedBackItem
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


class OutcomeBuffer:
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
        return (
            failing
            or len(self._outcomes) >= MAX_BUFFERED_GROUPS * self._group_items
            or self._bytes >= MAX_BUFFERED_BYTES
        )

    def put(self, outcome: Outcome, *, idle: bool) -> None:
        """Adds one; `idle` says that nothing else runs which a group could wait for."""
        self._outcomes.append(outcome)
        self._bytes += outcome.size
        self._bad_news += is_bad_news(outcome.end)
        self._some.set()
        if isinstance(outcome.end, EndedItem):
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
            await _wait_within(self._some, patience_seconds)
        if self._outcomes and len(self._outcomes) < self._group_items:
            await _wait_within(self._group, group_seconds)
            if longest_seconds > group_seconds and not self._group.is_set() and not self._worries:
                await self._gather_on(longest_seconds - group_seconds)
        taken, self._outcomes = self._outcomes[: self._group_items], self._outcomes[self._group_items :]
        before, self._bytes = self._bytes, sum(outcome.size for outcome in self._outcomes)  # mostly of none
        self._taken_bytes = before - self._bytes
        self._bad_news = sum(is_bad_news(outcome.end) for outcome in self._outcomes)
        if not self._outcomes:
            self._some.clear()
            self._group.clear()
        return taken

    async def _gather_on(self, seconds: float) -> None:
        self._gathers_on = True
        await _wait_within(self._group, seconds)
        self._gathers_on = False


def is_bad_news(end: EndedItem | HandedBackItem) -> bool:
    """Whether an end is bad news."""
    return isinstance(end, EndedItem) and (end.state is ItemState.FAILED or end.finding is SuccessOutcome.NOT_FOUND)


async def _wait_within(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return


MIN_SLOT_REQUEST_SECONDS: Final = 0.05  # between words to the store while it owes us slots, or a part of the group time
SLOT_REQUEST_GROUP_FRACTION: Final = 0.25
EAGER_SLOT_REQUESTS: Final = (
    4  # in vain, before we become patient: by then others have ended an item, if items are short
)
MAX_SLOT_REQUEST_FACTOR: Final = 8.0  # as long, at most, when asking has brought nothing
SLOT_REQUEST_ROUND_TRIPS: Final = 3.0  # and no more often than in so many times what a word takes
GATHER_ROUND_TRIPS: Final = (
    12.0  # a group is gathered for so many times what a word takes, so that some 1/12 of the time is spent waiting
)
MAX_LEASE_FRACTION: Final = 1.0 / 6.0  # of a lease's time, the longest between two words
SMOOTHING: Final = 0.3  # of the average is the last word


class CommitInterval:
    """`group_seconds` and `report_seconds` as configured are the shortest, while the store answers at once."""

    def __init__(self) -> None:
        self._word_seconds = 0.0
        self._in_vain = 0

    def took(self, seconds: float) -> None:
        """A word was answered after so long, all waiting included."""
        self._word_seconds += SMOOTHING * (seconds - self._word_seconds)

    def asked(self, *, in_vain: bool) -> None:
        """The store owed us slots, and has given some or none."""
        self._in_vain = min(self._in_vain + 1, 10) if in_vain else 0

    def gather_seconds(self, shortest: float, lease_seconds: float) -> float:
        """How long an end waits for others, or the next report for an end."""
        return max(shortest, min(GATHER_ROUND_TRIPS * self._word_seconds, MAX_LEASE_FRACTION * lease_seconds))

    def hungry_seconds(self, group_seconds: float, lease_seconds: float) -> float:
        """How long to wait before the store is asked again for slots that it owes us."""
        first = max(MIN_SLOT_REQUEST_SECONDS, SLOT_REQUEST_GROUP_FRACTION * group_seconds)
        patient = first * min(MAX_SLOT_REQUEST_FACTOR, 2.0 ** max(0, self._in_vain - EAGER_SLOT_REQUESTS))
        return max(patient, min(SLOT_REQUEST_ROUND_TRIPS * self._word_seconds, MAX_LEASE_FRACTION * lease_seconds))

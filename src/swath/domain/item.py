"""Items of a job, their attempts, and how an item leaves a lease: ended, or returned to wait.

Also: which items a filter or a retry selects, and how many bytes of items are held in memory at once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from typing import Any, Final, TypeVar

import msgspec

from swath.domain.failure import Failure, FailureKind
from swath.domain.result import Artifact
from swath.domain.transitions import ItemState

__all__ = [
    "ITEM_ID_LIMIT",
    "LEASE_BYTES",
    "NO_COST",
    "PAGE_BYTES",
    "PART_BYTES",
    "Attempt",
    "ByteBudget",
    "EarlierEnd",
    "EndedItem",
    "HandedBackItem",
    "Item",
    "ItemFilter",
    "ItemRecord",
    "RetrySelection",
    "SuccessOutcome",
    "TryCounts",
    "derive_item_id",
    "item_bytes",
]


class SuccessOutcome(StrEnum):
    """What a successful item found: a record, or the site's word that there is none."""

    FOUND = "found"
    NOT_FOUND = "not_found"


NO_COST: Final = 0.0  # this very object is left out where attempts are written


class Attempt(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One try at an item. Times are Unix seconds; `bytes` is what came over the wire for it.

    `proxy_tier` is the dearest way out that it took, `cost` what that is reckoned to cost, in the operator's money.
    `cache_hits` are answers that it got without a request.
    """

    started_at: float
    ended_at: float
    worker: str
    failure: Failure | None = None
    bytes: int = 0
    requests: int = 0
    proxy_tier: str = "none"
    cost: float = NO_COST
    cache_hits: int = 0


class TryCounts(msgspec.Struct, frozen=True, gc=False):
    """The three counters of an item: its own tries, infrastructure tries, and deaths of its worker."""

    own: int = 0
    infrastructure: int = 0
    crashes: int = 0


class EndedItem(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An item has reached a terminal state; counts only if the lease still holds it."""

    seq: int
    state: ItemState
    finding: SuccessOutcome | None = None
    failure: Failure | None = None
    reason: str | None = None
    attempts: tuple[Attempt, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    tries: TryCounts = TryCounts()
    scraper_version: str = ""

    @property
    def cost(self) -> float:
        """Of all its attempts."""
        return sum(attempt.cost for attempt in self.attempts)


class HandedBackItem(msgspec.Struct, frozen=True, kw_only=True):
    """An item goes back to the store unfinished: to wait for a retry, or because its worker stops."""

    seq: int
    delay_seconds: float = 0.0
    attempts: tuple[Attempt, ...] = ()
    tries: TryCounts = TryCounts()


ITEM_ID_LIMIT = 1_000  # characters; keys stay below every file system's limits by splitting


class Item(msgspec.Struct, frozen=True, gc=False):
    """One input on its way into a job. `seq` is the number of its row in the source, from 1, gaps allowed."""

    seq: int
    item_id: str
    input: dict[str, Any]


class EarlierEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How an item ended in an earlier generation. `ended_at` in Unix seconds."""

    generation: int
    ended_at: float
    end: EndedItem


class ItemRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """All that the store knows of an item. `not_before` is in Unix seconds and set only while it waits.

    `generation` and `ended_at` are those of its end, once it has ended. `earlier` are its ends in generations before
    the one it is in now, the oldest first; only a look at a single item has them.
    """

    seq: int
    item_id: str
    input: dict[str, Any]
    state: ItemState
    fence: int = 0
    finding: SuccessOutcome | None = None
    failure: Failure | None = None
    reason: str | None = None
    attempts: tuple[Attempt, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    tries: TryCounts = TryCounts()
    not_before: float | None = None
    scraper_version: str = ""
    generation: int = 0
    ended_at: float | None = None
    suspect: bool = False
    earlier: tuple[EarlierEnd, ...] = ()


class ItemFilter(msgspec.Struct, frozen=True):
    """Which items somebody wants to see: those in `state`, and those that ended by `kind` of failure, as far as given.

    `kind` may be `not_found`, too.
    """

    state: ItemState | None = None
    kind: str | None = None

    def takes(self, record: ItemRecord) -> bool:
        """Whether the item is among them."""
        if self.state is not None and record.state is not self.state:
            return False
        found = record.failure.kind.value if record.failure is not None else record.finding
        return self.kind is None or (record.state.terminal and found == self.kind)


def derive_item_id(input_: dict[str, Any]) -> str:
    """Names an item after its input: the value itself when there is one plain field, else a hash of the whole."""
    if len(input_) == 1:
        (value,) = input_.values()
        if isinstance(value, (str, int)) and not isinstance(value, bool) and 0 < len(str(value)) <= ITEM_ID_LIMIT:
            return str(value)
    canonical = msgspec.json.encode(input_, order="deterministic")
    return hashlib.sha256(canonical).hexdigest()[:20]


LEASE_BYTES: Final = 4 * 1024 * 1024  # of inputs in one lease; a claim writes their rows anew in one transaction
PAGE_BYTES: Final = 8 * 1024 * 1024  # of inputs and ends in one reading of items
PART_BYTES: Final = 16 * 1024 * 1024  # of entries in one part of a manifest list

T = TypeVar("T")

_encode: Final = msgspec.json.Encoder().encode


class ByteBudget:
    """Takes things in order until it is full. The first is always taken, however large it is."""

    def __init__(self, most_bytes: int) -> None:
        self._left = most_bytes
        self._empty = True
        self.full = False

    def take(self, things: Iterable[T], size: Callable[[T], int]) -> Iterator[T]:
        """Yields those that fit; the one that does not fit any more is the last that is looked at."""
        if self.full:
            return
        for thing in things:
            self._left -= size(thing)
            if self._left < 0 and not self._empty:
                self.full = True
                return
            self._empty = False
            yield thing


def item_bytes(item: Item | ItemRecord) -> int:
    """The size of its input as JSON, about as much as it takes in memory."""
    return len(_encode(item.input))


class RetrySelection(msgspec.Struct, frozen=True, kw_only=True):
    """Items that fit any of the first four; `since` narrows them to what ended then or later.

    `since` alone takes everything that ended then or later, successes too. `not_run` is what was cancelled.
    """

    failed: bool = False
    kinds: frozenset[FailureKind] = frozenset()
    not_run: bool = False
    item_ids: frozenset[str] = frozenset()
    since: float | None = None

    @property
    def by_kind(self) -> bool:
        """Whether anything but the time decides."""
        return bool(self.failed or self.kinds or self.not_run or self.item_ids)

    @property
    def empty(self) -> bool:
        """Whether nothing was asked for."""
        return not self.by_kind and self.since is None

    def takes(self, item_id: str, state: ItemState, kind: FailureKind | None, ended_at: float) -> bool:
        """Whether an ended item is among them. `ended_at` in Unix seconds, as the store wrote its end."""
        if self.since is not None and ended_at < self.since:
            return False
        if not self.by_kind:
            return self.since is not None
        return (
            (self.failed and state is ItemState.FAILED)
            or (state is ItemState.FAILED and kind in self.kinds)
            or (self.not_run and state is ItemState.CANCELLED)
            or item_id in self.item_ids
        )

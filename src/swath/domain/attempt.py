"""Attempt, and the two ways in which a leased item comes back to the store: ended, or handed back to wait.

Made by the worker, written by `finish` in one commit with the counters.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from swath.domain.failure import Failure
from swath.domain.result import Artifact
from swath.domain.transitions import ItemState

__all__ = ["NO_COST", "Attempt", "Ended", "Finding", "HandedBack", "Tries"]


class Finding(StrEnum):
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


class Tries(msgspec.Struct, frozen=True, gc=False):
    """The three counters of an item: its own tries, infrastructure tries, and deaths of its worker."""

    own: int = 0
    infrastructure: int = 0
    crashes: int = 0


class Ended(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An item has reached a terminal state; counts only if the lease still holds it."""

    seq: int
    state: ItemState
    finding: Finding | None = None
    failure: Failure | None = None
    reason: str | None = None
    attempts: tuple[Attempt, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    tries: Tries = Tries()
    scraper_version: str = ""

    @property
    def cost(self) -> float:
        """Of all its attempts."""
        return sum(attempt.cost for attempt in self.attempts)


class HandedBack(msgspec.Struct, frozen=True, kw_only=True):
    """An item goes back to the store unfinished: to wait for a retry, or because its worker stops."""

    seq: int
    delay_seconds: float = 0.0
    attempts: tuple[Attempt, ...] = ()
    tries: Tries = Tries()

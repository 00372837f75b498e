"""Shares: how much each caller holds at once, so that nobody takes what is there for all (I5): requests under way, and
event streams. Before: gate.py knows the caller. After: the share is given back when the request ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from swath.domain.service_key import Scope
from swath.entrypoints.api.doorkeeper import Caller
from swath.entrypoints.api.errors import ApiError, ErrorCode

__all__ = ["MOST_STREAMS", "RESERVED_STREAMS", "Shares"]

MOST_STREAMS: Final = 1_000  # of a controller
RESERVED_STREAMS: Final = 50  # beyond those, for keys of `admin`
AGAIN_SECONDS: Final = 10.0


class Shares:
    """One per controller."""

    def __init__(self) -> None:
        self._requests: Counter[str] = Counter()
        self._streams: Counter[str] = Counter()

    @contextmanager
    def request(self, caller: Caller, most: int) -> Iterator[None]:
        """One request of that caller is under way. Raises ApiError rate_limited when `most` are already."""
        with _held(self._requests, caller, most, "requests under way", "SWATH_REQUESTS_AT_ONCE"):
            yield

    @contextmanager
    def stream(self, caller: Caller, most: int) -> Iterator[None]:
        """One of the caller's event streams. Raises ApiError rate_limited when it has `most`, or all have too many."""
        room = MOST_STREAMS + (RESERVED_STREAMS if Scope.ADMIN in caller.scopes else 0)
        if self._streams.total() >= room:
            raise _too_many("no more event streams can be opened here just now")
        with _held(self._streams, caller, most, "event streams open", "SWATH_STREAMS_PER_KEY"):
            yield


@contextmanager
def _held(counted: Counter[str], caller: Caller, most: int, what: str, setting: str) -> Iterator[None]:
    who = caller.name
    if counted[who] >= most:
        whose = "this address" if caller.key_id is None else "this key"
        raise _too_many(f"{whose} has {counted[who]:,} {what}, and may not have more ({setting})")
    counted[who] += 1
    try:
        yield
    finally:
        counted[who] -= 1
        if not counted[who]:
            del counted[who]


def _too_many(told: str) -> ApiError:
    return ApiError(ErrorCode.RATE_LIMITED, told, retry_after=AGAIN_SECONDS)

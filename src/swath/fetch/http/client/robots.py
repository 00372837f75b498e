"""Fetches robots.txt (RFC 9309) once per site for all workers and keeps it for a day.

Parsed by protego; shared through the site store.
"""

from __future__ import annotations

import asyncio
import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import urlsplit

from protego import Protego

from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.fetch.http.messages import Response
from swath.ports.clock import Clock
from swath.ports.site_state import CachedRobots, SiteState

__all__ = ["FetchRobots", "RobotsCache", "RobotsRules"]

FetchRobots = Callable[[str], Awaitable[Response]]

KEEP_SECONDS: Final = 24 * 3_600.0
KEEP_REFUSAL_SECONDS: Final = 300.0  # a 5xx denies everything; it may soon be over
LARGEST_BYTES: Final = 500 * 1024  # what lies beyond is not read, as the standard allows
MOST_HOPS: Final = 5
LONGEST_DELAY_SECONDS: Final = 300.0  # a crawl-delay above it is taken for this
_FETCH_SECONDS: Final = 60.0
_ASK_AGAIN_SECONDS: Final = 0.05
_LEAST_LEFT_SECONDS: Final = 60.0
_MOST_ORIGINS: Final = 1_000


class RobotsRules:
    """What a robots.txt says to us."""

    __slots__ = ("_agent", "_parsed", "denies_all", "interval_seconds", "warned")

    def __init__(self, kept: CachedRobots, agent: str) -> None:
        self._agent = agent
        self._parsed: Protego | None = None
        self.denies_all = kept.status >= 500
        self.warned = False  # that it is not obeyed
        self.interval_seconds = 0.0
        if 200 <= kept.status < 300 and kept.body.strip():
            self._parsed = Protego.parse(_normalized(kept.body[:LARGEST_BYTES], agent))
            self.interval_seconds = min(LONGEST_DELAY_SECONDS, _interval(self._parsed, agent))

    def allow(self, url: str) -> bool:
        """Whether the address may be fetched."""
        if self._parsed is None:
            return not self.denies_all
        return bool(self._parsed.can_fetch(url, self._agent))


def _normalized(body: bytes, agent: str) -> str:
    """Without a byte-order mark, which may also say that it is UTF-16; with `User-agent: Swath/1.0` as plain `swath`:
    the parser compares whole values, the standard only the product token at their beginning."""
    encoding = "utf-16" if body.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else "utf-8-sig"
    text = "\n".join(body.decode(encoding, "replace").splitlines())
    ours = rf"(?im)^([ \t]*user[- ]?agent[ \t]*:[ \t]*){re.escape(agent)}(?![\w-])[^\n#]*"
    return re.sub(ours, lambda line: line[1] + agent, text)


def _interval(parsed: Protego, agent: str) -> float:
    delay = parsed.crawl_delay(agent) or 0.0
    rate = parsed.request_rate(agent)
    return max(delay, rate.seconds / rate.requests if rate is not None and rate.requests else 0.0)


class RobotsCache:
    """Process-wide. Only one process at a time fetches the file of an origin."""

    def __init__(self, book: SiteState, clock: Clock, agent: str = "swath") -> None:
        self._book = book
        self._clock = clock
        self._agent = agent
        self._known: dict[str, tuple[RobotsRules, float]] = {}  # and until when, on the boot clock
        self._fetching: dict[str, asyncio.Lock] = {}

    async def rules(self, url: str, fetch: FetchRobots) -> RobotsRules:
        """The rules of the address's origin, fetched if nobody has them.

        Raises Failed as the fetch does: a site that cannot be reached has not denied anything.
        """
        origin = _origin(url)
        known = self._known.get(origin)
        if known is not None and self._clock.boot() < known[1]:
            return known[0]
        async with self._fetching.setdefault(origin, asyncio.Lock()):
            known = self._known.get(origin)
            if known is None or self._clock.boot() >= known[1]:
                known = await self._shared(origin, fetch)
                if len(self._known) >= _MOST_ORIGINS:
                    oldest = next(iter(self._known))
                    del self._known[oldest], self._fetching[oldest]
                self._known[origin] = known
        return known[0]

    async def _shared(self, origin: str, fetch: FetchRobots) -> tuple[RobotsRules, float]:
        while True:
            kept = await self._book.robots(origin, _FETCH_SECONDS)
            if kept is None:
                await self._clock.sleep(_ASK_AGAIN_SECONDS)
                continue
            if kept.status == 0:
                kept = await self._fetched(origin, fetch)
            return RobotsRules(kept, self._agent), self._clock.boot() + self._left_seconds(kept)

    def _left_seconds(self, kept: CachedRobots) -> float:
        """How long it is kept here, which a jump of the wall clock since it was fetched neither ends nor prolongs."""
        keep_seconds = _keep_seconds(kept)
        left = kept.fetched_at + keep_seconds - self._clock.now()
        return min(keep_seconds, max(_LEAST_LEFT_SECONDS, left))

    async def _fetched(self, origin: str, fetch: FetchRobots) -> CachedRobots:
        try:
            response = await fetch(origin + "/robots.txt")
            kept = CachedRobots(_effective_status(response), response.body[:LARGEST_BYTES], self._clock.now())
        except BaseException:
            await self._book.keep_robots(origin, CachedRobots(0), 0.0)  # the next who asks is to fetch it, at once
            raise
        await self._book.keep_robots(origin, kept, _keep_seconds(kept))
        return kept


def _effective_status(response: Response) -> int:
    """The status that counts. Raises Failed where the file says nothing now, but will."""
    if response.status == 429:
        message = "the site is too busy to tell its robots.txt (HTTP 429)"
        raise Failed(Failure.of(FailureKind.RATE_LIMITED, message))
    return response.status if not 300 <= response.status < 400 else 404  # too many hops: as if there were none


def _keep_seconds(kept: CachedRobots) -> float:
    return KEEP_REFUSAL_SECONDS if kept.status >= 500 else KEEP_SECONDS


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"

"""Responses shared by the items of a job, for jobs with `cache_responses`: identical requests are sent once.

Held in memory, one cache per process.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Final, NamedTuple

from swath.domain.errors import Failed
from swath.domain.result import Page
from swath.fetch.http.messages import Headers, Request
from swath.fetch.url import canonical
from swath.observability.counters import FIGURES

__all__ = ["AttemptCache", "CacheKey", "PendingFetch", "ResponseCache", "cache_key", "is_cacheable"]

MOST_BYTES: Final = 32 * 1024 * 1024
MOST_ANSWERS: Final = 1_000
LARGEST_BYTES: Final = 4 * 1024 * 1024
IDLE_SECONDS: Final = 600.0

_SAFE_METHODS: Final = frozenset({"GET", "HEAD"})
_BYPASS: Final = frozenset({"no-cache", "no-store"})
_NO_STORE: Final = frozenset({"no-store"})


class CacheKey(NamedTuple):
    """What makes two requests the same. All headers count, cookies and credentials too: no session sees another's."""

    job_id: str
    method: str
    url: str
    headers: Headers
    largest_bytes: int | None


def cache_key(job_id: str, request: Request) -> CacheKey | None:
    """None for what is always sent: another method than GET or HEAD, a body, or a `Cache-Control` that says so."""
    if request.method not in _SAFE_METHODS or request.body or _has_directive(request.headers, "cache-control", _BYPASS):
        return None
    # Sorted by name alone, and stable: of several headers of one name the order may mean something.
    headers = sorted(((name.lower(), value) for name, value in request.headers), key=lambda header: header[0])
    return CacheKey(job_id, request.method, canonical(request.url), tuple(headers), request.largest_bytes)


def is_cacheable(page: Page) -> bool:
    """Whether others may get an answer that was judged to be a page. One that hands out cookies begins a session."""
    headers = () if page.exchange is None else page.exchange.response_headers
    return (
        200 <= page.status < 300
        and len(page.body) <= LARGEST_BYTES
        and not any(name == "set-cookie" for name, _ in headers)
        and not _has_directive(headers, "cache-control", _NO_STORE)
        and not _has_directive(headers, "vary", frozenset({"*"}))
    )


def _has_directive(headers: Headers, name: str, words: frozenset[str]) -> bool:
    """Whether one of the words stands in the list that a header is."""
    return any(
        word.partition("=")[0].strip().lower() in words
        for known, value in headers
        if known.lower() == name
        for word in value.split(",")
    )


class ResponseCache:
    """One per process, bounded over all its jobs: what was longest not asked for goes first."""

    __slots__ = ("_asked_for", "_fetching", "_kept", "_sweeps", "bytes", "most_answers", "most_bytes")

    def __init__(self, most_bytes: int = MOST_BYTES, most_answers: int = MOST_ANSWERS) -> None:
        self.most_bytes = most_bytes
        self.most_answers = most_answers
        self.bytes = 0
        # None: that answer is not to be kept, so nobody need wait for it.
        self._kept: OrderedDict[CacheKey, Page | None] = OrderedDict()
        self._fetching: dict[CacheKey, asyncio.Future[Page | None]] = {}
        self._asked_for: set[str] = set()  # jobs, since the last sweep
        self._sweeps = False

    def __len__(self) -> int:
        return len(self._kept)

    async def find(self, key: CacheKey, waiting: Callable[[], AbstractContextManager[None]]) -> Page | PendingFetch:
        """The answer, if need be of a request that is under way, or a claim: the caller is to send the request."""
        self._asked_for.add(key.job_id)
        while True:
            if key in self._kept:
                self._kept.move_to_end(key)
                page = self._kept[key]
                return PendingFetch(self, key) if page is None else page
            under_way = self._fetching.get(key)
            if under_way is None:
                self._fetching[key] = asyncio.get_running_loop().create_future()
                return PendingFetch(self, key, self._fetching[key])
            with waiting():
                await asyncio.wait((under_way,))  # it is others' too, so our cancellation must not reach it
            if not under_way.cancelled():  # else whoever fetched it is gone, and the next one does
                page = under_way.result()
                return PendingFetch(self, key) if page is None else page

    def put(self, key: CacheKey, page: Page | None) -> None:
        """Keeps an answer, or that it is none to keep, in the place of the former."""
        self.drop((key,))
        self._kept[key] = page
        self.bytes += _size(key, page)
        while self._kept and (self.bytes > self.most_bytes or len(self._kept) > self.most_answers):
            self.drop((next(iter(self._kept)),))
        if not self._sweeps:
            self._sweeps = True
            asyncio.get_running_loop().call_later(IDLE_SECONDS, self._sweep_again)

    def drop(self, keys: Iterable[CacheKey]) -> None:
        """Forgets them."""
        for key in keys:
            if key in self._kept:
                self.bytes -= _size(key, self._kept.pop(key))

    def sweep(self) -> None:
        """Forgets the answers of jobs that have not asked for any since the last time; they may be over or deleted."""
        self.drop([key for key in self._kept if key.job_id not in self._asked_for])
        self._asked_for.clear()

    def _sweep_again(self) -> None:
        self.sweep()
        self._sweeps = bool(self._kept)
        if self._sweeps:
            asyncio.get_running_loop().call_later(IDLE_SECONDS, self._sweep_again)

    def settle(self, key: CacheKey, under_way: asyncio.Future[Page | None], page: Page | None, *, gone: bool) -> None:
        """A request is over: those who wait for it get its answer, or send their own; if it is `gone`, one of them."""
        del self._fetching[key]
        if gone:
            under_way.cancel()
        else:
            under_way.set_result(page)


class PendingFetch:
    """The duty to send a request. As a block around it: whatever becomes of it, those who wait hear of it."""

    __slots__ = ("_cache", "_key", "_page", "_under_way")

    def __init__(
        self, cache: ResponseCache, key: CacheKey, under_way: asyncio.Future[Page | None] | None = None
    ) -> None:
        self._cache = cache
        self._key = key
        self._page: Page | None = None
        self._under_way = under_way

    def came(self, page: Page | None) -> None:
        """An answer came; None when it was judged to be no page, or is none to be had again (a redirect)."""
        self._page = page if page is not None and is_cacheable(page) else None
        self._cache.put(self._key, self._page)

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._under_way is not None:
            # After a failure all who wait send their own, as they would without us. An attempt that was stopped
            # says nothing of the site.
            gone = error is not None and not isinstance(error, Failed)
            self._cache.settle(self._key, self._under_way, self._page, gone=gone)


class AttemptCache:
    """What one attempt sees of it. Waiting for another's answer is no time of its own."""

    __slots__ = ("_cache", "_job_id", "_used", "_waiting", "hits")

    def __init__(self, cache: ResponseCache, job_id: str, waiting: Callable[[], AbstractContextManager[None]]) -> None:
        self._cache = cache
        self._job_id = job_id
        self._waiting = waiting
        self._used: list[CacheKey] = []
        self.hits = 0

    async def find(self, request: Request) -> Page | PendingFetch | None:
        """The answer, a claim, or None: the request is to be sent and nobody else is concerned."""
        key = cache_key(self._job_id, request)
        if key is None:
            return None
        found = await self._cache.find(key, self._waiting)
        self._used.append(key)
        if isinstance(found, Page):
            self.hits += 1
            FIGURES.cache_hits += 1
        return found

    def forget(self) -> None:
        """The attempt failed: what it was given may be why, so the next one asks the site."""
        self._cache.drop(self._used)


def _size(key: CacheKey, page: Page | None) -> int:
    """Bytes that it keeps in memory, roughly: those of the text and the body."""
    size = len(key.url) + sum(len(name) + len(value) for name, value in key.headers)
    if page is None:
        return size
    came = () if page.exchange is None else page.exchange.response_headers
    return size + len(page.body) + sum(len(name) + len(value) for name, value in came)

"""One browser of the pool: what the pool needs of its process, its slots, its usage, and when it is due to be replaced.

Needs no driver, so that an exhausted pool can be recognised without the extra.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import msgspec

from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind

if TYPE_CHECKING:
    from patchright.async_api import Browser

__all__ = [
    "BrowserInstance",
    "BrowserProcess",
    "BrowserSlot",
    "BrowserUsage",
    "LaunchBrowser",
    "PoolExhausted",
    "PoolOptions",
    "PoolStats",
    "SlotWaiter",
    "browser_crashed",
    "is_pool_exhausted",
    "replacement_reason",
]


class BrowserProcess(Protocol):
    """One Chromium with its driver. `gone` is set when either has ended or was killed; calls fail from then on. `user`
    is whom it runs as, if not as we do."""

    browser: Browser
    version: str
    user: int | None
    gone: asyncio.Event

    @property
    def downloads(self) -> Path:
        """Where Chromium puts what pages make."""
        ...

    def admit(self, window: str) -> None:
        """What a window loads that a page has opened may leave from now on; until then nothing does. By its target."""
        ...

    async def answers(self) -> bool:
        """Whether it still answers; False after some seconds. Never raises."""
        ...

    async def memory_bytes(self) -> int:
        """Of all its processes. Never raises."""
        ...

    async def close(self) -> None:
        """In good order if it can, by force if not. Bounded, never raises, leaves no process and no folder."""
        ...

    async def kill(self) -> None:
        """By force, at once. Otherwise as `close`."""
        ...


LaunchBrowser: TypeAlias = Callable[[], Awaitable[BrowserProcess]]
"""Starts one within a bound, or raises and leaves nothing behind."""


MIB: Final = 1 << 20


class PoolOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`concurrency` is how many places there are in all; as many as browsers unless it is said. From `most_pages` on:
    when a browser is replaced. `look_seconds` is how often memory, age and pulse are looked at."""

    browsers: int = 2
    concurrency: int | None = None
    acquire_seconds: float = 10.0
    check_seconds: float = 9.0
    most_pages: int = 100
    most_memory_bytes: int = 1 << 30
    most_age_seconds: float = 1_800.0
    look_seconds: float = 5.0
    sweep_seconds: float = 60.0
    first_backoff_seconds: float = 1.0
    longest_backoff_seconds: float = 60.0
    close_seconds: float = 20.0

    @property
    def places(self) -> int:
        """In all."""
        return self.concurrency or self.browsers

    @property
    def places_each(self) -> int:
        """In one browser, at most."""
        return -(-self.places // self.browsers)


class BrowserUsage(msgspec.Struct, frozen=True, kw_only=True):
    """How much a browser has been used: `pages` it has served, and `in_use` places, each good for one more."""

    pages: int
    in_use: int
    memory_bytes: int
    age_seconds: float


def replacement_reason(options: PoolOptions, use: BrowserUsage) -> str | None:
    """Why it takes nobody any more, in words; None while it does. Places in use count as the page that each will load,
    so that several at a time do not carry it past its limit."""
    if use.pages + use.in_use >= options.most_pages:
        return f"{options.most_pages} pages"
    if use.memory_bytes >= options.most_memory_bytes:
        return f"{use.memory_bytes // MIB} MiB"
    if use.age_seconds >= options.most_age_seconds:
        return f"{use.age_seconds / 60:.0f} min of age"
    return None


EXHAUSTED: Final = "pool_exhausted"


class PoolExhausted(Failed):
    """No browser came free in time: a browser_crash by kind, so that the item is tried again. The API says 503."""

    def __init__(self, why: str, retry_after_seconds: float | None = None) -> None:
        super().__init__(Failure.of(FailureKind.BROWSER_CRASH, f"{EXHAUSTED}: {why}", retry_after_seconds))


def is_pool_exhausted(failure: Failure) -> bool:
    """Of a failure that was stored and read again."""
    return failure.kind is FailureKind.BROWSER_CRASH and failure.message.startswith(f"{EXHAUSTED}:")


def browser_crashed(why: str) -> Failed:
    """The browser is gone."""
    return Failed(Failure.of(FailureKind.BROWSER_CRASH, why))


class BrowserSlot:
    """`lost` is set at once when the browser is gone; calls in it fail by themselves. Give it back still."""

    def __init__(self, running: BrowserProcess) -> None:
        self.running = running
        self.lost = asyncio.Event()
        self.why_lost = ""

    @property
    def browser(self) -> Browser:
        """Raises Failed (browser_crash) when it is gone."""
        if self.lost.is_set():
            raise browser_crashed(self.why_lost)
        return self.running.browser

    def lose(self, why: str) -> None:
        """For the pool: the first reason stays."""
        if not self.lost.is_set():
            self.why_lost = why
            self.lost.set()


class SlotWaiter:
    """Somebody who wants a place, until a time on the boot clock; in the browser `near` if there is a choice."""

    def __init__(self, deadline: float, near: BrowserProcess | None) -> None:
        self.place: asyncio.Future[BrowserSlot] = asyncio.get_running_loop().create_future()
        self.deadline = deadline
        self.near = near


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


class BrowserInstance:
    """One browser and its books. `due`: why it takes nobody any more, which lasts."""

    def __init__(self, running: BrowserProcess, started_at: float) -> None:
        self.running = running
        self.started_at = started_at
        self.pages = 0
        self.memory_bytes = 0
        self.places: set[BrowserSlot] = set()
        self.due: str | None = None
        self.watch: asyncio.Task[None] | None = None

    def judge(self, options: PoolOptions, now: float) -> None:
        """Sees whether it is due by now."""
        if self.due is None:
            use = BrowserUsage(
                pages=self.pages,
                in_use=len(self.places),
                memory_bytes=self.memory_bytes,
                age_seconds=now - self.started_at,
            )
            self.due = replacement_reason(options, use)

    def enter(self) -> BrowserSlot:
        """One more place in it."""
        place = BrowserSlot(self.running)
        self.places.add(place)
        return place

    def lose(self, why: str) -> None:
        """It is gone, and all places with it."""
        for place in self.places:
            place.lose(why)

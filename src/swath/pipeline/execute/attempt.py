"""One attempt at one item, from its input to what came of it. Every way it can go ends in a `Tried`, as data.

Before: runner.py gives the item a slot. After: runner.py decides about retries and hands the end to the committer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from swath.domain.attempt import Attempt, Finding
from swath.domain.errors import Failed, LeaseLost, NewerStore, NotFound, SiteHeld
from swath.domain.failure import Failure, FailureKind
from swath.domain.job import Job
from swath.domain.lease import LeasedItem
from swath.domain.page import Page
from swath.domain.result import Result
from swath.kit.author_errors import one_line
from swath.kit.scraper import Scraper
from swath.observe.context import serve_item
from swath.observe.spans import span
from swath.pipeline.execute.browsers import Browsers, Place, visit_of
from swath.pipeline.execute.patience import Patience
from swath.pipeline.extract.extract import extract_record
from swath.pipeline.finish.artifacts import REFUSED_PAGE
from swath.ports.clock import Clock
from swath.proxies.ladder import blocked_on
from swath.web.cache import AttemptCache
from swath.web.collected import Collected
from swath.web.passage import Network, Passage
from swath.web.session import WebSession

__all__ = ["Bench", "Came", "Tried", "Turn", "attempt", "came_of"]


class Bench(msgspec.Struct, frozen=True):
    """What every attempt of a lease works with. With `browsers` the network is theirs."""

    job: Job
    scraper: Scraper
    network: Network
    clock: Clock
    worker_id: str
    browsers: Browsers | None = None


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """What one attempt came to: a finding, or a failure. `held`: neither, its site is left alone for a while.

    `url` is what it asked for last."""

    attempt: Attempt
    finding: Finding | None = None
    failure: Failure | None = None
    held: SiteHeld | None = None
    result: Result = Result()
    url: str | None = None


class Turn(msgspec.Struct, frozen=True):
    """One try at an item: what was tried before, what is asked before each request, whose time it is, and in which
    session of the browsers it runs, if it needs one."""

    item: LeasedItem
    attempts: tuple[Attempt, ...]
    before_request: Callable[[], None]
    patience: Patience
    place: Place | None = None


class Came(msgspec.Struct, frozen=True):
    """What came of it: see Tried."""

    finding: Finding | None = None
    data: Any = None
    failure: Failure | None = None
    held: SiteHeld | None = None


async def attempt(bench: Bench, turn: Turn) -> Tried:
    """Tries the item once, within `item_seconds`. Raises only LeaseLost, NewerStore, and CancelledError when the worker
    stops."""
    job = bench.job
    serve_item(job.request_id, job.job_id, turn.item.item_id, len(turn.attempts) + 1)
    if bench.browsers is not None and turn.place is not None:
        return await _by_browser(bench, turn, bench.browsers, turn.place)
    return await _by_network(bench, turn)


async def _by_network(bench: Bench, turn: Turn) -> Tried:
    started_at, job, gate = bench.clock.now(), bench.job, _gate(bench, turn)
    cache = None
    if job.policy.cache_responses:
        cache = AttemptCache(bench.network.cache, job.job_id, turn.patience.waiting)
    web = WebSession(bench.network.transport, job.policy.timeouts, bench.clock, bench.scraper.base_url, gate, cache)
    came = await _bounded(bench, turn, gate, _fetch_and_extract(bench, turn.item, web))
    if cache is not None and came.failure is not None:
        cache.forget()
    return _tried(bench, started_at, gate, web, came, 0 if cache is None else cache.hits)


async def _by_browser(bench: Bench, turn: Turn, browsers: Browsers, place: Place) -> Tried:
    """The same in a browser. Opening a context there is part of the attempt, and so is closing it."""
    started_at, gate = bench.clock.now(), _gate(bench, turn)
    visit = visit_of(place, bench.scraper, bench.job, gate)
    collected = Collected()

    async def fetch_and_extract() -> tuple[Finding, Any]:
        nonlocal collected
        async with browsers.visit(place.ticket, visit) as collected:
            return await _fetch_and_extract(bench, turn.item, collected)

    came = await _bounded(bench, turn, gate, fetch_and_extract())
    gate.received(collected.bytes)
    return _tried(bench, started_at, gate, collected, came)


def _gate(bench: Bench, turn: Turn) -> Passage:
    blocked = blocked_on(turn.attempts)
    return Passage(bench.network, bench.job, turn.before_request, turn.patience.waiting, blocked)


def _tried(bench: Bench, started_at: float, gate: Passage, web: Collected, came: Came, cache_hits: int = 0) -> Tried:
    tried = Tried(
        attempt=Attempt(
            started_at=started_at,
            ended_at=bench.clock.now(),
            worker=bench.worker_id,
            failure=came.failure,
            bytes=web.bytes,
            requests=web.requests,
            proxy_tier=gate.tier.value,
            cost=gate.cost,
            cache_hits=cache_hits,
        ),
        finding=came.finding,
        failure=came.failure,
        held=came.held,
        result=Result(
            pages=_pages(web, came.failure, bench.clock.now()), downloads=tuple(web.downloads), data=came.data
        ),
        url=gate.url,
    )
    web.pages.clear()  # pages know their session and the session its pages: parsed trees would wait for the collector
    return tried


async def _bounded(bench: Bench, turn: Turn, gate: Passage, work: Awaitable[tuple[Finding, Any]]) -> Came:
    """Whatever a scraper does, SystemExit too, costs its item and never the worker.

    In the end the sites that the attempt met hear what came of it, and no more requests of it leave.
    """
    job, seconds = bench.job, bench.job.policy.timeouts.item_seconds
    number, came = len(turn.attempts) + 1, Came()
    try:
        with span("attempt", job.request_id, job_id=job.job_id, item_id=turn.item.item_id, attempt=number):
            async with turn.patience.limit(seconds):
                finding, data = await work
        came = Came(finding, data)
    except (LeaseLost, NewerStore):
        raise
    except BaseException as error:
        if isinstance(error, asyncio.CancelledError) and _was_cancelled():
            raise
        came = came_of(job, error)
    finally:
        gate.end(came.finding, came.failure)
    return came


def came_of(job: Job, error: BaseException) -> Came:
    """What it means for an item that its scraper raised this."""
    match error:
        case NotFound():
            return Came(Finding.NOT_FOUND)
        case Failed():
            return Came(failure=_checked(error.failure))
        case TimeoutError():
            seconds = job.policy.timeouts.item_seconds
            return Came(failure=Failure.of(FailureKind.TIMEOUT, f"the item took longer than {seconds:g} s"))
        case SiteHeld():
            return Came(held=error)
        case _:
            return Came(failure=Failure.of(FailureKind.INTERNAL, one_line(error)))


async def _fetch_and_extract(bench: Bench, item: LeasedItem, web: Collected) -> tuple[Finding, Any]:
    scraper = bench.scraper
    with span("fetch"):
        pages = await scraper.collect(scraper.parse_input(item.input), web)
    if not scraper.has_extract:
        return Finding.FOUND, None
    with span("extract"):
        return Finding.FOUND, extract_record(scraper, pages)


def _pages(web: Collected, failure: Failure | None, now: float) -> tuple[Page, ...]:
    """What is to be stored; of an item that failed also the answer that was no page, for people to look at.

    Pages that authors made without a time are of now.
    """
    kept = web.kept
    if failure is not None and web.refused is not None:
        kept[REFUSED_PAGE] = msgspec.structs.replace(web.refused, name=REFUSED_PAGE)
    return tuple([page if page.fetched_at else msgspec.structs.replace(page, fetched_at=now) for page in kept.values()])


def _checked(failure: object) -> Failure:
    """A failure as an author made it, if the retry decision and the store can do something with it."""
    try:
        return msgspec.convert(msgspec.to_builtins(failure), Failure)
    except (msgspec.MsgspecError, TypeError, ValueError) as error:
        return Failure.of(FailureKind.INTERNAL, f"the scraper raised Failed with no proper Failure: {one_line(error)}")


def _was_cancelled() -> bool:
    """Whether somebody cancelled this task, as against a scraper that raised CancelledError by itself."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0

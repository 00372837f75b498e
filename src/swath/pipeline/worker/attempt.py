"""Runs one attempt at one item, from its input to its outcome. Whatever happens becomes an AttemptResult, as data.

Also the item in a worker's hands, and an attempt that is running.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from swath.domain.errors import Failed, LeaseLost, NewerStore, NotFound, SiteUnavailable
from swath.domain.failure import Failure, FailureKind
from swath.domain.item import Attempt, SuccessOutcome, TryCounts
from swath.domain.job import Job
from swath.domain.lease import LeasedItem
from swath.domain.result import Page, Result
from swath.fetch.http.client.cache import AttemptCache
from swath.fetch.http.client.request_gate import Network, SiteRequestGate
from swath.fetch.http.client.session import WebSession
from swath.fetch.http.page.attempt_output import AttemptOutput
from swath.fetch.proxies.ladder import blocked_tiers
from swath.observability.task_context import serve_item, span
from swath.pipeline.extract.extraction import extract_record
from swath.pipeline.formats.artifacts import REFUSED_PAGE
from swath.pipeline.worker.browser_placement import BrowserPlace, WorkerBrowsers, visit_of
from swath.pipeline.worker.item_timeout import ItemTimeout
from swath.ports.clock import Clock
from swath.sdk.scraper import Scraper, one_line_error

__all__ = [
    "AttemptRequest",
    "AttemptResult",
    "RunningAttempt",
    "ScraperOutcome",
    "WorkItem",
    "WorkerContext",
    "outcome_of_error",
    "run_attempt",
]


class WorkerContext(msgspec.Struct, frozen=True):
    """What every attempt of a lease works with. With `browsers` the network is theirs."""

    job: Job
    scraper: Scraper
    network: Network
    clock: Clock
    worker_id: str
    browsers: WorkerBrowsers | None = None


class AttemptResult(msgspec.Struct, frozen=True, kw_only=True):
    """What one attempt came to: a finding, or a failure. `held`: neither, its site is left alone for a while.

    `url` is what it asked for last."""

    attempt: Attempt
    finding: SuccessOutcome | None = None
    failure: Failure | None = None
    held: SiteUnavailable | None = None
    result: Result = Result()
    url: str | None = None


class AttemptRequest(msgspec.Struct, frozen=True):
    """One try at an item: what was tried before, what is asked before each request, whose time it is, and in which
    session of the browsers it runs, if it needs one."""

    item: LeasedItem
    attempts: tuple[Attempt, ...]
    before_request: Callable[[], None]
    patience: ItemTimeout
    place: BrowserPlace | None = None


class ScraperOutcome(msgspec.Struct, frozen=True):
    """What came of it: see Tried."""

    finding: SuccessOutcome | None = None
    data: Any = None
    failure: Failure | None = None
    held: SiteUnavailable | None = None


async def run_attempt(bench: WorkerContext, turn: AttemptRequest) -> AttemptResult:
    """Tries the item once, within `item_seconds`. Raises only LeaseLost, NewerStore, and CancelledError when the worker
    stops."""
    job = bench.job
    serve_item(job.request_id, job.job_id, turn.item.item_id, len(turn.attempts) + 1)
    if bench.browsers is not None and turn.place is not None:
        return await _run_in_browser(bench, turn, bench.browsers, turn.place)
    return await _run_over_http(bench, turn)


async def _run_over_http(bench: WorkerContext, turn: AttemptRequest) -> AttemptResult:
    started_at, job, gate = bench.clock.now(), bench.job, _gate(bench, turn)
    cache = None
    if job.policy.cache_responses:
        cache = AttemptCache(bench.network.cache, job.job_id, turn.patience.waiting)
    web = WebSession(bench.network.transport, job.policy.timeouts, bench.clock, bench.scraper.base_url, gate, cache)
    came = await _run_within_limits(bench, turn, gate, _fetch_and_extract(bench, turn.item, web))
    if cache is not None and came.failure is not None:
        cache.forget()
    return _attempt_result(bench, started_at, gate, web, came, 0 if cache is None else cache.hits)


async def _run_in_browser(
    bench: WorkerContext, turn: AttemptRequest, browsers: WorkerBrowsers, place: BrowserPlace
) -> AttemptResult:
    """The same in a browser. Opening a context there is part of the attempt, and so is closing it."""
    started_at, gate = bench.clock.now(), _gate(bench, turn)
    visit = visit_of(place, bench.scraper, bench.job, gate)
    collected = AttemptOutput()

    async def fetch_and_extract() -> tuple[SuccessOutcome, Any]:
        nonlocal collected
        async with browsers.visit(place.ticket, visit) as collected:
            return await _fetch_and_extract(bench, turn.item, collected)

    came = await _run_within_limits(bench, turn, gate, fetch_and_extract())
    gate.received(collected.bytes)
    return _attempt_result(bench, started_at, gate, collected, came)


def _gate(bench: WorkerContext, turn: AttemptRequest) -> SiteRequestGate:
    blocked = blocked_tiers(turn.attempts)
    return SiteRequestGate(bench.network, bench.job, turn.before_request, turn.patience.waiting, blocked)


def _attempt_result(
    bench: WorkerContext,
    started_at: float,
    gate: SiteRequestGate,
    web: AttemptOutput,
    came: ScraperOutcome,
    cache_hits: int = 0,
) -> AttemptResult:
    tried = AttemptResult(
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


async def _run_within_limits(
    bench: WorkerContext, turn: AttemptRequest, gate: SiteRequestGate, work: Awaitable[tuple[SuccessOutcome, Any]]
) -> ScraperOutcome:
    """Whatever a scraper does, SystemExit too, costs its item and never the worker.

    In the end the sites that the attempt met hear what came of it, and no more requests of it leave.
    """
    job, seconds = bench.job, bench.job.policy.timeouts.item_seconds
    number, came = len(turn.attempts) + 1, ScraperOutcome()
    try:
        with span("attempt", job.request_id, job_id=job.job_id, item_id=turn.item.item_id, attempt=number):
            async with turn.patience.limit(seconds):
                finding, data = await work
        came = ScraperOutcome(finding, data)
    except (LeaseLost, NewerStore):
        raise
    except BaseException as error:
        if isinstance(error, asyncio.CancelledError) and _was_cancelled():
            raise
        came = outcome_of_error(job, error)
    finally:
        gate.end(came.finding, came.failure)
    return came


def outcome_of_error(job: Job, error: BaseException) -> ScraperOutcome:
    """What it means for an item that its scraper raised this."""
    match error:
        case NotFound():
            return ScraperOutcome(SuccessOutcome.NOT_FOUND)
        case Failed():
            return ScraperOutcome(failure=_checked_failure(error.failure))
        case TimeoutError():
            seconds = job.policy.timeouts.item_seconds
            return ScraperOutcome(failure=Failure.of(FailureKind.TIMEOUT, f"the item took longer than {seconds:g} s"))
        case SiteUnavailable():
            return ScraperOutcome(held=error)
        case _:
            return ScraperOutcome(failure=Failure.of(FailureKind.INTERNAL, one_line_error(error)))


async def _fetch_and_extract(bench: WorkerContext, item: LeasedItem, web: AttemptOutput) -> tuple[SuccessOutcome, Any]:
    scraper = bench.scraper
    with span("fetch"):
        pages = await scraper.collect(scraper.parse_input(item.input), web)
    if not scraper.has_extract:
        return SuccessOutcome.FOUND, None
    with span("extract"):
        return SuccessOutcome.FOUND, extract_record(scraper, pages)


def _pages(web: AttemptOutput, failure: Failure | None, now: float) -> tuple[Page, ...]:
    """What is to be stored; of an item that failed also the answer that was no page, for people to look at.

    Pages that authors made without a time are of now.
    """
    kept = web.kept
    if failure is not None and web.refused is not None:
        kept[REFUSED_PAGE] = msgspec.structs.replace(web.refused, name=REFUSED_PAGE)
    return tuple([page if page.fetched_at else msgspec.structs.replace(page, fetched_at=now) for page in kept.values()])


def _checked_failure(failure: object) -> Failure:
    """A failure as an author made it, if the retry decision and the store can do something with it."""
    try:
        return msgspec.convert(msgspec.to_builtins(failure), Failure)
    except (msgspec.MsgspecError, TypeError, ValueError) as error:
        return Failure.of(
            FailureKind.INTERNAL, f"the scraper raised Failed with no proper Failure: {one_line_error(error)}"
        )


def _was_cancelled() -> bool:
    """Whether somebody cancelled this task, as against a scraper that raised CancelledError by itself."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class WorkItem:
    """An item with its history so far."""

    __slots__ = ("attempts", "item", "tries")

    def __init__(self, item: LeasedItem) -> None:
        self.item = item
        self.tries: TryCounts = item.tries
        self.attempts: tuple[Attempt, ...] = item.attempts


class RunningAttempt:
    """An attempt under way. What a scraper does after `end` was called has no effect and reaches no site."""

    __slots__ = (
        "asked_at",
        "held_back",
        "interrupted",
        "over",
        "patience",
        "place",
        "sent",
        "seq",
        "started_at",
        "task",
        "timer",
        "work",
    )

    def __init__(
        self, work: WorkItem, started_at: float, asked_at: float, place: BrowserPlace | None, patience: ItemTimeout
    ) -> None:
        self.work = work
        self.seq = work.item.seq
        self.place = place
        self.started_at = started_at
        self.asked_at = asked_at  # when the book let it start, on the boot clock
        self.patience = patience
        self.over = False
        self.interrupted = False  # by us, because the worker stops
        self.held_back = False  # a request of it was refused, because the lease may be over or the job has stopped
        self.sent = False  # a request of it has left
        self.task: asyncio.Task[AttemptResult] | None = None
        self.timer: asyncio.TimerHandle | None = None

    def end(self) -> None:
        """Its outcome is settled."""
        self.over = True
        if self.timer is not None:
            self.timer.cancel()
        if self.task is not None and not self.task.done():
            self.task.cancel()

"""One attempt at one item, from its input to what came of it. Every way it can go ends in a `Tried`, as data.

Before: runner.py gives the item a slot. After: runner.py decides about retries and hands the end to the committer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import msgspec

from swath.domain.attempt import Attempt, Finding
from swath.domain.errors import Failed, LeaseLost, NotFound, SiteHeld
from swath.domain.failure import Failure, FailureKind
from swath.domain.job import Job
from swath.domain.lease import LeasedItem
from swath.domain.page import Page
from swath.domain.result import Result
from swath.kit.author_errors import one_line
from swath.kit.scraper import HttpScraper
from swath.observe.context import serve_item
from swath.observe.spans import span
from swath.pipeline.execute.patience import Patience
from swath.pipeline.extract.extract import extract_record
from swath.ports.clock import Clock
from swath.proxies.ladder import blocked_on
from swath.web.cache import AttemptCache
from swath.web.passage import Network, Passage
from swath.web.session import WebSession

__all__ = ["Bench", "Tried", "Turn", "attempt"]

REFUSED: Final = "refused"  # the name of the answer that made an item fail


class Bench(msgspec.Struct, frozen=True):
    """What every attempt of a lease works with."""

    job: Job
    scraper: HttpScraper
    network: Network
    clock: Clock
    worker_id: str


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
    """One try at an item: what was tried before, what is asked before each request, and whose time it is."""

    item: LeasedItem
    attempts: tuple[Attempt, ...]
    before_request: Callable[[], None]
    patience: Patience


async def attempt(bench: Bench, turn: Turn) -> Tried:
    """Tries the item once, within `item_seconds`. Raises only LeaseLost, and CancelledError when the worker stops."""
    started_at, job, number = bench.clock.now(), bench.job, len(turn.attempts) + 1
    serve_item(job.request_id, job.job_id, turn.item.item_id, number)
    timeouts = job.policy.timeouts
    blocked = blocked_on(turn.attempts)
    gate = Passage(bench.network, job, turn.before_request, turn.patience.waiting, blocked)
    cache = None
    if job.policy.cache_responses:
        cache = AttemptCache(bench.network.cache, job.job_id, turn.patience.waiting)
    web = WebSession(bench.network.transport, timeouts, bench.clock, bench.scraper.base_url, gate, cache)
    finding, failure, data, held = None, None, None, None
    try:
        with span("attempt", job.request_id, job_id=job.job_id, item_id=turn.item.item_id, attempt=number):
            async with turn.patience.limit(timeouts.item_seconds):
                finding, data = await _fetch_and_extract(bench, turn.item, web)
    except NotFound:
        finding = Finding.NOT_FOUND
    except Failed as failed:
        failure = _checked(failed.failure)
    except TimeoutError:
        failure = Failure.of(FailureKind.TIMEOUT, f"the item took longer than {timeouts.item_seconds:g} s")
    except SiteHeld as site_held:
        held = site_held
    except LeaseLost:
        raise
    except BaseException as error:  # whatever a scraper does, SystemExit too, it costs its item and never the worker
        if isinstance(error, asyncio.CancelledError) and _was_cancelled():
            raise
        failure = Failure.of(FailureKind.INTERNAL, one_line(error))
    finally:
        gate.end(finding, failure)
    if cache is not None and failure is not None:
        cache.forget()
    tried = Tried(
        attempt=Attempt(
            started_at=started_at,
            ended_at=bench.clock.now(),
            worker=bench.worker_id,
            failure=failure,
            bytes=web.bytes,
            requests=web.requests,
            proxy_tier=gate.tier.value,
            cost=gate.cost,
            cache_hits=0 if cache is None else cache.hits,
        ),
        finding=finding,
        failure=failure,
        held=held,
        result=Result(pages=_pages(web, failure), downloads=tuple(web.downloads), data=data),
        url=gate.url,
    )
    web.pages.clear()  # pages know their session and the session its pages: parsed trees would wait for the collector
    return tried


async def _fetch_and_extract(bench: Bench, item: LeasedItem, web: WebSession) -> tuple[Finding, Any]:
    scraper = bench.scraper
    with span("fetch"):
        pages = await scraper.collect(scraper.parse_input(item.input), web)
    if not scraper.has_extract:
        return Finding.FOUND, None
    with span("extract"):
        return Finding.FOUND, extract_record(scraper, pages)


def _pages(web: WebSession, failure: Failure | None) -> tuple[Page, ...]:
    """What is to be stored; of an item that failed also the answer that was no page, for people to look at."""
    kept = web.kept
    if failure is not None and web.refused is not None:
        kept[REFUSED] = msgspec.structs.replace(web.refused, name=REFUSED)
    return tuple(kept.values())


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

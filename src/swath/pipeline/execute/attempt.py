"""One attempt at one item, from its input to what came of it. Every way it can go ends in a `Tried`, as data.

Before: runner.py gives the item a slot. After: runner.py decides about retries and hands the end to the committer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from swath.domain.attempt import Attempt, Finding
from swath.domain.errors import Failed, LeaseLost, NotFound
from swath.domain.failure import Failure, FailureKind
from swath.domain.job import Job
from swath.domain.lease import LeasedItem
from swath.domain.result import Result
from swath.kit.author_errors import one_line
from swath.kit.scraper import HttpScraper
from swath.pipeline.extract.extract import extract_record
from swath.ports.clock import Clock
from swath.web.session import WebSession
from swath.web.transport import Transport

__all__ = ["Bench", "Tried", "attempt"]


class Bench(msgspec.Struct, frozen=True):
    """What every attempt of a lease works with."""

    job: Job
    scraper: HttpScraper
    transport: Transport
    clock: Clock
    worker_id: str


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """What one attempt came to: a finding, or a failure."""

    attempt: Attempt
    finding: Finding | None = None
    failure: Failure | None = None
    result: Result = Result()


async def attempt(bench: Bench, item: LeasedItem, before_request: Callable[[], None]) -> Tried:
    """Tries the item once, within `item_seconds`. Raises only LeaseLost, and CancelledError when the worker stops."""
    started_at = bench.clock.now()
    timeouts = bench.job.policy.timeouts
    web = WebSession(bench.transport, timeouts, bench.clock, bench.scraper.base_url, before_request)
    finding, failure, data = None, None, None
    try:
        async with asyncio.timeout(timeouts.item_seconds):
            finding, data = await _fetch_and_extract(bench, item, web)
    except NotFound:
        finding = Finding.NOT_FOUND
    except Failed as failed:
        failure = _checked(failed.failure)
    except TimeoutError:
        failure = Failure.of(FailureKind.TIMEOUT, f"the item took longer than {timeouts.item_seconds:g} s")
    except LeaseLost:
        raise
    except BaseException as error:  # whatever a scraper does, SystemExit too, it costs its item and never the worker
        if isinstance(error, asyncio.CancelledError) and _was_cancelled():
            raise
        failure = Failure.of(FailureKind.INTERNAL, one_line(error))
    return Tried(
        attempt=Attempt(
            started_at=started_at,
            ended_at=bench.clock.now(),
            worker=bench.worker_id,
            failure=failure,
            bytes=web.bytes,
            requests=web.requests,
        ),
        finding=finding,
        failure=failure,
        result=Result(pages=tuple(web.kept.values()), downloads=tuple(web.downloads), data=data),
    )


async def _fetch_and_extract(bench: Bench, item: LeasedItem, web: WebSession) -> tuple[Finding, Any]:
    scraper = bench.scraper
    pages = await scraper.collect(scraper.parse_input(item.input), web)
    if not scraper.has_extract:
        return Finding.FOUND, None
    return Finding.FOUND, extract_record(scraper, pages)


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

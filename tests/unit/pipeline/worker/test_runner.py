"""One lease in a worker's hands: what it sends, what it waits for, what it hands back."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from swath import HttpScraper, WebPage, WebSession
from swath import scraper as declare
from swath.domain.errors import LeaseLost, NotFound
from swath.domain.execution_policy import ExecutionPolicy
from swath.domain.item import EndedItem, HandedBackItem
from swath.domain.job import Job
from swath.domain.lease import Lease, LeaseDirective, LeasedItem, SlotGrant
from swath.domain.transitions import ItemState
from swath.fetch.http.messages import Request, Response
from swath.pipeline.worker.admission import JobHolds
from swath.pipeline.worker.attempt import WorkerContext
from swath.pipeline.worker.lease_runner import START_PERMIT_SECONDS, LeaseRunner
from swath.pipeline.worker.outcome_buffer import Outcome
from swath.pipeline.worker.slots import JobSlots
from swath.pipeline.worker.suspect_isolation import SuspectIsolation
from tests.support.clock import FakeClock
from tests.support.network import open_network

LEASE_SECONDS = 15.0


class Book:
    """Lets items start, until it does not any more, and knows which of them run."""

    def __init__(self) -> None:
        self.lets_start = True
        self.running: set[int] = set()
        self.begun: list[int] = []

    def begin(self, lease: Lease, *seqs: int) -> bool:
        if self.lets_start:
            self.running.update(seqs)
            self.begun.extend(seqs)
        return self.lets_start

    def leave(self, lease: Lease, *seqs: int) -> None:
        for seq in seqs:
            self.running.remove(seq)


class Site:
    """Answers everything, after letting the test do something about it."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.book = Book()
        self.sent: list[str] = []
        self.status = 200
        self.sleep_before_answer = 0.0

    async def send(self, request: Request) -> Response:
        self.sent.append(request.url)
        self.clock.advance(self.sleep_before_answer)  # as if the machine had been asleep
        return Response(url=request.url, status=self.status, headers=(), body=b"<p>here</p>", wire_bytes=11)

    async def close(self) -> None:
        pass


@declare("twice", version="1")
class Twice(HttpScraper):
    """Two requests for every item."""

    async def fetch(self, item: object, web: WebSession) -> WebPage:
        await web.get("http://site.test/first", name="first")
        return await web.get("http://site.test/second")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def site(clock: FakeClock) -> Site:
    return Site(clock)


def runner_of(
    site: Site,
    items: int = 1,
    slots: int = 1,
    policy: dict[str, object] | None = None,
    scraper: HttpScraper | None = None,
) -> LeaseRunner:
    job = Job(job_id="j", scraper_id="twice", policy=ExecutionPolicy.model_validate(policy or {}))
    lease = Lease(
        fence=1,
        job=job,
        worker_id="w",
        items=tuple(LeasedItem(seq, str(seq), {}) for seq in range(1, items + 1)),
        slots=slots,
        target=slots,
        lease_seconds=LEASE_SECONDS,
    )
    network = open_network(site, site.clock)
    bench = WorkerContext(job, scraper or Twice(), network, site.clock, "w")
    job_slots = JobSlots(slots, slots, lambda: 1_000)
    book: Any = site.book
    waits: Any = None
    holds = JobHolds(book, network, site.clock)
    floor = SuspectIsolation(book, waits, holds, lambda: job_slots.running, lambda: None)
    runner = LeaseRunner(lease, bench, site.clock.boot() + LEASE_SECONDS, job_slots, floor)
    runner.can_store = True
    job_slots.users.add(runner)
    return runner


async def settled() -> None:
    """Lets everything run that can run without time passing."""
    for _ in range(200):
        await asyncio.sleep(0)


async def outcomes(runner: LeaseRunner) -> list[Outcome]:
    return await runner.outbox.group(0.0)


@pytest.mark.req("W2", "Z1")
async def test_a_worker_that_slept_through_its_lease_sends_no_further_request(site: Site) -> None:
    runner = runner_of(site)
    site.sleep_before_answer = LEASE_SECONDS
    runner.start_ready()
    await settled()
    assert site.sent == ["http://site.test/first"]
    assert runner.ready == 1  # the item was not tried; the book decides what becomes of it
    assert await outcomes(runner) == []


@pytest.mark.req("W2")
async def test_a_lease_that_was_only_late_goes_on_when_it_is_renewed(site: Site) -> None:
    runner = runner_of(site)
    site.sleep_before_answer = LEASE_SECONDS
    runner.start_ready()
    await settled()
    site.sleep_before_answer = 0.0
    runner.deadline = site.clock.boot() + LEASE_SECONDS
    runner.start_ready()
    await settled()
    (outcome,) = await outcomes(runner)
    assert isinstance(outcome.end, EndedItem)
    assert outcome.end.state is ItemState.SUCCESS
    assert outcome.end.tries.own == 1


@pytest.mark.req("W2")
async def test_nothing_is_started_while_the_lease_may_be_over(site: Site) -> None:
    runner = runner_of(site, items=3)
    site.clock.advance(LEASE_SECONDS)
    runner.start_ready()
    assert (runner.ready, runner.slots.running) == (3, 0)


@pytest.mark.req("S6", "J3")
async def test_an_item_that_waits_for_its_retry_holds_no_slot(site: Site) -> None:
    runner = runner_of(site, items=2)
    site.status = 500
    runner.start_ready()
    await settled()
    assert site.sent == ["http://site.test/first"] * 2  # the second item had the slot while the first one waits
    assert not runner.drained
    assert runner.slots.running == 0
    site.status = 200
    site.clock.advance(1.2)  # the longest first delay: 1 s and 20 %
    await settled()
    assert {outcome.item_id for outcome in await outcomes(runner)} == {"1", "2"}


@pytest.mark.req("S6", "S1")
async def test_a_retry_that_finds_its_slots_given_up_asks_for_them_at_once(site: Site) -> None:
    runner = runner_of(site)
    site.status = 500
    runner.start_ready()
    await settled()
    assert runner.slots.report().demand == 0
    runner.slots.apply(
        SlotGrant(directive=LeaseDirective.GO_ON, slots=1, target=0)
    )  # nothing could run when we last reported
    reporting = asyncio.create_task(runner.outbox.group(60))
    site.clock.advance(1.2)
    assert await asyncio.wait_for(reporting, 60) == []
    assert runner.slots.report().demand == 1


@pytest.mark.req("S6")
async def test_the_first_retry_comes_no_sooner_than_its_delay(site: Site) -> None:
    runner = runner_of(site)
    site.status = 503
    runner.start_ready()
    await settled()
    site.clock.advance(0.79)
    await settled()
    assert len(site.sent) == 1


@pytest.mark.req("W2")
async def test_stopping_hands_back_what_is_ready_and_what_waits_with_the_rest_of_its_delay(site: Site) -> None:
    runner = runner_of(site, items=3, policy={"retries": {"backoff": "fixed", "base_delay_seconds": 8}})
    site.status = 500
    runner.start_ready()
    await settled()
    site.clock.advance(4)
    runner.stop()
    backs = [outcome.end for outcome in await outcomes(runner)]
    assert all(isinstance(back, HandedBackItem) and back.tries.own == 1 for back in backs)
    assert len(backs) == 3
    assert all(2.4 <= back.delay_seconds <= 5.6 for back in backs if isinstance(back, HandedBackItem))
    assert runner.drained


@pytest.mark.req("Z1")
async def test_a_lost_lease_forgets_everything_and_writes_nothing(site: Site) -> None:
    runner = runner_of(site, items=5)
    runner.start_ready()
    runner.obey(LeaseDirective.LOST)
    await settled()
    assert runner.drained
    assert runner.slots.running == 0
    assert await outcomes(runner) == []


class Pretender(Twice):
    """Raises what only we may raise."""

    async def fetch(self, item: object, web: WebSession) -> WebPage:
        raise LeaseLost("not really")


@pytest.mark.req("S6", "W3")
async def test_a_scraper_that_says_that_the_lease_is_lost_only_fails_its_item(site: Site) -> None:
    runner = runner_of(site, scraper=Pretender())
    runner.start_ready()
    await settled()
    (outcome,) = await outcomes(runner)
    assert isinstance(outcome.end, EndedItem)
    assert outcome.end.failure is not None
    assert outcome.end.failure.kind == "internal"


class Swallower(Twice):
    """Makes an answer of its own out of whatever goes wrong."""

    async def fetch(self, item: object, web: WebSession) -> WebPage:
        try:
            return await web.get("http://site.test/first")
        except Exception as error:
            raise NotFound("nothing there") from error


@pytest.mark.req("S4", "J5")
async def test_nothing_starts_once_the_book_says_no_and_the_rest_goes_back(site: Site) -> None:
    runner = runner_of(site, items=3)
    runner.start_ready()
    site.book.lets_start = False
    site.clock.advance(2 * START_PERMIT_SECONDS)
    await settled()
    assert site.sent == []  # the first one had started; its first request was stopped
    backs = [outcome.end for outcome in await outcomes(runner)]
    assert sorted(back.seq for back in backs if isinstance(back, HandedBackItem)) == [1, 2, 3]
    assert all(back.attempts == () and back.tries.own == 0 for back in backs)
    assert (runner.drained, runner.stopping, site.book.running) == (True, True, set())


@pytest.mark.req("S4", "W2")
async def test_what_a_scraper_makes_of_a_request_that_was_held_back_does_not_count(site: Site) -> None:
    runner = runner_of(site, scraper=Swallower())
    runner.start_ready()
    site.book.lets_start = False
    site.clock.advance(2 * START_PERMIT_SECONDS)
    await settled()
    (outcome,) = await outcomes(runner)
    assert isinstance(outcome.end, HandedBackItem)


@pytest.mark.req("J5", "S4")
async def test_an_item_that_has_sent_a_request_may_finish(site: Site) -> None:
    runner = runner_of(site, items=2)

    async def stop_after_the_first(request: Request) -> Response:
        site.book.lets_start = False
        return await Site.send(site, request)

    site.send = stop_after_the_first  # type: ignore[method-assign]
    runner.start_ready()
    await settled()
    assert site.sent == ["http://site.test/first", "http://site.test/second"]
    ends = {outcome.item_id: outcome.end for outcome in await outcomes(runner)}
    assert isinstance(ends["1"], EndedItem)
    assert isinstance(ends["2"], HandedBackItem)


@pytest.mark.req("S6")
async def test_the_book_knows_what_runs_and_what_waits_for_a_retry_does_not(site: Site) -> None:
    runner = runner_of(site, slots=2, items=2)
    runner.start_ready()
    assert site.book.running == {1, 2}
    site.status = 500
    await settled()
    assert site.book.running == set()
    site.status = 200
    site.clock.advance(1.2)
    await settled()
    assert len(await outcomes(runner)) == 2
    assert sorted(site.book.begun) == [1] * 2 + [2] * 2, "once for each attempt, whose first request follows at once"
    assert site.book.running == set()


@pytest.mark.req("S4")
async def test_far_from_the_store_a_failed_attempt_is_told_at_once_and_holds_up_what_would_start(site: Site) -> None:
    runner = runner_of(site, items=4)
    runner.slots = JobSlots(1, 1, lambda: 1_000, far=True)
    runner.slots.users.add(runner)
    site.status = 500
    telling = asyncio.create_task(runner.outbox.group(60, 60))
    runner.start_ready()
    await settled()
    assert telling.done(), "though no item has ended: it waits to be tried again"
    assert len(site.book.begun) == 1
    runner.slots.report()
    runner.slots.apply(SlotGrant(directive=LeaseDirective.GO_ON, slots=1, target=1))
    runner.start_ready()
    await settled()
    assert site.book.begun == [1, 2], "one for each slot beyond the last answer"


@pytest.mark.req("S3", "W1")
async def test_in_a_full_worker_its_leases_take_turns(site: Site) -> None:
    first = runner_of(site, items=3)
    second = LeaseRunner(
        msgspec.structs.replace(first.lease, fence=2, items=tuple(LeasedItem(seq, str(seq), {}) for seq in (11, 12))),
        first._bench,
        first.deadline,
        first.slots,
        first.floor,
    )
    second.can_store = True
    first.slots.users.add(second)
    first.start_ready()
    await settled()
    assert site.book.begun == [1, 11, 2, 12, 3], "one slot for both"
    second.abandon()

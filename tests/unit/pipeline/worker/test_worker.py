"""The worker end to end on the embedded back end: slots, retries, stopping, losing a lease."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from swath.backends.sqlite.store import claims, rescue
from swath.backends.sqlite.store.store import SqliteStore
from swath.bootstrap.scrapers import make_registry
from swath.bootstrap.services import Services, open_services
from swath.bootstrap.workers import make_worker
from swath.domain.execution_policy import ExecutionPolicy
from swath.domain.failure import FailureKind
from swath.domain.item import Item
from swath.domain.job import Job, JobStatus
from swath.domain.transitions import ItemState, JobState
from swath.pipeline.results.verify.verifier import verify
from swath.ports.job_store import ItemBatch
from swath.settings import Settings

SCRAPER = """
import asyncio
from swath import HttpScraper, Input, scraper, NotFound
from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind

seen = {}
running = 0
peak = 0
starts = []  # how many ran with each
released = False

class In(Input):
    n: int
    fail_times: int = 0
    sleep: float = 0.0
    kind: str = "server_error"
    absent: bool = False
    bug: str = ""
    stubborn: bool = False
    odd: str = ""
    block: float = 0.0

@scraper("local", version="7")
class Local(HttpScraper):
    Input = In

    async def fetch(self, item, web):
        global running, peak
        running += 1
        peak = max(peak, running)
        starts.append(running)
        try:
            seen[item.n] = seen.get(item.n, 0) + 1
            if item.block:
                import time
                time.sleep(item.block)
            await asyncio.sleep(item.sleep)
            if item.bug:
                raise {"exit": SystemExit, "interrupt": KeyboardInterrupt, "cancel": asyncio.CancelledError}.get(
                    item.bug, RuntimeError
                )("a bug of the scraper")
            if item.odd == "cancels itself":
                asyncio.current_task().cancel()
                await asyncio.sleep(0)
            if item.odd == "bogus kind":
                raise Failed(Failure.of("bogus", "x"))
            if item.odd == "bogus delay":
                raise Failed(Failure.of(FailureKind.TIMEOUT, "x", retry_after_seconds="soon"))
            while item.stubborn and not released:
                try:
                    await asyncio.sleep(30)
                except BaseException:
                    pass
            if item.absent:
                raise NotFound("no such record")
            if seen[item.n] <= item.fail_times:
                raise Failed(Failure.of(FailureKind(item.kind), "as asked"))
            return {}
        finally:
            running -= 1
"""

QUICK = {"retries": {"base_delay_seconds": 0.01, "max_delay_seconds": 0.02}}


class Site:
    """A store, a scraper file, and what the scraper has seen."""

    def __init__(self, services: Services, scraper: Path) -> None:
        self.services = services
        self.scraper = scraper
        self.registry = make_registry(services.settings)

    @property
    def module(self) -> dict[str, Any]:
        fetch: Any = type(self.registry.get("local", str(self.scraper))).fetch
        found: dict[str, Any] = fetch.__globals__
        return found

    async def submit(
        self, inputs: list[dict[str, Any]], policy: dict[str, Any] | None = None, job_id: str = "j"
    ) -> None:
        store = self.services.store
        job = Job(
            job_id=job_id,
            scraper_id="local",
            scraper_source=str(self.scraper),
            policy=ExecutionPolicy.model_validate(QUICK | (policy or {})),
        )
        await store.submit(job)
        items = tuple(Item(i, f"item-{i}", {"n": i, **input_}) for i, input_ in enumerate(inputs, 1))
        await store.load(job_id, ItemBatch(0, 1, len(items), "d", items))
        await store.seal(job_id, 1)

    async def work(self, until: Callable[[JobStatus], bool], job_id: str = "j") -> JobStatus:
        stop = asyncio.Event()
        async with make_worker(self.services, self.registry) as worker:
            task = asyncio.create_task(worker.run(stop))
            async with asyncio.timeout(60):
                while not until(await self.services.store.status(job_id)) and not task.done():
                    await asyncio.sleep(0.01)
            stop.set()
            await task
        return await self.services.store.status(job_id)

    async def work_to_the_end(self, job_id: str = "j") -> JobStatus:
        status = await self.work(lambda status: status.state.terminal, job_id)
        report = await verify(self.services.store, self.services.storage, job_id)
        assert report.ok, report.problems
        return status


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data=tmp_path / "data", lease_seconds=1.0, heartbeat_seconds=0.2, grace_seconds=2.0)


@pytest.fixture
def scraper_file(tmp_path: Path) -> Path:
    path = tmp_path / "local_scraper.py"
    path.write_text(SCRAPER)
    return path


@pytest.fixture
async def site(settings: Settings, scraper_file: Path) -> AsyncIterator[Site]:
    async with open_services(settings) as services:
        yield Site(services, scraper_file)


@pytest.mark.req("W1", "J4", "R4")
async def test_a_job_runs_to_its_end_and_balances(site: Site) -> None:
    await site.submit([{}, {"absent": True}, *({} for _ in range(250))])
    status = await site.work_to_the_end()
    assert status.state is JobState.COMPLETED
    assert (status.counts.success, status.counts.not_found, status.counts.total) == (252, 1, 252)


@pytest.mark.req("S1")
async def test_the_limit_is_used_and_never_exceeded(site: Site) -> None:
    await site.submit([{"sleep": 0.01}] * 60, {"throttling": {"max_concurrent_workers": 3}})
    await site.work_to_the_end()
    assert site.module["peak"] == 3


@pytest.mark.req("S1", "J5", "Z3")
async def test_a_lowered_limit_holds_for_everything_that_starts_after_it(site: Site) -> None:
    calm = {"circuit_breaker": {"min_requests": 1}}
    await site.submit([{"sleep": 0.05}] * 150, {"throttling": {"max_concurrent_workers": 8}, **calm})
    working = asyncio.create_task(site.work_to_the_end())
    store, starts = site.services.store, site.module["starts"]
    for limit in (2, 8, 2):
        before = (await store.status("j")).counts.ended
        while (await store.status("j")).counts.ended < before + 15:  # far from all of them, also on a busy machine
            await asyncio.sleep(0.005)
        await store.change_policy("j", (await store.status("j")).job.policy.with_concurrency(limit))
        began = len(starts)
    status = await working
    assert status.counts.success == 150
    assert max(starts[:began]) == 8
    assert max(starts[began:]) == 2


@pytest.mark.req("S6")
async def test_failures_are_retried_in_place_as_often_as_allowed(site: Site) -> None:
    await site.submit([{"fail_times": 3}, {"fail_times": 4}])
    status = await site.work_to_the_end()
    assert status.state is JobState.PARTIALLY_COMPLETED
    assert status.failures == {"server_error": 1}
    good = await site.services.store.item("j", "item-1")
    assert [a.failure.kind if a.failure else None for a in good.attempts] == ["server_error"] * 3 + [None]
    assert good.tries.own == 4
    assert (await site.services.store.item("j", "item-2")).tries.own == 4


@pytest.mark.req("S6", "H2")
async def test_what_cannot_be_helped_is_not_retried(site: Site) -> None:
    await site.submit([{"fail_times": 9, "kind": "layout_changed"}, {"bug": "bug"}])
    status = await site.work_to_the_end()
    assert status.state is JobState.FAILED
    assert status.failures == {"layout_changed": 1, "internal": 1}
    assert site.module["seen"] == {1: 1, 2: 1}
    bug = await site.services.store.item("j", "item-2")
    assert bug.failure is not None
    assert "a bug of the scraper" in bug.failure.message


@pytest.mark.req("S6")
async def test_infrastructure_faults_do_not_burn_the_items_own_tries(site: Site) -> None:
    await site.submit([{"fail_times": 6, "kind": "proxy"}])
    status = await site.work_to_the_end()
    assert status.state is JobState.COMPLETED
    item = await site.services.store.item("j", "item-1")
    assert (item.tries.own, item.tries.infrastructure) == (1, 6)


@pytest.mark.req("S6", "J3")
async def test_a_long_wait_goes_back_to_the_store_and_holds_no_slot(site: Site) -> None:
    policy = {
        "throttling": {"max_concurrent_workers": 1},
        "retries": {"base_delay_seconds": 600, "max_delay_seconds": 600},
    }
    await site.submit([{"fail_times": 1}, {}, {}], policy)
    await site.work(lambda status: status.counts.success == 2)
    item = await site.services.store.item("j", "item-1")
    assert item.state is ItemState.PENDING
    assert item.not_before is not None
    assert item.not_before > site.services.clock.now() + 400
    assert [a.failure.kind for a in item.attempts if a.failure] == [FailureKind.SERVER_ERROR]


@pytest.mark.req("W2")
async def test_stopping_finishes_what_runs_and_hands_back_the_rest(site: Site) -> None:
    await site.submit([{"sleep": 0.3}] * 20, {"throttling": {"max_concurrent_workers": 2}})
    status = await site.work(lambda _: site.module["running"] == 2)
    assert status.counts.success == 2
    assert status.counts.pending == 18
    assert status.state is JobState.RUNNING
    assert await site.services.store.rescue("other") == []  # no lease is left behind


@pytest.mark.req("W2")
async def test_what_outlasts_the_grace_period_goes_back_untried(settings: Settings, scraper_file: Path) -> None:
    impatient = Settings(data=settings.data, lease_seconds=1.0, heartbeat_seconds=0.2, grace_seconds=0.1)
    async with open_services(impatient) as services:
        site = Site(services, scraper_file)
        await site.submit([{"sleep": 30}])
        status = await site.work(lambda _: site.module["running"] == 1)
        assert (status.counts.pending, status.counts.success) == (1, 0)
        item = await services.store.item("j", "item-1")
        assert (item.tries.own, item.attempts) == (0, ())


@pytest.mark.req("W2", "W4")
async def test_a_stalled_event_loop_does_not_lose_its_lease(site: Site) -> None:
    await site.submit([{"block": 2.5}, {}])  # longer than the lease of 1 s, on the event loop itself
    status = await site.work_to_the_end()
    assert status.state is JobState.COMPLETED
    assert site.module["seen"] == {1: 1, 2: 1}


@pytest.mark.req("W2", "Z1")
async def test_a_worker_that_lost_its_lease_sends_nothing_and_counts_nothing(site: Site) -> None:
    await site.submit([{"sleep": 0.5}])
    store = site.services.store
    assert isinstance(store, SqliteStore)

    async def steal() -> None:
        while site.module["running"] == 0:
            await asyncio.sleep(0.01)
        await store._db.write(in_one_stroke)

    def in_one_stroke(db: sqlite3.Connection) -> None:
        """The worker is taken for silent, and somebody else has its item before it can ask again."""
        db.execute("UPDATE leases SET expires = 0")
        rescued, _ = rescue.rescue(db, store._times(), "thief", lambda _: False, lambda _: ())
        assert len(rescued) == 1
        assert claims.claim(db, store._times(), "thief", None, ()) is not None

    theft = asyncio.create_task(steal())
    status = await site.work(lambda status: theft.done() and site.module["running"] == 0)
    await theft
    assert status.counts.success == 0
    assert status.counts.pending == 1


@pytest.mark.req("J5")
async def test_cancelling_lets_running_items_finish_and_cancels_the_rest(site: Site) -> None:
    await site.submit([{"sleep": 0.2}] * 30, {"throttling": {"max_concurrent_workers": 2}})

    async def cancel() -> None:
        while site.module["running"] < 2:
            await asyncio.sleep(0.01)
        await site.services.store.cancel("j")

    cancelling = asyncio.create_task(cancel())
    status = await site.work_to_the_end()
    await cancelling
    assert status.state is JobState.CANCELLED
    assert 2 <= status.counts.success <= 6
    assert status.counts.success + status.counts.cancelled == 30


@pytest.mark.req("S3", "W1")
async def test_a_job_whose_scraper_is_missing_here_is_left_to_others(site: Site, tmp_path: Path) -> None:
    await site.submit([{}] * 3, job_id="other")
    elsewhere = tmp_path / "elsewhere.py"
    site.scraper.rename(elsewhere)
    known = site.registry
    site.registry = make_registry(site.services.settings)
    deadline = site.services.clock.now() + 0.3
    status = await site.work(lambda _: site.services.clock.now() > deadline, job_id="other")
    assert status.counts.pending == 3
    elsewhere.rename(site.scraper)
    site.registry = known
    assert (await site.work_to_the_end("other")).state is JobState.COMPLETED


@pytest.mark.req("H2", "W3")
@pytest.mark.parametrize("bug", ["exit", "interrupt", "cancel"])
async def test_whatever_a_scraper_raises_costs_its_item_and_never_the_worker(site: Site, bug: str) -> None:
    await site.submit([{"bug": bug}, {}])
    status = await site.work_to_the_end()
    assert (status.counts.success, status.failures) == (1, {"internal": 1})


@pytest.mark.req("W3")
async def test_a_scraper_that_ignores_its_timeout_is_given_up(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swath.pipeline.worker.lease_runner.OVERTIME_SECONDS", 0.1)
    policy = {"timeouts": {"item_seconds": 0.1}, "retries": {"max_retries": 0}}
    await site.submit([{"stubborn": True}, {}], policy)
    status = await site.work_to_the_end()
    site.module["released"] = True  # so that the test's own loop can end
    assert (status.counts.success, status.failures) == (1, {"timeout": 1})


@pytest.mark.req("S6", "W3")
@pytest.mark.parametrize("odd", ["cancels itself", "bogus kind", "bogus delay"])
async def test_what_nobody_can_make_sense_of_fails_its_item_once(site: Site, odd: str) -> None:
    await site.submit([{"odd": odd}, {}])
    status = await site.work_to_the_end()
    assert (status.counts.success, status.failures) == (1, {"internal": 1})
    assert site.module["seen"] == {1: 1, 2: 1}

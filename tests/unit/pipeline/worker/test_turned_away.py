"""Somebody waits for a scrape on demand: it is turned away at once from a site whose circuit is open (D3)."""

from __future__ import annotations

import pytest

from swath.domain.item import Item
from swath.domain.job import Job
from swath.domain.site_policy import Breaker
from swath.domain.transitions import ItemState, JobState
from swath.ports.job_store import ItemBatch
from tests.unit.pipeline.worker.test_holds import HEALTHY, SITE, Room

pytestmark = pytest.mark.req("D3")


async def ordered(room: Room, *, on_demand: bool) -> None:
    job = Job(job_id="j", scraper_id="visit", sites=(SITE,), policy=room.policy, on_demand=on_demand)
    rows = (Item(1, "closed", {"host": SITE}), Item(2, "open", {"host": HEALTHY}))
    await room.store.order(job, ItemBatch(0, 1, 2, "d", rows))
    site = room.network.directory.of(SITE)
    breaker = Breaker(window=10, failures=5, reopen_seconds=120)
    await room.book.record(site.name, breaker, [False] * 5, 0)


async def test_it_ends_untried_and_the_others_of_its_batch_go_on() -> None:
    room = Room()
    await ordered(room, on_demand=True)
    before = room.clock.now()
    status = await room.work(lambda status: status.state.terminal, step_seconds=0.01)
    assert room.clock.now() - before < 60
    assert status.state is JobState.PARTIALLY_COMPLETED
    closed = await room.store.item("j", "closed")
    assert (closed.state, closed.reason) == (ItemState.CANCELLED, "circuit_open")
    assert (closed.tries.own, closed.tries.infrastructure, closed.failure) == (0, 0, None)
    assert (await room.store.item("j", "open")).state is ItemState.SUCCESS
    assert status.circuit_opened is None
    assert room.site.requests == 1


async def test_an_item_of_a_bulk_job_waits_instead() -> None:
    room = Room()
    await ordered(room, on_demand=False)
    room.site.status = 200
    status = await room.work(lambda status: status.state.terminal, step_seconds=5.0)
    assert status.state is JobState.COMPLETED
    assert (await room.store.item("j", "closed")).state is ItemState.SUCCESS

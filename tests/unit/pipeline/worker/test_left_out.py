"""A job that cannot be handed out costs no other job its worker."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import pytest

from swath import HttpScraper, Input, WebSession
from swath import scraper as declare
from swath.backends.clock import SystemClock
from swath.domain.errors import StoreDamaged
from swath.domain.lease import Lease
from tests.contract.suites.builders import ready
from tests.support.memory.store import MemoryStore
from tests.unit.pipeline.worker.bare_worker import worker_of


class Damaged(MemoryStore):
    """Cannot hand out one of its jobs; with `whole` it does not know which."""

    whole = False

    async def claim(self, worker_id: str, job_id: str | None = None, without: Collection[str] = ()) -> Lease | None:
        if "bad" not in without:
            raise StoreDamaged("the row is too large", None if self.whole else "bad")
        return await super().claim(worker_id, job_id, without)


class In(Input):
    parcel: str


@declare("quick", version="1")
class Quick(HttpScraper):
    """Finds nothing, at once."""

    Input = In

    async def fetch(self, item: In, web: WebSession) -> None:
        return


@pytest.mark.req("W5", "Z9")
async def test_a_job_that_cannot_be_handed_out_is_left_out_and_said_so_in_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock, stop = SystemClock(), asyncio.Event()
    store = Damaged(clock, 30.0)
    await ready(store, "good")
    working = asyncio.create_task(worker_of(store, clock, Quick()).run(stop))
    async with asyncio.timeout(60):
        while not (await store.status("good")).state.terminal:
            await asyncio.sleep(0.01)
        stop.set()
        await working
    told = [record.message for record in caplog.records if "bad" in record.message]
    assert told == ["job bad is left out by this worker: the row is too large"]


@pytest.mark.req("Z9")
async def test_damage_of_no_job_in_particular_ends_the_worker() -> None:
    clock = SystemClock()
    store = Damaged(clock, 30.0)
    store.whole = True
    with pytest.raises(StoreDamaged):
        async with asyncio.timeout(60):
            await worker_of(store, clock, Quick()).run(asyncio.Event())

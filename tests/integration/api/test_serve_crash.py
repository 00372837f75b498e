"""Z1, N1: `swath serve` dies by kill -9 at named points; another one goes on, and nothing is lost or told as two."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from harness.armed_cli import KILLED
from swath.observability.crash_points import WEBHOOK_POINTS
from swath.pipeline.ingest.validate import BATCH_ROWS
from tests.integration.api.serving import Place, Served
from tests.unit.integrations.webhooks.receiver import receiving

pytestmark = pytest.mark.req("Z1", "N1")

ROWS = 2 * BATCH_ROWS + 500


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def _order(url: str, items: int = 3) -> dict[str, Any]:
    rows = [{"item_id": str(n), "input": {"n": n}} for n in range(items)]
    return {"job_id": "job", "scraper_id": "example-mock", "callback_url": url, "items": rows}


async def _dies(served: Served) -> None:
    assert await asyncio.wait_for(served.process.wait(), 60) == KILLED


@pytest.mark.parametrize("point", WEBHOOK_POINTS)
async def test_a_webhook_is_sent_at_least_once_under_one_id(place: Place, point: str) -> None:
    async with receiving() as receiver:
        place.environment["SWATH_ALLOW_PRIVATE"] = receiver.address
        async with place.serving(armed=True, SWATH_CRASH_AT=f"{point}:1") as served:
            await served.ask("POST", "/jobs", json=_order(receiver.url))
            await _dies(served)
        before = len(receiver.received)
        assert before == (0 if point == "before_webhook_send" else 1)
        async with place.serving() as served:
            async with asyncio.timeout(60):
                while (entry := (await served.ask("GET", "/jobs/job/webhooks"))[0])["state"] != "delivered":
                    await asyncio.sleep(0.1)
            assert await served.stopped() == 0
    assert len(receiver.received) == (2 if point == "after_webhook_send" else 1), "it comes at least once"
    assert {one.headers["webhook-id"] for one in receiver.received} == {entry["webhook_id"]}, "it keeps its id"


async def test_a_webhook_keeps_its_id_over_every_restart(place: Place) -> None:
    """Two controllers die when it was sent and not yet noted: it comes three times, and every time it is the same."""
    async with receiving() as receiver:
        place.environment["SWATH_ALLOW_PRIVATE"] = receiver.address
        for number in (1, 2):
            async with place.serving(armed=True, SWATH_CRASH_AT="after_webhook_send:1") as served:
                if number == 1:
                    await served.ask("POST", "/jobs", json=_order(receiver.url))
                await _dies(served)
            assert len(receiver.received) == number
        async with place.serving() as served:
            await receiver.until(3)
            (entry,) = await served.ask("GET", "/jobs/job/webhooks")
            assert await served.stopped() == 0
    assert {one.headers["webhook-id"] for one in receiver.received} == {entry["webhook_id"]}, "it keeps its id"
    assert {one.told["generation"] for one in receiver.received} == {1}


@pytest.mark.parametrize("point", ["before_manifest", "after_manifest_part", "after_job_metadata", "after_end"])
async def test_a_job_whose_end_was_broken_off_ends_and_tells_of_it(place: Place, point: str) -> None:
    async with receiving() as receiver:
        place.environment["SWATH_ALLOW_PRIVATE"] = receiver.address
        async with place.serving(armed=True, SWATH_CRASH_AT=f"{point}:1") as served:
            await served.ask("POST", "/jobs", json=_order(receiver.url, items=40))
            await _dies(served)
        assert receiver.received == []
        async with place.serving() as served:
            status = await served.until("job", "completed")
            (came,) = await receiver.until(1)
            assert await served.stopped() == 0
    assert (status["counts"]["success"], came.told["counts"]["success"], len(came.told["results"])) == (40, 40, 40)
    assert (await place.run("jobs", "verify", "job"))[0] == 0, "everything that it tells of is there"


@pytest.mark.req("J2")
async def test_a_streamed_load_goes_on_where_it_was(place: Place) -> None:
    """Killed between two batches; the same request again loads each row once."""
    rows = b"".join(b'{"item_id": "i-%d", "input": {"n": %d}}\n' % (n, n) for n in range(ROWS))
    headers = {"Content-Type": "application/x-ndjson", "Idempotency-Key": "the-load"}
    async with place.serving("--no-worker", armed=True, SWATH_CRASH_AT="after_load_batch:2") as served:
        await served.ask("POST", "/jobs", json={"job_id": "big", "scraper_id": "example-mock"})
        with pytest.raises(httpx.TransportError):
            await served.client.post("/jobs/big/items", content=rows, headers=headers)
        await _dies(served)
    async with place.serving("--no-worker") as served:
        loaded = (await served.ask("GET", "/jobs/big/status"))["loaded_rows"]
        assert loaded == 2 * BATCH_ROWS
        answer = await served.ask("POST", "/jobs/big/items", content=rows, headers=headers)
        assert answer["loaded_rows"] == ROWS, "each row counts once"
        status = await served.ask("POST", "/jobs/big/start")
        assert status["counts"]["total"] == ROWS
        assert await served.stopped() == 0

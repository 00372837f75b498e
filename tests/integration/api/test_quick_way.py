"""The quick way of a scrape that somebody waits for: three commits, and no pause of a poll in between (DESIGN 8)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from harness.bench.sync_scrape import measure
from swath.backends.sqlite.database import Database
from tests.integration.api.pages import with_pages
from tests.integration.api.running import Api
from tests.support.bounds import HANGING_SECONDS

pytestmark = pytest.mark.req("I3")

SYNC = "/api/v1/scrape/sync"
BODY = {"target_type": "page", "target_url": "https://shop.example/one"}


async def at_rest(api: Api) -> None:
    """Waits until the job of the scrape is wound up, and the worker looks for others."""
    async with asyncio.timeout(HANGING_SECONDS):
        while not all(job.state.terminal for job in await api.services.store.jobs()):
            await asyncio.sleep(0.05)
    await asyncio.sleep(0.5)


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with with_pages(tmp_path) as opened:
        await opened.data("POST", SYNC, json=BODY)  # whatever is done once
        await at_rest(opened)
        yield opened


async def test_the_answer_waits_for_three_commits(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    commits: list[str] = []
    answered = threading.Event()
    whole = Database._write

    def counted(self: Database, asked_at: float, change: Any, *args: Any, **kwargs: Any) -> Any:
        if len(commits) >= 3:
            answered.wait(HANGING_SECONDS)  # whatever else is to be written comes after the answer
        connection = self._write_connection
        before = 0 if connection is None else connection.total_changes
        answer = whole(self, asked_at, change, *args, **kwargs)
        if connection is None or connection.total_changes > before:
            commits.append(change.__name__)
        return answer

    monkeypatch.setattr(Database, "_write", counted)
    try:
        await asyncio.wait_for(api.data("POST", SYNC, json=BODY), HANGING_SECONDS)
        assert commits == ["_order", "claim", "finish"]
    finally:
        answered.set()


def polling_seldom(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on a worker that is not told of work finds it after minutes."""
    assert api.controller.worker is not None
    monkeypatch.setattr(api.services.queue, "_poll_seconds", 600.0)
    monkeypatch.setattr(api.controller.worker._rest, "_busy_seconds", 600.0)


async def scrape_a_few(api: Api) -> None:
    for n in range(4):
        await asyncio.sleep(0.4)  # the worker has come to rest
        body = {**BODY, "target_url": f"https://shop.example/{n}", "timeout_seconds": 60}
        assert (await api.data("POST", SYNC, json=body))["status"] == "completed"


async def test_a_worker_that_rests_is_woken_at_once(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    polling_seldom(api, monkeypatch)
    await scrape_a_few(api)


@pytest.mark.req("S3")
async def test_a_worker_that_is_busy_takes_it_up_at_once_too(
    api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = tmp_path / "gate"
    items = [{"item_id": str(n), "input": {"gate": str(gate), "n": n}} for n in range(4)]
    await api.data("POST", "/jobs", json={"job_id": "bulk", "scraper_id": "gated", "items": items})
    async with asyncio.timeout(60):
        while (await api.data("GET", "/jobs/bulk/status"))["status"] != "running":
            await asyncio.sleep(0.01)
    polling_seldom(api, monkeypatch)
    await scrape_a_few(api)
    assert (await api.data("GET", "/jobs/bulk/status"))["counts"]["success"] == 0
    gate.touch()


async def test_the_measurement_runs(tmp_path: Path) -> None:
    cost = await measure(tmp_path, scrapes=10)
    assert cost.sync_ms > cost.fetch_ms > 0
    assert 3 <= cost.commits < 12
    assert "10 scrapes" in str(cost)

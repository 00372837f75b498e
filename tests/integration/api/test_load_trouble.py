"""Loads in trouble: slow senders, a store that does not answer, headers that cannot be."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from swath.domain.errors import StoreUnavailable
from swath.domain.job import WaitingFor
from swath.entrypoints.api import limits
from swath.entrypoints.api.limits import UploadSpeed
from swath.entrypoints.api.routes import uploads
from swath.pipeline.ingest import validate
from tests.integration.api.pages import served
from tests.integration.api.running import Api, running

pytestmark = pytest.mark.req("I2", "J2")

ROWS = b"".join(json.dumps({"parcel_id": f"{n:03}"}).encode() + b"\n" for n in range(1, 21))
HEADERS = {"Content-Type": "application/x-ndjson"}


@pytest.mark.req("Z5")
@pytest.mark.parametrize("crowded", [True, False])
async def test_a_trickle_gives_way_only_to_others_that_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, crowded: bool
) -> None:
    monkeypatch.setattr(limits, "MAX_LOADS", 1)
    monkeypatch.setattr(limits, "SPEED_WINDOW_SECONDS", 0.5)

    async def trickle() -> AsyncIterator[bytes]:
        for at in range(60):
            yield ROWS[at : at + 1]
            await asyncio.sleep(0.03)
        yield ROWS[60:]

    async with running(tmp_path) as api, served(api) as client:
        for name in ("slow", "quick"):
            await api.data("POST", "/jobs", json={"job_id": name, "scraper_id": "typed"})
        slow = asyncio.create_task(client.post("/jobs/slow/items", content=trickle(), headers=HEADERS))
        await asyncio.sleep(0.2)
        if crowded:
            quick = await client.post("/jobs/quick/items", content=ROWS, headers=HEADERS)
            assert quick.json()["data"]["loaded_rows"] == 20
            with contextlib.suppress(httpx.WriteError):
                refused = await slow
                assert refused.status_code == 422
                assert "slower" in refused.json()["error"]["message"]
        assert slow.done() is crowded
        if not crowded:
            assert (await slow).json()["data"]["loaded_rows"] == 20


@pytest.mark.req("Z5")
def test_a_sender_that_is_held_up_is_not_slow() -> None:
    pace = UploadSpeed()
    assert not any(pace.is_slow(0.001, 1) for _ in range(1_000))  # little comes since little is asked for
    assert [pace.is_slow(10.0, 20_000) for _ in range(6)] == [False] * 6
    assert [pace.is_slow(10.0, 5_000) for _ in range(3)].count(True) == 1


@pytest.mark.req("Z1", "I1")
@pytest.mark.parametrize("answers", [True, False])
async def test_a_load_that_the_store_ends_says_how_far_it_came_if_it_can(
    api: Api, monkeypatch: pytest.MonkeyPatch, answers: bool
) -> None:
    monkeypatch.setattr(validate, "BATCH_ROWS", 3)
    monkeypatch.setattr(uploads, "PROGRESS_SECONDS", 0.2)
    await api.data("POST", "/jobs", json={"job_id": "county", "scraper_id": "typed"})
    store = api.services.store
    load, status, away = type(store).load, type(store).status, False

    async def fails(self: Any, job_id: str, batch: Any) -> Any:
        nonlocal away
        if batch.number == 2:
            away = True
            raise StoreUnavailable("the store does not answer", WaitingFor.STORE)
        return await load(self, job_id, batch)

    async def looked_at(self: Any, job_id: str) -> Any:
        if away and not answers:
            await asyncio.sleep(60)
        return await status(self, job_id)

    monkeypatch.setattr(type(store), "load", fails)
    monkeypatch.setattr(type(store), "status", looked_at)
    async with asyncio.timeout(60):
        answer = await api.ask("POST", "/jobs/county/items", content=ROWS, headers=HEADERS)
    error = answer.json()["error"]
    assert (error["code"], error["details"]["waiting_for"]) == ("store_unavailable", "store")
    assert error["details"].get("loaded_rows") == (6 if answers else None)
    assert int(answer.headers["retry-after"]) >= 1


@pytest.mark.req("I1")
@pytest.mark.parametrize(
    ("header", "value"),
    [("Content-Type", "image/png"), ("Content-Type", "text/csv; charset=latin-1"), ("Content-Encoding", "br")],
)
async def test_a_header_that_cannot_be_is_named_once(api: Api, header: str, value: str) -> None:
    await api.data("POST", "/jobs", json={"job_id": "county", "scraper_id": "typed"})
    error = await api.error("POST", "/jobs/county/items", content=ROWS, headers={**HEADERS, header: value})
    assert error["message"].count(header) == 1
    assert [(one["path"], one["in"]) for one in error["details"]["fields"]] == [(header, "header")]


@pytest.mark.req("I1")
@pytest.mark.parametrize("path", ["/jobs", "/jobs/county/items"])
async def test_of_two_idempotency_keys_neither_is_taken(api: Api, path: str) -> None:
    await api.data("POST", "/jobs", json={"job_id": "county", "scraper_id": "typed"})
    twice = [("Idempotency-Key", "a"), ("Idempotency-Key", "b"), ("Content-Type", "application/json")]
    error = await api.error("POST", path, content=b'{"scraper_id": "typed"}', headers=twice)
    assert (error["code"], error["details"]["fields"][0]["path"]) == ("validation_error", "Idempotency-Key")


@pytest.mark.req("I1")
@pytest.mark.parametrize("job_id", [".", ".."])
async def test_a_job_that_no_address_could_lead_to_is_refused(api: Api, job_id: str) -> None:
    error = await api.error("POST", "/jobs", json={"job_id": job_id, "scraper_id": "typed"})
    assert (error["code"], error["details"]["fields"][0]["path"]) == ("validation_error", "job_id")

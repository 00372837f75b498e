"""O1: every request leaves one line with its id, and nothing in it that the caller has made up."""

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from pathlib import Path
from typing import Any

import httpx
import pytest

from swath.domain.errors import StoreUnavailable
from swath.domain.job import WaitingFor
from swath.domain.service_key import Scope
from tests.integration.api.running import HERE, Api
from tests.integration.api.serving import Place

pytestmark = pytest.mark.req("O1")

LINES = "swath.requests"


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[Any, ...]]:
    """Level, method, route and status of each."""
    found = [vars(record) for record in caplog.records if record.name == LINES]
    return [(one["levelname"], one["method"], one["route"], one["status"]) for one in found]


async def test_requests_are_told_by_route_and_those_of_probes_only_to_who_looks_closely(
    api: Api, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, LINES)
    await api.client.get("/health")
    await api.client.get("/jobs/nobody/status")
    await api.client.get("/openapi.json?api_token=abc")
    await api.client.request("BREW", "/pot%0AERROR%20forged")
    await api.client.get("/jobs", headers={"Host": "elsewhere.example"})
    assert lines(caplog) == [
        ("DEBUG", "GET", "/health", 200),
        ("INFO", "GET", "/jobs/{job_id}/status", 404),
        ("INFO", "GET", "none", 200),
        ("INFO", "none", "none", 404),
        ("INFO", "GET", "none", 403),
    ]
    told = str([vars(record) for record in caplog.records if record.name == LINES])
    assert not any(word in told for word in ("nobody", "abc", "forged", "BREW", "elsewhere"))


async def test_a_line_names_the_key_but_does_not_show_it(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LINES)
    shown = (await api.key(Scope.READ)).reveal()
    await api.client.get("/jobs", headers={"X-Service-Key": shown})
    (record,) = [record for record in caplog.records if record.name == LINES]
    assert vars(record)["key_id"] == (await api.services.store.keys())[0].key_id
    assert vars(record)["duration_ms"] > 0
    assert shown not in str(vars(record))


@pytest.mark.parametrize(
    ("error", "level", "status"),
    [(StoreUnavailable("away", WaitingFor.STORE), "WARNING", 503), (RuntimeError("a bug"), "ERROR", 500)],
)
async def test_what_failed_stands_out(
    api: Api,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    level: str,
    status: int,
) -> None:
    async def fails(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(type(api.services.store), "jobs", fails)
    assert (await api.client.get("/jobs")).status_code == status
    assert lines(caplog) == [(level, "GET", "/jobs", status)]


async def test_a_caller_that_goes_away_is_no_bug_of_ours(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LINES)
    transport = httpx.ASGITransport(_leaving(api))
    async with httpx.AsyncClient(transport=transport, base_url=HERE) as client:
        with pytest.raises(AssertionError):  # there is no answer, and the client insists on one
            await client.post("/jobs", json={})
    assert lines(caplog) == [("INFO", "POST", "/jobs", 499)]


def _leaving(api: Api) -> Any:
    app = api.client._transport.app  # type: ignore[attr-defined]

    async def left() -> dict[str, str]:
        return {"type": "http.disconnect"}

    async def called(scope: Any, receive: object, send: Any) -> None:
        del receive
        await app(scope, left, send)

    return called


async def test_the_log_of_a_controller_has_the_id_of_each_request(tmp_path: Path) -> None:
    place = Place(tmp_path)
    asked = str(uuid.uuid4())
    async with place.serving("--no-worker", SWATH_LOG_FORMAT="json", SWATH_LOG_LEVEL="info") as served:
        await served.client.get("/jobs/a%0Ab/status", headers={"X-Request-ID": asked})
        await served.client.get("/health")
        assert await served.stopped() == 0
        assert served.process.stderr is not None
        said = (await asyncio.wait_for(served.process.stderr.read(), 60)).decode()
    found = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    (line,) = [one for one in found if one["logger"] == LINES]
    assert (line["event"], line["request_id"], line["status"]) == ("request answered", asked, 404)
    assert (line["method"], line["route"], line["key_id"]) == ("GET", "/jobs/{job_id}/status", None)

"""Jobs, items and scrapers, looked at over HTTP."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.integration.api.running import Api, until_ended

MOCK: dict[str, Any] = {
    "job_id": "a",
    "scraper_id": "example-mock",
    "items": [{"item_id": "one", "input": {"x": 1}}, {"item_id": "two", "input": {"x": 2}}],
}


@pytest.mark.req("I2")
@settings(max_examples=40, deadline=None)
@given(job_id=st.text(min_size=1, max_size=30).filter(str.isprintable), item_id=st.text(min_size=1, max_size=30))
def test_ids_in_addresses_may_be_anything(
    shared_api: Api, loop_runner: asyncio.Runner, job_id: str, item_id: str
) -> None:
    if "\0" in item_id or {job_id, item_id} & {".", ".."}:  # clients fold those two away before they ask
        return
    body = {"job_id": job_id, "scraper_id": "example-mock", "items": [{"item_id": item_id, "input": {"x": 1}}]}
    path = f"/jobs/{quote(job_id, safe='')}"
    loop_runner.run(shared_api.data("POST", "/jobs", json=body))
    assert loop_runner.run(shared_api.data("GET", path))["job_id"] == job_id
    found = loop_runner.run(shared_api.data("GET", f"{path}/items/{quote(item_id, safe='')}"))
    assert (found["job_id"], found["item_id"]) == (job_id, item_id)
    loop_runner.run(shared_api.services.store.cancel(job_id))
    loop_runner.run(_removed(shared_api, job_id))


async def _removed(api: Api, job_id: str) -> None:
    """So that the next example may use its id again."""
    from swath.bootstrap.workers import make_finisher, make_remover

    await make_finisher(api.services, "w", job_id).run_once()
    await api.services.store.delete(job_id)
    await make_remover(api.services, "w", job_id).run_once()


@pytest.mark.req("I2")
async def test_jobs_are_listed_by_pages_the_newest_first(api: Api) -> None:
    for n in range(7):
        await api.data("POST", "/jobs", json={**MOCK, "job_id": f"j/{n}"})
    await api.data("POST", "/jobs/j%2F3/pause")
    seen: list[str] = []
    cursor = None
    while True:
        page = await api.data("GET", "/jobs", params={"limit": 3} | ({"cursor": cursor} if cursor else {}))
        seen += [job["job_id"] for job in page["jobs"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == [f"j/{n}" for n in range(6, -1, -1)]
    paused = await api.data("GET", "/jobs", params={"status": ["paused", "failed"]})
    assert [job["job_id"] for job in paused["jobs"]] == ["j/3"]


@pytest.mark.req("I2")
async def test_items_are_listed_by_pages_and_by_state_and_kind(working_api: Api) -> None:
    mixed = {"job_id": "m", "scraper_id": "example-fail", "execution_policy": {"retries": {"max_retries": 0}}}
    items = [{"item_id": f"i{n}", "input": {"n": n}} for n in range(5)]
    await working_api.data("POST", "/jobs", json={**mixed, "items": items})
    await until_ended(working_api, "m")
    seen: list[str] = []
    cursor: str | None = "0"
    while cursor is not None:
        page = await working_api.data("GET", f"/jobs/m/items?limit=2&cursor={cursor}")
        assert len(page["items"]) <= 2
        seen += [item["item_id"] for item in page["items"]]
        cursor = page["next_cursor"]
    assert seen == [f"i{n}" for n in range(5)]
    failed = await working_api.data("GET", "/jobs/m/items?state=failed&kind=server_error")
    assert [item["failure"]["kind"] for item in failed["items"]] == ["server_error"] * 5
    assert (await working_api.data("GET", "/jobs/m/items?state=success"))["items"] == []
    error = await working_api.error("GET", "/jobs/m/items?kind=sever_error")
    assert error["details"]["fields"][0] == {
        "path": "kind",
        "in": "query",
        "message": "there is no such failure kind; did you mean 'server_error'?",
    }


@pytest.mark.req("I1", "Z5")
async def test_a_name_in_the_address_that_means_nothing_is_refused_everywhere(api: Api) -> None:
    await api.data("POST", "/jobs", json={"job_id": "a", "scraper_id": "typed"})
    error = await api.error("GET", "/jobs/a/items?stat=failed&limit=2")
    (field,) = error["details"]["fields"]
    assert (error["code"], field["path"], field["in"]) == ("validation_error", "stat", "query")
    assert field["message"] == "is not known; did you mean 'state'?"
    paths: dict[str, Any] = (await api.client.get("/openapi.json")).json()["paths"]
    for path, methods in paths.items():
        if path in {"/health", "/readiness"}:  # whoever probes may add what it likes
            continue
        for method, operation in methods.items():
            address = path.replace("{job_id}", "a").replace("{", "").replace("}", "")
            answer = await api.client.request(method.upper(), f"{address}?nonsense=1")
            assert answer.status_code == 422, (method, path)
            assert answer.json()["error"]["details"]["fields"][0]["path"] == "nonsense", (method, path)
            assert "422" in operation["responses"], (method, path)


@pytest.mark.req("I2", "K3", "Z7")
async def test_scrapers_are_listed_without_where_they_lie(api: Api, tmp_path: Path) -> None:
    answer = await api.ask("GET", "/scrapers")
    found = {one["scraper_id"]: one for one in answer.json()["data"]["scrapers"]}
    assert found["example-http"]["origin"] == "shipped"
    assert found["typed"] == {
        "scraper_id": "typed",
        "name": found["typed"]["name"],
        "version": "3",
        "description": "Particular.",
        "sites": [],
        "origin": "file",
    }
    assert str(tmp_path) not in answer.text

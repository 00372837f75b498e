"""Jobs ordered over HTTP: new ones, the same again, and those that are refused as a whole."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from swath.demo.county import DemoCountyServer, FaultSettings
from swath.domain.job import Job, JobStatus
from swath.domain.transitions import JobState
from swath.entrypoints.api.models import CIRCUIT_JOB, TWO_ITEMS, JobView, job_view
from swath.pipeline.ingest import validate as batching
from tests.integration.api.running import Api, running, until_ended

LOCAL = '''
"""A scraper that begins where its input says."""

from swath import HttpScraper, Input, scraper


class Address(Input):
    url: str


@scraper("local", version="1", description="Gets a page.")
class Local(HttpScraper):
    Input = Address

    async def fetch(self, item, web):
        return await web.get(item.url)
'''
MOCK: dict[str, Any] = {
    "job_id": "a",
    "scraper_id": "example-mock",
    "items": [{"item_id": "one", "input": {"x": 1}}, {"item_id": "two", "input": {"x": 2}}],
}


@pytest.mark.req("I2", "J1")
async def test_a_job_with_items_starts_by_itself_and_runs_to_its_end(working_api: Api) -> None:
    answer = await working_api.ask("POST", "/jobs", json=MOCK)
    assert answer.status_code == 201
    assert answer.json()["data"]["counts"]["total"] == 2
    status = await until_ended(working_api, "a")
    assert (status["status"], status["counts"]["success"]) == ("completed", 2)
    item = await working_api.data("GET", "/jobs/a/items/one")
    assert (item["state"], item["input"], len(item["attempts"])) == ("success", {"x": 1}, 1)
    assert {artifact["key"].rpartition("/")[2] for artifact in item["artifacts"]} >= {"data.json", "metadata.json"}


@pytest.mark.req("K3", "I2")
async def test_without_a_scraper_the_default_one_is_taken_or_the_field_is_named(tmp_path: Path, api: Api) -> None:
    body = {key: value for key, value in MOCK.items() if key != "scraper_id"}
    error = await api.error("POST", "/jobs", json=body)
    assert (error["code"], [field["path"] for field in error["details"]["fields"]]) == (
        "validation_error",
        ["scraper_id"],
    )
    assert "SWATH_DEFAULT_SCRAPER" in str(error["details"])
    folder = tmp_path / "with-default"
    folder.mkdir()
    async with running(folder, default_scraper="example-mock") as other:
        assert (await other.data("POST", "/jobs", json=body))["scraper_id"] == "example-mock"


@pytest.mark.req("S4", "I2")
async def test_the_circuit_of_appendix_1_opens(working_api: Api) -> None:
    await working_api.data("POST", "/jobs", json=CIRCUIT_JOB)
    status = await until_ended(working_api, "circuit-test")
    assert status["status"] == "failed"
    assert status["circuit"]["state"] == "open"
    assert status["counts"]["failed"] + status["counts"]["cancelled"] == 10


@pytest.mark.req("J7")
def test_a_status_has_the_declared_shape() -> None:
    shown = job_view(JobStatus(job=Job(job_id="a", scraper_id="s"), state=JobState.PENDING))
    assert set(shown) == set(JobView.model_fields)
    JobView.model_validate(shown)


@pytest.mark.req("J6")
async def test_the_same_order_again_is_the_same_job(api: Api) -> None:
    first = await api.ask("POST", "/jobs", json=MOCK)
    again = await api.ask("POST", "/jobs", json=MOCK)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["data"]["created_at"] == again.json()["data"]["created_at"]
    assert again.json()["data"]["counts"]["total"] == 2


@pytest.mark.req("J6")
@pytest.mark.parametrize("items", [MOCK["items"], None])
async def test_of_many_who_order_the_same_at_once_one_made_it(api: Api, items: list[Any] | None) -> None:
    body = {name: value for name, value in {**MOCK, "items": items}.items() if value is not None}
    same_id = {"X-Request-ID": "6f1c0d0e-6a6f-4a58-9a3a-0d6d4c1f7a01"}  # as a client sends it that tries again
    answers = await asyncio.gather(*(api.ask("POST", "/jobs", json=body, headers=same_id) for _ in range(12)))
    assert sorted(answer.status_code for answer in answers) == [200] * 11 + [201]
    assert len((await api.data("GET", "/jobs"))["jobs"]) == 1


@pytest.mark.req("J6")
@pytest.mark.parametrize(
    "change",
    [
        {"items": [{"item_id": "one", "input": {"x": 1}}]},
        {"items": [*MOCK["items"], {"input": {"x": 3}}]},
        {"items": [MOCK["items"][0], {"item_id": "two", "input": {"x": 9}}]},
        {"items": MOCK["items"][::-1]},
        {"scraper_id": "example-fail"},
        {"priority": 7},
        {"labels": {"a": "b"}},
        {"execution_policy": {"keep": "data"}},
    ],
)
async def test_another_order_under_the_same_id_is_a_conflict_and_changes_nothing(
    api: Api, change: dict[str, Any]
) -> None:
    before = await api.data("POST", "/jobs", json=MOCK)
    assert (await api.error("POST", "/jobs", json={**MOCK, **change}))["code"] == "conflict"
    assert await api.data("GET", "/jobs/a") == before


@pytest.mark.req("J6", "Z5")
async def test_a_conflict_says_what_differs_in_words_for_programs_too(api: Api) -> None:
    await api.data("POST", "/jobs", json=MOCK)
    told = (await api.error("POST", "/jobs", json={**MOCK, "priority": 7}))["message"]
    assert "its priority differs" in told
    many = [{"item_id": f"{n}", "input": {"x": n}} for n in range(10_001)]
    await api.data("POST", "/jobs", json={**MOCK, "job_id": "many", "items": many})
    other = {**MOCK, "job_id": "many", "items": [*many[:-1], {"item_id": "z", "input": {"x": 1}}]}
    told = (await api.error("POST", "/jobs", json=other))["message"]
    assert "another job id" in told
    assert "--job-id" not in told


@pytest.mark.req("J2", "J6")
async def test_another_scraper_under_the_same_idempotency_key_is_a_conflict(api: Api) -> None:
    body = {name: value for name, value in MOCK.items() if name != "job_id"}
    headers = {"Idempotency-Key": "order 17"}
    await api.data("POST", "/jobs", json=body, headers=headers)
    error = await api.error("POST", "/jobs", json={**body, "scraper_id": "example-fail"}, headers=headers)
    assert error["code"] == "conflict"
    assert len((await api.data("GET", "/jobs"))["jobs"]) == 1


@pytest.mark.req("Z7", "N1")
async def test_what_is_secret_in_a_callback_url_is_not_shown_to_who_may_look(tmp_path: Path) -> None:
    secret = {**MOCK, "callback_url": "http://127.0.0.1:9/own?token=geheim"}
    async with running(tmp_path, allow_private=("127.0.0.1:9",)) as api:
        for answer in (await api.data("POST", "/jobs", json=secret), await api.data("GET", "/jobs/a")):
            assert answer["callback_url"] == "http://127.0.0.1:9/own"
        assert (await api.services.store.status("a")).job.callback_url == secret["callback_url"]


@pytest.mark.req("J6")
async def test_an_idempotency_key_names_a_job_that_has_no_id(api: Api) -> None:
    body = {name: value for name, value in MOCK.items() if name != "job_id"}
    headers = {"Idempotency-Key": "order 17"}
    first = await api.ask("POST", "/jobs", json=body, headers=headers)
    again = await api.ask("POST", "/jobs", json=body, headers=headers)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["data"]["job_id"] == again.json()["data"]["job_id"]
    other = await api.error("POST", "/jobs", json={**body, "items": body["items"][:1]}, headers=headers)
    assert other["code"] == "conflict"
    assert len((await api.data("GET", "/jobs"))["jobs"]) == 1
    without = [await api.data("POST", "/jobs", json=body) for _ in range(2)]
    assert without[0]["job_id"] != without[1]["job_id"]


@pytest.mark.req("J2", "I2")
async def test_without_items_it_waits_for_them(api: Api) -> None:
    made = await api.data("POST", "/jobs", json={"job_id": "s", "scraper_id": "typed"})
    assert (made["status"], made["counts"]["total"]) == ("loading", 0)
    assert (await api.error("POST", "/jobs/s/start"))["code"] == "validation_error"
    rows = b'{"parcel_id": "001"}\n{"parcel_id": "002"}\n'
    await api.data("POST", "/jobs/s/items", content=rows, headers={"Content-Type": "application/x-ndjson"})
    started = await api.data("POST", "/jobs/s/start")
    assert (started["status"], started["counts"]["total"]) == ("pending", 2)
    assert (await api.data("POST", "/jobs/s/start"))["status"] == "pending"


@pytest.mark.req("J2", "J6")
async def test_more_than_a_batch_is_loaded_like_a_file(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "BATCH_ROWS", 10)
    body = {**MOCK, "items": [{"input": {"x": n}} for n in range(35)]}
    made = await api.ask("POST", "/jobs", json=body)
    assert (made.status_code, made.json()["data"]["counts"]["total"]) == (201, 35)
    assert made.json()["data"]["status"] == "pending"
    assert (await api.ask("POST", "/jobs", json=body)).status_code == 200
    other = {**body, "items": [*body["items"][:34], {"input": {"x": 99}}]}
    assert (await api.error("POST", "/jobs", json=other))["code"] == "conflict"


@pytest.mark.req("H5", "I2")
async def test_a_job_that_robots_txt_denies_as_a_whole_is_refused(tmp_path: Path) -> None:
    async with DemoCountyServer(FaultSettings(robots="User-agent: *\nDisallow: /secret\n")) as county:
        (tmp_path / "scrapers").mkdir()
        (tmp_path / "scrapers" / "local.py").write_text(LOCAL)
        async with running(tmp_path, allow_private=(county.base_url.removeprefix("http://"),)) as api:

            def body(job_id: str, *paths: str) -> dict[str, Any]:
                items = [{"item_id": path, "input": {"url": f"{county.base_url}{path}"}} for path in paths]
                return {"job_id": job_id, "scraper_id": "local", "items": items}

            error = await api.error("POST", "/jobs", json=body("all", "/secret/1", "/secret/2"))
            assert error["code"] == "validation_error"
            assert "robots.txt denies every item" in error["message"]
            assert (await api.ask("GET", "/jobs/all")).status_code == 404
            assert (await api.data("POST", "/jobs", json=body("some", "/secret/1", "/echo")))["status"] == "pending"


@pytest.mark.req("I2")
def test_the_bodies_of_appendix_1_are_the_examples() -> None:
    assert [item["item_id"] for item in TWO_ITEMS["items"]] == ["item-1", "item-2"]
    assert len(CIRCUIT_JOB["items"]) == 10


@pytest.mark.req("J1")
async def test_an_input_may_have_fields_that_are_called_like_those_of_an_item(api: Api) -> None:
    given_input = {"input": "x", "item_id": 7}
    body = {"job_id": "i", "scraper_id": "inner", "items": [{"item_id": "a", "input": given_input}]}
    await api.data("POST", "/jobs", json=body)
    assert (await api.data("GET", "/jobs/i/items/a"))["input"] == given_input


@pytest.mark.req("N1", "Z7")
async def test_the_demo_site_is_open_to_demo_scrapers_and_to_no_webhook(tmp_path: Path) -> None:
    async with running(tmp_path, demo_url="http://127.0.0.1:8010") as api:
        order = {**MOCK, "callback_url": "http://127.0.0.1:8010/hook"}
        error = await api.error("POST", "/jobs", json=order)
        assert (error["code"], error["details"]["fields"][0]["path"]) == ("validation_error", "callback_url")

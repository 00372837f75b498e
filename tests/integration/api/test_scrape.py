"""Scrapes on demand: one page now, for somebody who waits (I3)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swath.domain.execution_policy import ExecutionPolicy
from swath.domain.failure import FailureKind
from swath.domain.proxy_products import ProxyType
from swath.domain.secret import Secret
from swath.domain.transitions import ItemState
from swath.pipeline.ingest.on_demand import ON_DEMAND_PRIORITY, job_id_of_task
from tests.integration.api.pages import with_pages
from tests.integration.api.running import Api, until_ended
from tests.support.bounds import HANGING_SECONDS

pytestmark = pytest.mark.req("I3")

SCRAPE = "/api/v1/scrape"


@pytest.fixture
async def working(tmp_path: Path) -> AsyncIterator[Api]:
    async with with_pages(tmp_path) as api:
        yield api


@pytest.fixture
async def idle(tmp_path: Path) -> AsyncIterator[Api]:
    """Without a worker: tasks stay as they were ordered."""
    async with with_pages(tmp_path, work=False, queue_depth=5) as api:
        yield api


def wish(path: str = "one", **options: Any) -> dict[str, Any]:
    return {"target_type": "page", "target_url": f"https://shop.example/{path}", "options": options}


async def until_task(api: Api, task_id: str, *words: str) -> dict[str, Any]:
    async with asyncio.timeout(60):
        while (task := await api.data("GET", f"{SCRAPE}/{task_id}"))["status"] not in words:
            await asyncio.sleep(0.01)
    found: dict[str, Any] = task
    return found


async def test_the_body_of_the_appendix_is_taken_and_queued(idle: Api) -> None:
    """Property 6."""
    body = {
        **wish(),
        "workspace_id": None,
        "provider": None,
        "callback_url": None,
    }
    answer = await idle.ask("POST", SCRAPE, json=body)
    assert answer.status_code == 202
    data = answer.json()["data"]
    assert data["status"] == "queued"
    assert str(UUID(data["task_id"])) == data["task_id"]
    assert data["job_id"] == job_id_of_task(UUID(data["task_id"]))
    status = await idle.services.store.status(data["job_id"])
    assert (status.job.on_demand, status.job.priority, status.counts.total) == (True, ON_DEMAND_PRIORITY, 1)
    assert status.job.request_id == answer.json()["request_id"]
    assert status.job.policy.retention_days == idle.controller.settings.task_retention_days


async def test_sync_answers_with_what_the_page_said(working: Api) -> None:
    task = await working.data("POST", f"{SCRAPE}/sync", json={**wish(depth=2), "timeout_seconds": 20})
    assert task["status"] == "completed"
    assert task["finding"] == "found"
    assert task["data"] == {"title": "https://shop.example/one", "depth": 2}
    assert [(page["name"], page["url"], page["status"]) for page in task["pages"]] == [
        ("html", "https://shop.example/one", 200)
    ]
    assert task["timing"]["attempts"] == 1
    assert task["timing"]["created_at"] <= task["timing"]["started_at"] <= task["timing"]["ended_at"]
    assert await working.data("GET", f"{SCRAPE}/{task['task_id']}") == task


async def test_what_a_site_does_not_have_is_completed_and_what_fails_says_why(working: Api) -> None:
    missing = await working.data("POST", f"{SCRAPE}/sync", json=wish("missing"))
    assert (missing["status"], missing["finding"], missing["data"]) == ("completed", "not_found", None)
    broken = await working.data("POST", f"{SCRAPE}/sync", json=wish("broken"))
    assert (broken["status"], broken["data"], broken["pages"]) == ("failed", None, [])
    assert broken["failure"] == {"kind": "layout_changed", "message": "it looks different"}


async def test_a_task_that_takes_too_long_goes_on(working: Api, tmp_path: Path) -> None:
    """Property 7: its status is its present state, and there is no result before it is completed."""
    gate = tmp_path / "gate"
    body = {**wish(gate=str(gate)), "timeout_seconds": 0.3}
    answer = await working.ask("POST", f"{SCRAPE}/sync", json=body)
    assert answer.status_code == 504
    error = answer.json()["error"]
    assert error["code"] == "task_timeout"
    task_id = error["details"]["task_id"]
    waiting = await working.data("GET", f"{SCRAPE}/{task_id}")
    assert waiting["status"] in ("queued", "running")
    assert (waiting["data"], waiting["finding"], waiting["pages"]) == (None, None, [])
    gate.touch()
    done = await until_task(working, task_id, "completed")
    assert done["data"]["title"] == "https://shop.example/one"


async def test_who_waits_is_told_when_the_controller_stops(idle: Api) -> None:
    """No lie about a time that is not over; the task is there for the next controller."""
    waiting = asyncio.create_task(idle.ask("POST", f"{SCRAPE}/sync", json=wish()))
    async with asyncio.timeout(60):
        while not await idle.services.store.jobs():
            await asyncio.sleep(0.01)
    await idle.controller.hub.close()
    answer = await asyncio.wait_for(waiting, 60)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (503, "store_unavailable")
    assert int(answer.headers["retry-after"]) > 0
    assert (await idle.data("GET", f"{SCRAPE}/{error['details']['task_id']}"))["status"] == "queued"


async def test_the_answer_does_not_wait_for_the_job_to_be_wound_up(working: Api) -> None:
    """Ordered, claimed, ended: the manifest comes later."""
    await working.data("POST", f"{SCRAPE}/sync", json=wish())  # whatever is done once
    await asyncio.wait_for(
        asyncio.gather(*(working.data("POST", f"{SCRAPE}/sync", json=wish(str(n))) for n in range(5))), HANGING_SECONDS
    )


async def test_several_who_wait_each_get_their_own(working: Api) -> None:
    async def one(n: int) -> tuple[int, Any]:
        return n, await working.data("POST", f"{SCRAPE}/sync", json=wish(f"page-{n}"))

    for n, task in await asyncio.gather(*(one(n) for n in range(12))):
        assert task["data"]["title"] == f"https://shop.example/page-{n}"


@settings(max_examples=8, deadline=None)
@given(
    paths=st.lists(st.sampled_from(["one", "two", "missing", "broken"]), min_size=1, max_size=12),
    rest=st.integers(0, 88),
)
def test_a_batch_makes_one_item_for_each_target(paths: list[str], rest: int, tmp_path_factory: Any) -> None:
    """Properties 8 and 10: N targets are N tasks of one job, and the results list exactly those completed."""

    async def run() -> None:
        async with with_pages(tmp_path_factory.mktemp("batch")) as api:
            wanted = paths + ["missing"] * rest if rest > 80 else paths
            body = {"targets": [wish(path) for path in wanted], "callback_url": None}
            batch = await api.data("POST", f"{SCRAPE}/batch", json=body)
            assert batch["counts"]["total"] == len(wanted) == len({task["task_id"] for task in batch["tasks"]})
            assert {job_id_of_task(UUID(task["task_id"])) for task in batch["tasks"]} == {batch["job_id"]}
            await until_ended(api, batch["job_id"])
            shown = await api.data("GET", f"{SCRAPE}/jobs/{batch['job_id']}")
            results = await api.data("GET", f"{SCRAPE}/jobs/{batch['job_id']}/results")
            completed = [task["task_id"] for task in shown["tasks"] if task["status"] == "completed"]
            assert [task["task_id"] for task in results["results"]] == completed
            assert shown["counts"]["completed"] == sum(path != "broken" for path in wanted)
            assert shown["counts"]["failed"] == sum(path == "broken" for path in wanted)
            assert shown["status"] == _final(wanted)

    asyncio.run(run())


def _final(paths: list[str]) -> str:
    failed = paths.count("broken")
    return "failed" if failed == len(paths) else "partially_completed" if failed else "completed"


async def test_a_batch_has_at_most_100_targets(idle: Api) -> None:
    answer = await idle.ask("POST", f"{SCRAPE}/batch", json={"targets": [wish()] * 101})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "batch_too_large")


async def test_a_cancelled_batch_leaves_what_runs_and_stops_the_rest(idle: Api) -> None:
    batch = await idle.data("POST", f"{SCRAPE}/batch", json={"targets": [wish(str(n)) for n in range(3)]})
    shown = await idle.data("POST", f"{SCRAPE}/jobs/{batch['job_id']}/cancel")
    assert shown["job_id"] == batch["job_id"]
    status = await idle.services.store.status(batch["job_id"])
    assert status.stopping == "cancelled"


async def test_a_full_queue_turns_callers_away_and_has_room_again(idle: Api) -> None:
    for n in range(4):
        await idle.data("POST", SCRAPE, json=wish(str(n)))
    answer = await idle.ask("POST", f"{SCRAPE}/batch", json={"targets": [wish(), wish()]})
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "queue_full")
    assert int(answer.headers["retry-after"]) > 0
    last = await idle.data("POST", SCRAPE, json=wish("last"))
    assert (await idle.error("POST", SCRAPE, json=wish()))["code"] == "queue_full"
    await idle.data("POST", f"{SCRAPE}/jobs/{last['job_id']}/cancel")  # it is not runnable any more
    await asyncio.sleep(0.1)
    await idle.data("POST", SCRAPE, json=wish("again"))


async def test_callers_who_come_at_once_do_not_overfill_the_queue(idle: Api) -> None:
    answers = await asyncio.gather(*(idle.ask("POST", SCRAPE, json=wish(str(n))) for n in range(12)))
    assert sorted(answer.status_code for answer in answers) == [202] * 5 + [503] * 7


@pytest.mark.parametrize(
    ("change", "code", "path"),
    [
        ({"target_type": "pag"}, "scraper_not_found", None),
        ({"target_type": "typed"}, "validation_error", "target_type"),
        ({"target_url": "ftp://shop.example/"}, "validation_error", "target_url"),
        ({"target_url": "https://user:pw@shop.example/"}, "validation_error", "target_url"),
        ({"target_url": ""}, "validation_error", "target_url"),
        ({"options": {"depth": 9}}, "validation_error", "options.depth"),
        ({"options": {"url": "https://other.example/"}}, "validation_error", "options.url"),
        ({"callback_url": "http://127.0.0.1:1/"}, "validation_error", "callback_url"),
        ({"timeout": 3}, "validation_error", "timeout"),
    ],
)
@pytest.mark.req("Z5")
async def test_what_cannot_be_scraped_is_refused_with_its_field(
    idle: Api, change: dict[str, Any], code: str, path: str | None
) -> None:
    error = await idle.error("POST", SCRAPE, json={**wish(), **change})
    assert error["code"] == code
    if path is not None:
        assert [field["path"] for field in error["details"]["fields"]] == [path]
    assert await idle.services.store.jobs() == []


async def test_a_wrong_target_of_a_batch_is_named_and_nothing_is_ordered(idle: Api) -> None:
    body = {"targets": [wish(), wish(depth=0)]}
    error = await idle.error("POST", f"{SCRAPE}/batch", json=body)
    assert error["details"]["fields"][0]["path"] == "targets[1].options.depth"
    mixed = {"targets": [wish(), {**wish(), "target_type": "fetched"}]}
    error = await idle.error("POST", f"{SCRAPE}/batch", json=mixed)
    assert error["details"]["fields"][0]["path"] == "targets[1].target_type"
    assert await idle.services.store.jobs() == []


async def test_unknown_tasks_and_jobs_of_another_sort_are_not_found(idle: Api) -> None:
    unknown = "6f1c0d0e-6a6f-4a58-9a3a-0d6d4c1f7a01"
    assert (await idle.error("GET", f"{SCRAPE}/{unknown}"))["code"] == "task_not_found"
    assert (await idle.error("GET", f"{SCRAPE}/{unknown[:-2]}00"))["code"] == "task_not_found"
    assert (await idle.error("GET", f"{SCRAPE}/jobs/{unknown[:-2]}00"))["code"] == "job_not_found"
    assert (await idle.error("GET", f"{SCRAPE}/nonsense"))["code"] == "validation_error"
    job_id = f"{unknown[:-2]}00"
    items = [{"item_id": unknown, "input": {"a": 1}}]
    await idle.data("POST", "/jobs", json={"job_id": job_id, "scraper_id": "example-mock", "items": items})
    assert (await idle.error("GET", f"{SCRAPE}/{unknown}"))["code"] == "task_not_found"
    assert (await idle.error("POST", f"{SCRAPE}/jobs/{job_id}/cancel"))["code"] == "job_not_found"


async def open_circuit(api: Api, host: str) -> None:
    site = api.services.directory.of(host)
    await api.services.sites.record(site.name, site.policy.breaker, [False] * site.policy.breaker.failures, 0)


@pytest.mark.req("D3")
async def test_a_site_whose_circuit_is_open_is_answered_at_once(working: Api) -> None:
    """Property 28, for somebody who waits."""
    await open_circuit(working, "shop.example")
    for path in ("", "/sync"):
        answer = await working.ask("POST", f"{SCRAPE}{path}", json=wish())
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "circuit_open")
        assert 1 <= int(answer.headers["retry-after"]) <= 120
    other = {**wish(), "target_url": "https://other.example/"}
    assert (await working.data("POST", f"{SCRAPE}/sync", json=other))["status"] == "completed"


@pytest.mark.req("D3")
async def test_a_task_that_meets_an_open_circuit_later_is_turned_away(working: Api) -> None:
    await open_circuit(working, "shop.example")
    body = {"target_type": "fetched", "target_url": "https://shop.example/", "timeout_seconds": 20}
    answer = await working.ask("POST", f"{SCRAPE}/sync", json=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "circuit_open")
    assert int(answer.headers["retry-after"]) > 0
    task_id = answer.json()["error"]["details"]["task_id"]
    task = await working.data("GET", f"{SCRAPE}/{task_id}")
    assert (task["status"], task["failure"]["kind"]) == ("failed", "circuit_open")
    job_id = job_id_of_task(UUID(task_id))
    assert job_id is not None
    record = await working.services.store.item(job_id, task_id)
    assert (record.state, record.reason, record.tries.own) == (ItemState.CANCELLED, "circuit_open", 0)
    assert (await until_ended(working, job_id))["circuit"]["state"] == "closed"


@pytest.mark.req("P2")
async def test_without_a_healthy_proxy_the_caller_is_told_at_once(tmp_path: Path) -> None:
    sites = tmp_path / "sites.yaml"
    sites.write_text("sites:\n  shop.example:\n    proxy_ladder: [custom]\n")
    proxies = {"proxy_custom_urls": (Secret("http://127.0.0.1:9"),)}
    async with with_pages(tmp_path, work=False, sites=sites, **proxies) as api:
        await api.data("POST", SCRAPE, json=wish())
        ways = api.controller.outside.network.ways
        site = api.services.directory.of("shop.example")
        route = ways.choose("j", ExecutionPolicy().proxy, site.name, site.policy)
        assert route is not None
        assert route.tier is ProxyType.CUSTOM
        ways.tried("j", site.name, route, FailureKind.PROXY)
        answer = await api.ask("POST", SCRAPE, json=wish())
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "no_healthy_proxies")
        assert int(answer.headers["retry-after"]) > 0

"""Jobs managed over HTTP: paused, cancelled, retried, changed, deleted."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swath.domain.execution_policy import Keep
from swath.domain.failure import FailureKind
from swath.domain.job import JobStatus
from swath.entrypoints.api.routes.control import apply_merge_patch
from tests.integration.api.running import Api, running, until_ended

MOCK: dict[str, Any] = {
    "job_id": "a",
    "scraper_id": "example-mock",
    "items": [{"item_id": "one", "input": {"x": 1}}, {"item_id": "two", "input": {"x": 2}}],
}


@pytest.mark.req("J5")
async def test_pause_and_resume(api: Api) -> None:
    await api.data("POST", "/jobs", json=MOCK)
    assert (await api.data("POST", "/jobs/a/pause"))["status"] == "paused"
    assert (await api.data("POST", "/jobs/a/resume"))["status"] == "pending"


@pytest.mark.req("J5")
async def test_policy_changes_by_parts(api: Api) -> None:
    await api.data("POST", "/jobs", json={**MOCK, "execution_policy": {"retries": {"max_retries": 1}}})
    change = {"throttling": {"max_concurrent_workers": 3}, "keep": "data"}
    whole = (await api.data("PATCH", "/jobs/a/policy", json=change))["execution_policy"]
    assert (whole["throttling"]["max_concurrent_workers"], whole["keep"]) == (3, "data")
    assert whole["retries"]["max_retries"] == 1
    back = await api.data("PATCH", "/jobs/a/policy", json={"keep": None, "retries": {"max_retries": None}})
    assert (back["execution_policy"]["keep"], back["execution_policy"]["retries"]["max_retries"]) == ("both", 3)
    error = await api.error("PATCH", "/jobs/a/policy", json={"throttling": {"max_concurrent_workers": "3"}})
    assert error["details"]["fields"][0]["path"] == "throttling.max_concurrent_workers"
    assert (await api.data("GET", "/jobs/a"))["execution_policy"] == {"throttling": {"max_concurrent_workers": 3}}


@pytest.mark.req("J5")
async def test_of_many_changes_at_once_none_is_lost(api: Api) -> None:
    await api.data("POST", "/jobs", json=MOCK)
    parts: list[dict[str, Any]] = [{"retries": {"kinds": {kind: {"max_retries": 7}}}} for kind in FailureKind]
    parts += [{"keep": "data"}, {"timeouts": {"item_seconds": 9.0}}, {"throttling": {"max_concurrent_workers": 3}}]
    answers = await asyncio.gather(*(api.data("PATCH", "/jobs/a/policy", json=part) for part in parts))
    for part, answer in zip(parts, answers, strict=True):
        assert apply_merge_patch(answer["execution_policy"], part) == answer["execution_policy"]
    held = (await api.data("GET", "/jobs/a"))["execution_policy"]
    assert [part for part in parts if apply_merge_patch(held, part) != held] == []


@pytest.mark.req("J5")
async def test_who_is_never_fast_enough_is_told_so(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    await api.data("POST", "/jobs", json=MOCK)
    store, limits = api.services.store, itertools.cycle([4, 5])
    status = store.status

    async def outdated_at_once(job_id: str) -> JobStatus:
        read = await status(job_id)
        await store.change_policy(job_id, read.job.policy.with_concurrency(next(limits)))
        return read

    monkeypatch.setattr(store, "status", outdated_at_once)
    error = await api.error("PATCH", "/jobs/a/policy", json={"keep": "data"})
    assert (error["code"], "'a'" in error["message"]) == ("conflict", True)
    assert (await status("a")).job.policy.keep is Keep.BOTH


@given(
    former=st.dictionaries(
        st.sampled_from("abc"), st.integers() | st.dictionaries(st.sampled_from("xy"), st.integers())
    ),
    part=st.dictionaries(st.sampled_from("abc"), st.none() | st.integers()),
)
def test_a_part_changes_what_it_names_and_nothing_else(former: dict[str, Any], part: dict[str, Any]) -> None:
    made = apply_merge_patch(former, part)
    assert all(made[name] == value for name, value in former.items() if name not in part)
    assert all(made.get(name) == value for name, value in part.items())
    assert apply_merge_patch(made, part) == made


@pytest.mark.req("J5")
async def test_retry_takes_what_was_selected_as_a_new_generation(working_api: Api) -> None:
    failing = {**MOCK, "scraper_id": "example-fail", "execution_policy": {"retries": {"max_retries": 0}}}
    await working_api.data("POST", "/jobs", json=failing)
    await until_ended(working_api, "a")
    assert (await working_api.error("POST", "/jobs/a/retry", json={}))["code"] == "validation_error"
    unknown = await working_api.error("POST", "/jobs/a/retry", json={"item_ids": ["one", "odd"]})
    assert unknown["details"]["fields"][0]["path"] == "item_ids[1]"
    assert (await working_api.error("POST", "/jobs/a/retry", json={"kinds": ["odd"]}))["code"] == "validation_error"
    assert (await working_api.error("POST", "/jobs/a/retry", json={"kinds": ["tls"]}))["code"] == "validation_error"
    again = await working_api.data("POST", "/jobs/a/retry", json={"item_ids": ["one"]})
    assert again["generation"] == 2
    await until_ended(working_api, "a")
    one = await working_api.data("GET", "/jobs/a/items/one")
    assert (one["generation"], len(one["earlier"])) == (2, 1)
    assert (await working_api.data("GET", "/jobs/a/items/two"))["generation"] == 1
    kinds = await working_api.data("POST", "/jobs/a/retry", json={"kinds": ["server_error"]})
    assert kinds["generation"] == 3


@pytest.mark.req("J5")
async def test_a_job_that_runs_is_neither_retried_nor_deleted(api: Api) -> None:
    await api.data("POST", "/jobs", json=MOCK)
    assert (await api.error("POST", "/jobs/a/retry", json={"failed": True}))["code"] == "conflict"
    assert (await api.error("DELETE", "/jobs/a"))["code"] == "conflict"


@pytest.mark.req("J5")
async def test_a_deleted_job_is_gone_with_its_data(working_api: Api, tmp_path: Path) -> None:
    await working_api.data("POST", "/jobs", json=MOCK)
    await until_ended(working_api, "a")
    location = Path(working_api.services.storage.location("a"))
    assert location.exists()
    answer = await working_api.ask("DELETE", "/jobs/a")
    assert (answer.status_code, answer.json()["data"]) == (202, {"job_id": "a", "deleting": True})
    async with asyncio.timeout(60):
        while (await working_api.ask("GET", "/jobs/a")).status_code != 404:
            await asyncio.sleep(0.05)
    assert not location.exists()


@pytest.mark.req("J5")
@settings(max_examples=6, deadline=None)
@given(items=st.integers(2, 8), workers=st.integers(1, 4))
def test_cancelling_stops_what_has_not_started_and_leaves_what_runs(
    tmp_path_factory: pytest.TempPathFactory, items: int, workers: int
) -> None:
    """Property 11."""
    folder = tmp_path_factory.mktemp("cancel")
    gate, running_items = folder / "gate", min(items, workers)

    async def play() -> dict[str, Any]:
        async with running(folder, work=True) as api:
            body = {
                "job_id": "c",
                "scraper_id": "gated",
                "execution_policy": {"throttling": {"max_concurrent_workers": workers}},
                "items": [{"input": {"gate": str(gate), "n": n}} for n in range(items)],
            }
            await api.data("POST", "/jobs", json=body)
            async with asyncio.timeout(60):
                while (await _open(api)) < running_items:
                    await asyncio.sleep(0.01)
            await api.data("POST", "/jobs/c/cancel")
            await api.data("POST", "/jobs/c/cancel")
            await asyncio.sleep(0.1)
            gate.touch()
            return await until_ended(api, "c")

    status = asyncio.run(play())
    assert status["counts"]["success"] == running_items
    assert status["counts"]["cancelled"] == items - running_items
    assert status["status"] == ("cancelled" if items > running_items else "completed")


async def _open(api: Api) -> int:
    counts = (await api.data("GET", "/jobs/c/status"))["counts"]
    return int(counts["queued"] + counts["in_progress"])

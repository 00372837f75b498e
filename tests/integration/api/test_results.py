"""I2: what a job came to, by its sums and its parts."""

from __future__ import annotations

import hashlib
import json

import pytest

from swath.domain.item import RetrySelection
from tests.integration.api.running import Api
from tests.integration.api.stored import ended
from tests.unit.pipeline.finish.running import run

pytestmark = pytest.mark.req("I2", "R3", "R4")

MANY = [f"i-{n:04}" for n in range(1, 1_011)]


async def test_results_are_not_ready_before_the_job_has_ended(api: Api) -> None:
    await run(api.services.store, api.services.storage, ["a", "b"])
    for query in ("", "?status=success", "?part=1"):
        error = await api.error("GET", f"/jobs/job/results{query}")
        assert error["code"] == "results_not_ready"
        assert error["details"] == {"status": "running"}


async def test_an_unknown_job_has_none(api: Api) -> None:
    assert (await api.error("GET", "/jobs/nobody/results"))["code"] == "job_not_found"


async def test_the_sums_link_to_every_part_and_the_parts_hold_every_item_once(api: Api) -> None:
    await ended(api, MANY)
    found = await api.data("GET", "/jobs/job/results")
    assert (found["job_id"], found["status"], found["generation"]) == ("job", "partially_completed", 1)
    assert found["counts"]["total"] == len(MANY)
    assert {name: [part["items"] for part in parts] for name, parts in found["parts"].items()} == {
        "full": [1_000, 10], "success": [707], "errors": [303],
    }  # fmt: skip
    for name, states in (("full", None), ("success", {"success"}), ("errors", {"failed", "skipped"})):
        items = []
        for part in found["parts"][name]:
            answer = await api.ask("GET", part["link"])
            data = answer.json()["data"]
            assert (data["job_id"], data["list"], data["part"], len(data["items"])) == (
                "job", name, part["part"], part["items"],
            )  # fmt: skip
            stored = await api.services.storage.get("job", f"manifests/{name}/part-{part['part']}.json")
            assert hashlib.sha256(stored).hexdigest() == part["sha256"]
            assert json.loads(stored)["items"] == data["items"]
            items += data["items"]
        assert states is None or {item["state"] for item in items} == states
        assert name != "full" or [item["item_id"] for item in items] == MANY


async def test_one_kind_of_item_can_be_asked_for(api: Api) -> None:
    await ended(api, [str(n) for n in range(1, 11)])
    assert set((await api.data("GET", "/jobs/job/results?status=error"))["parts"]) == {"errors"}
    failed = await api.data("GET", "/jobs/job/results?status=error&part=1")
    assert [item["item_id"] for item in failed["items"]] == ["3", "4", "5"]
    whole = await api.data("GET", "/jobs/job/results?part=1")
    assert len(whole["items"]) == 10


async def test_a_part_that_is_not_there_is_a_wrong_field(api: Api) -> None:
    await ended(api, ["1"])
    for query, field in (("part=2", "part"), ("part=0", "part"), ("part=x", "part"), ("status=some", "status")):
        error = await api.error("GET", f"/jobs/job/results?{query}")
        assert error["code"] == "validation_error"
        assert error["details"]["fields"][0]["path"] == field


async def test_the_first_part_of_an_empty_list_is_empty(api: Api) -> None:
    await ended(api, ["1"])
    assert (await api.data("GET", "/jobs/job/results?status=error"))["parts"] == {"errors": []}
    empty = {"job_id": "job", "list": "errors", "part": 1, "items": []}
    assert await api.data("GET", "/jobs/job/results?status=error&part=1") == empty
    assert (await api.error("GET", "/jobs/job/results?status=error&part=2"))["code"] == "validation_error"


async def test_a_job_that_runs_again_has_no_results_until_it_has_ended_again(api: Api) -> None:
    await ended(api, [str(n) for n in range(1, 11)])
    await api.services.store.retry("job", RetrySelection(failed=True))
    assert (await api.error("GET", "/jobs/job/results?part=1"))["code"] == "results_not_ready"


@pytest.mark.req("Z2")
async def test_a_part_that_somebody_has_edited_is_not_handed_out(api: Api) -> None:
    await ended(api, ["1"])
    await api.services.storage.put("job", {"manifests/full/part-1.json": b'{"items": []}'})
    assert (await api.error("GET", "/jobs/job/results?part=1"))["code"] == "internal_error"


async def test_ids_may_be_anything(api: Api) -> None:
    await ended(api, ["a/b c", "../x"], job_id="jöb/ 1%2F")
    found = await api.data("GET", "/jobs/j%C3%B6b%2F%201%252F/results")
    (part,) = found["parts"]["full"]
    assert [item["item_id"] for item in (await api.data("GET", part["link"]))["items"]] == ["a/b c", "../x"]

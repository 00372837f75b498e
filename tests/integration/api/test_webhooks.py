"""N1, I2: the delivery log over HTTP, and sending again."""

from __future__ import annotations

from pathlib import Path

import pytest

from swath.bootstrap.workers import make_finisher
from swath.domain.service_key import Scope
from tests.contract.suites.builders import ready, run_all
from tests.integration.api.running import Api, running
from tests.unit.integrations.webhooks.receiver import receiving

pytestmark = pytest.mark.req("N1", "I2")


async def _ended(api: Api, job_id: str, url: str | None = None) -> None:
    await ready(api.services.store, job_id, callback_url=url)
    await run_all(api.services.store)
    assert await make_finisher(api.services, "finisher").run_once() is not None


async def test_the_log_lists_each_end_and_the_newest_is_sent_again(tmp_path: Path) -> None:
    async with receiving() as receiver, running(tmp_path, allow_private=(receiver.address,)) as api:
        await _ended(api, "a/b c", receiver.url)
        (entry,) = await api.data("GET", "/jobs/a%2Fb%20c/webhooks")
        assert (entry["state"], entry["status"], entry["deliveries"]) == ("pending", "completed", [])
        assert entry["url"] == receiver.url.partition("?")[0]
        courier = api.controller.outside.courier
        await courier.run_once()
        await courier.settle()
        courier.wanted.clear()
        answer = await api.ask("POST", "/jobs/a%2Fb%20c/webhooks/resend", json={"webhook_id": entry["webhook_id"]})
        assert (answer.status_code, answer.json()["data"]["state"]) == (202, "pending")
        assert courier.wanted.is_set()
        await courier.run_once()
        await courier.settle()
        (entry,) = await api.data("GET", "/jobs/a%2Fb%20c/webhooks")
        assert [delivery["status"] for delivery in entry["deliveries"]] == [200, 200]
        assert {one.headers["webhook-id"] for one in receiver.received} == {entry["webhook_id"]}


@pytest.mark.req("Z5")
async def test_what_cannot_be_sent_again_is_told(api: Api) -> None:
    await _ended(api, "quiet")
    assert await api.data("GET", "/jobs/quiet/webhooks") == []
    assert (await api.error("POST", "/jobs/quiet/webhooks/resend"))["code"] == "conflict"
    assert (await api.error("GET", "/jobs/none/webhooks"))["code"] == "job_not_found"
    assert (await api.error("POST", "/jobs/none/webhooks/resend"))["code"] == "job_not_found"
    wrong = await api.error("POST", "/jobs/quiet/webhooks/resend", json={"webhook": "x"})
    assert wrong["code"] == "validation_error"
    assert (await api.error("POST", "/jobs/quiet/webhooks/resend", json={"webhook_id": 3}))[
        "code"
    ] == "validation_error"


@pytest.mark.req("I5", "Z7")
async def test_the_operators_own_address_is_not_shown_to_everybody(tmp_path: Path) -> None:
    async with running(tmp_path, webhook_url="https://hooks.example/services/t0ken") as api:
        await _ended(api, "job")
        headers = {"X-Service-Key": (await api.key(Scope.READ)).reveal()}
        answer = await api.ask("GET", "/jobs/job/webhooks", headers=headers)
        assert "t0ken" not in answer.text
        assert answer.json()["data"][0]["url"].startswith("https://hooks.example/")
        refused = await api.error("POST", "/jobs/job/webhooks/resend", headers=headers)
        assert refused["code"] == "forbidden"

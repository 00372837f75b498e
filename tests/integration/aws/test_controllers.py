"""Several controllers on one AWS store: all serve, and when one dies the others go on with what it handed out."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path

import pytest

from harness.fakes.aws import Endpoints
from swath.domain.failure import FailureKind
from tests.integration.api.serving import Place
from tests.integration.aws.commands_shell import AwsShell
from tests.unit.integrations.webhooks.receiver import receiving


def _place(folder: Path, shell: AwsShell, address: str) -> Place:
    """A machine of its own on the same store."""
    folder.mkdir()
    place = Place(folder)
    given = {name: value for name, value in shell.environment.items() if name not in ("SWATH_DATA", "SWATH_DEMO_URL")}
    place.environment = place.environment | given | {"SWATH_ALLOW_PRIVATE": address, "SWATH_LEASE_SECONDS": "3"}
    return place


@pytest.mark.req("Q3", "N1", "Z1")
async def test_two_controllers_serve_one_store(tmp_path: Path, aws: Endpoints, aws_name: str) -> None:
    shell = AwsShell(tmp_path / "setup", aws, aws_name)
    shell.done("aws", "init")
    try:
        async with receiving() as receiver:
            one, two = (_place(tmp_path / name, shell, receiver.address) for name in ("one", "two"))
            rows = [{"item_id": str(n), "input": {"n": n}} for n in range(5)]
            body = {"scraper_id": "example-mock", "callback_url": receiver.url, "items": rows}
            async with one.serving() as first, two.serving("--no-worker") as second:
                await second.ask("POST", "/jobs", json=body | {"job_id": "both"})
                assert (await first.until("both", "completed"))["counts"]["success"] == 5
                assert (await receiver.until(1))[0].told["job_id"] == "both"
                first.process.kill()
                await first.process.wait()
                await second.ask("POST", "/jobs", json=body | {"job_id": "alone"})
                await second.ask("POST", "/jobs/alone/cancel")
                assert (await second.until("alone", "cancelled"))["counts"]["cancelled"] == 5
                assert (await receiver.until(2))[1].told["job_id"] == "alone"
                (entry,) = await second.ask("GET", "/jobs/alone/webhooks")
                assert entry["generation"] == 1
                assert await second.stopped() == 0
    finally:
        shell.done("aws", "destroy", "--yes", aws_name, "--results")


@pytest.mark.req("Q3", "J5", "J6")
async def test_what_many_say_to_two_controllers_at_once_all_holds(
    tmp_path: Path, aws: Endpoints, aws_name: str
) -> None:
    shell = AwsShell(tmp_path / "setup", aws, aws_name)
    shell.done("aws", "init")
    kinds = [kind.value for kind in FailureKind][:12]
    try:
        one, two = (_place(tmp_path / name, shell, "127.0.0.1:9") for name in ("one", "two"))
        async with one.serving("--no-worker") as first, two.serving("--no-worker") as second:
            both = (first.client, second.client)
            body = {"job_id": "job", "scraper_id": "example-mock", "items": [{"input": {"n": 1}}]}
            made = await asyncio.gather(*(client.post("/jobs", json=body) for client in both * 5))
            assert sorted(answer.status_code for answer in made) == [200] * 9 + [201]
            parts = [{"retries": {"kinds": {kind: {"max_retries": 7}}}} for kind in kinds]
            changes = [both[n % 2].patch("/jobs/job/policy", json=part) for n, part in enumerate(parts)]
            assert {answer.status_code for answer in await asyncio.gather(*changes)} == {200}
            held = (await first.ask("GET", "/jobs/job"))["execution_policy"]["retries"]["kinds"]
            assert sorted(held) == sorted(kinds)
    finally:
        shell.done("aws", "destroy", "--yes", aws_name, "--results")


@pytest.mark.req("Q3", "J6", "I5")
async def test_an_idempotency_key_belongs_to_its_service_key(tmp_path: Path, aws: Endpoints, aws_name: str) -> None:
    """The same word of two keys names two jobs, and the order of an earlier release is known by its content."""
    shell = AwsShell(tmp_path / "setup", aws, aws_name)
    shell.done("aws", "init")
    try:
        place = _place(tmp_path / "one", shell, "127.0.0.1:9")
        made = [await place.run("keys", "create", name, "--scope", "submit") for name in ("one", "two")]
        keys = [{"X-Service-Key": out.strip(), "Idempotency-Key": "order 17"} for _, out, _ in made]
        former = f"order-{hashlib.sha256(b'order 17').hexdigest()[:32]}"
        body, other = [{"scraper_id": "example-mock", "items": [{"input": {"n": n}}]} for n in (1, 2)]
        async with place.serving("--no-worker") as served:
            answers = [await served.client.post("/jobs", json=body, headers=key) for key in keys * 2]
            assert [answer.status_code for answer in answers] == [201, 201, 200, 200]
            ids = [answer.json()["data"]["job_id"] for answer in answers]
            assert (ids[:2], len(set(ids))) == (ids[2:], 2)
            assert (await served.client.post("/jobs", json=other, headers=keys[0])).status_code == 409
            before = {**body, "priority": 3}
            named = await served.client.post("/jobs", json={**before, "job_id": former}, headers=keys[0])
            again = await served.client.post("/jobs", json=before, headers=keys[1])
            assert (named.status_code, again.status_code) == (201, 200)
            assert again.json()["data"]["job_id"] == former
    finally:
        shell.done("aws", "destroy", "--yes", aws_name, "--results")

"""Z10, Z9: what S3 denies or does not answer for one job's objects holds up that job alone, and its status says so."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from harness.fakes.aws import Endpoints
from harness.fakes.s3_faults import S3Faults, S3Rates
from swath.backends.aws.s3.results import S3Results
from swath.domain.errors import FolderUnusable, StoreUnavailable, UserError
from tests.integration.aws.commands_shell import AwsShell
from tests.integration.aws.storages import item, results

ITEMS = 12


@pytest.fixture
async def bucket(aws: Endpoints, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[S3Faults]:
    """Between everybody and S3."""
    async with S3Faults(aws.s3_url, 5, S3Rates()) as bucket:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", bucket.url)
        yield bucket


@pytest.fixture
def storage(bucket: S3Faults, aws: Endpoints, aws_name: str) -> S3Results:
    del bucket
    return results(aws, aws_name, patience_seconds=0.6)


async def keys(storage: S3Results, job_id: str) -> list[str]:
    return [key async for key in storage.keys(job_id)]


@pytest.mark.req("Z10", "Z9")
@pytest.mark.parametrize("status", [403, 500, 503])
async def test_trouble_with_the_objects_of_one_job_is_of_that_job_alone(
    storage: S3Results, bucket: S3Faults, aws_name: str, status: int
) -> None:
    for job_id in ("victim", "other"):
        await storage.open_lease(job_id, 1)
    bucket.denied = lambda: {f"{aws_name}/victim/": status}
    asks: list[Callable[[], Any]] = [
        lambda: storage.open_lease("victim", 2),
        lambda: storage.stage("victim", 1, [item("a")]),
        lambda: storage.put("victim", {"a": b""}),
        lambda: storage.get("victim", "a"),
        lambda: storage.open_leases("victim"),
        lambda: storage.settle("victim", 1, ()),
        lambda: keys(storage, "victim"),
    ]
    for ask in asks:
        with pytest.raises(FolderUnusable, match="cannot use the results of job 'victim' in s3://") as raised:
            await asyncio.wait_for(ask(), 60)
        assert "\n" not in str(raised.value)
    await storage.stage("other", 1, [item("a")])
    await storage.settle("other", 1, ["a"])
    assert await storage.trouble("other") is None
    told = await storage.trouble("victim")
    assert told is not None
    assert f"/{aws_name}/victim" in told
    bucket.denied = dict
    assert await storage.trouble("victim") is None
    await storage.stage("victim", 1, [item("a")])


@pytest.mark.req("Z9", "C2")
async def test_trouble_with_the_whole_place_is_of_no_job(storage: S3Results, bucket: S3Faults, aws_name: str) -> None:
    bucket.denied = lambda: {f"{aws_name}/": 403}
    for job_id in ("one", "other"):
        with pytest.raises(UserError, match="refuses these credentials"):
            await storage.open_lease(job_id, 1)
        assert await storage.trouble(job_id) is None
    bucket.denied = lambda: {f"{aws_name}/": 503}
    with pytest.raises(StoreUnavailable) as raised:
        await storage.open_lease("one", 1)
    assert not isinstance(raised.value, FolderUnusable)
    assert await storage.trouble("one") is None


@pytest.mark.req("Z10", "Z9")
async def test_a_denial_is_no_verdict_on_the_place_while_the_place_does_not_answer(
    storage: S3Results, bucket: S3Faults, aws_name: str
) -> None:
    """A worker must not end because two kinds of trouble met."""
    bucket.denied = lambda: {f"{aws_name}/victim/": 403, f"{aws_name}/": 503}
    with pytest.raises(StoreUnavailable, match="refuses these credentials"):
        await storage.open_lease("victim", 1)


@pytest.fixture
async def shell(tmp_path: Path, aws: Endpoints, aws_name: str, bucket: S3Faults) -> AsyncIterator[AwsShell]:
    shell = AwsShell(tmp_path / "here", aws, aws_name)
    shell.environment["AWS_ENDPOINT_URL_S3"] = bucket.url
    yield shell
    await shell.end_all()


async def made(shell: AwsShell, *arguments: str) -> str:
    code, out, err = await shell.run(*arguments)
    assert code == 0, err
    return out


@pytest.mark.req("Z10", "Z9")
@pytest.mark.parametrize("status", [403, pytest.param(503, marks=pytest.mark.long)])
async def test_a_worker_goes_on_with_other_jobs_and_ends_the_denied_one_when_it_may(
    shell: AwsShell, bucket: S3Faults, aws_name: str, status: int
) -> None:
    shell.write("items.csv", "n\n" + "\n".join(map(str, range(ITEMS))) + "\n")
    await made(shell, "aws", "init")
    for job_id in ("victim", "other"):
        await made(shell, "jobs", "create", "example-mock", "--items", "items.csv", "--job-id", job_id, "--quiet")
    bucket.denied = lambda: {f"{aws_name}/victim/": status}
    worker = await shell.start("worker")
    ended = await shell.until("other", status="completed")
    assert ended["counts"]["success"] == ITEMS
    async with asyncio.timeout(120):
        while not (seen := json.loads(await made(shell, "jobs", "status", "victim", "--json")))["waiting_reason"]:
            await asyncio.sleep(0.2)
    assert "cannot use the results of job 'victim'" in seen["waiting_reason"]
    assert seen["waiting_for"] == "disk"
    assert worker.returncode is None, "no job's results end a worker"
    bucket.denied = dict
    ended = await shell.until("victim", status="completed")
    assert ended["counts"]["success"] == ITEMS
    await made(shell, "jobs", "verify", "victim")


@pytest.mark.req("Z9", "C2")
async def test_a_bucket_that_denies_everything_is_refused_in_a_line(shell: AwsShell, bucket: S3Faults) -> None:
    shell.write("items.csv", "n\n1\n")
    await made(shell, "aws", "init")
    await made(shell, "jobs", "create", "example-mock", "--items", "items.csv", "--job-id", "one", "--quiet")
    bucket.denied = lambda: {"/": 403}
    code, _, err = await asyncio.wait_for(shell.run("worker"), 120)
    assert code == 2, err
    assert [line for line in err.splitlines() if line.startswith("swath: ") and "refuses these credentials" in line]
    assert "Traceback" not in err

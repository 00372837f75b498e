"""Z10: uploads that a killed worker has begun do not stay in the bucket, where no listing of objects shows them."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import pytest

from harness.fakes.aws import Endpoints
from harness.fakes.s3_faults import S3Faults, S3Rates, _error, _read
from swath.backends.aws.client.client import AwsClients
from swath.backends.aws.s3.bucket import Bucket
from swath.backends.aws.s3.results import S3Results
from tests.integration.aws.storages import results

pytestmark = [pytest.mark.req("Z10", "Z3"), pytest.mark.timeout(240)]

ROOT = Path(__file__).parents[3]


async def _uploads(clients: AwsClients, place: Bucket) -> list[str]:
    """The keys of all uploads below the prefix that were begun and not finished."""
    found = await clients.call("s3", "list_multipart_uploads", Bucket=place.name, Prefix=f"{place.prefix}/")
    return sorted(one["Key"].removeprefix(f"{place.prefix}/") for one in found.get("Uploads", ()))


async def _killed_in_an_upload(clients: AwsClients, place: Bucket, job_id: str, fence: int) -> str:
    """The key of the upload that a process has left open."""
    arguments = ("-m", "tests.integration.aws.uploader", place.url, job_id, str(fence))
    process = await asyncio.create_subprocess_exec(sys.executable, *arguments, cwd=ROOT)
    try:
        async with asyncio.timeout(180):
            before = set(await _uploads(clients, place))
            while not set(await _uploads(clients, place)) - before:
                await asyncio.sleep(0.005)
    finally:
        process.kill()
        await process.wait()
    left = set(await _uploads(clients, place)) - before
    if not left:  # it was finished between the look and the signal
        return await _killed_in_an_upload(clients, place, job_id, fence)
    return left.pop()


@pytest.fixture
def place(aws: Endpoints, aws_name: str) -> Bucket:
    return Bucket(aws.bucket, aws_name)


@pytest.fixture
def storage(aws: Endpoints, aws_name: str) -> S3Results:
    """The process that comes after the dead one."""
    return results(aws, aws_name)


async def test_a_deleted_job_leaves_no_upload(clients: AwsClients, place: Bucket, storage: S3Results) -> None:
    key = await _killed_in_an_upload(clients, place, "job", 5)
    assert key.startswith("job/packs/5-")
    await clients.call("s3", "create_multipart_upload", Bucket=place.name, Key=place.key("job.v2/packs/6-x.warc.gz"))
    await storage.clear("job")
    assert await _uploads(clients, place) == ["job.v2/packs/6-x.warc.gz"], "another job's is not touched"


async def test_whoever_rescues_a_lease_ends_the_uploads_of_its_worker(
    clients: AwsClients, place: Bucket, storage: S3Results
) -> None:
    key = await _killed_in_an_upload(clients, place, "job", 5)
    others = ["job/packs/55-x.warc.gz", "job/items/b/~6/html.html.gz", "job/manifests/full/part-1.json"]
    own = ["job/items/b/~5/html.html.gz"]
    for name in [*others, *own]:
        await clients.call("s3", "create_multipart_upload", Bucket=place.name, Key=place.key(name))
    assert await _uploads(clients, place) == sorted([key, *others, *own])
    await storage.settle("job", 5, ())
    assert await _uploads(clients, place) == sorted(others)


async def test_a_worker_whose_upload_was_ended_writes_nothing(
    clients: AwsClients, place: Bucket, storage: S3Results
) -> None:
    """It was frozen in the middle of it, and wakes up when its lease was rescued."""
    arguments = ("-m", "tests.integration.aws.uploader", place.url, "job", "5")
    process = await asyncio.create_subprocess_exec(sys.executable, *arguments, cwd=ROOT, stderr=asyncio.subprocess.PIPE)
    try:
        async with asyncio.timeout(180):
            await _freeze_in_an_upload(clients, place, process)
            await storage.settle("job", 5, ())
            assert await _uploads(clients, place) == []
            process.send_signal(signal.SIGCONT)
            _, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    told = errors.decode().strip().splitlines()[-1]
    assert "StoreUnavailable" in told or "LeaseLost" in told
    assert await _uploads(clients, place) == []
    assert [key async for key in storage.keys("job")] == []


async def _freeze_in_an_upload(clients: AwsClients, place: Bucket, process: asyncio.subprocess.Process) -> None:
    while True:
        while not await _uploads(clients, place):
            await asyncio.sleep(0.005)
        process.send_signal(signal.SIGSTOP)
        if await _uploads(clients, place):
            return
        process.send_signal(signal.SIGCONT)


class Refusing(S3Faults):
    """S3 for credentials whose policy does not name s3:ListBucketMultipartUploads."""

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await _read(reader, writer)
        refused = b"uploads" in request.head.split(b"\r\n")[0]
        writer.write(_error(403, "AccessDenied") if refused else await self._forwarded(request))


async def test_a_job_is_deleted_although_uploads_may_not_be_listed(
    aws: Endpoints, aws_name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Policies that were written for earlier versions do not allow it."""
    async with Refusing(aws.s3_url, 1, S3Rates()) as s3:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", s3.url)
        storage = results(aws, aws_name)
        await storage.put("job", {"a.json": b"{}"})
        await storage.clear("job")
        assert [key async for key in storage.keys("job")] == []
    (record,) = [record for record in caplog.records if record.name == "swath.results"]
    assert "unfinished uploads stay where they are" in record.getMessage()
    assert "AccessDenied" in record.getMessage()

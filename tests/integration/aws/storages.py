"""Result storages on the test server: several on one place stand for processes on several hosts."""

from __future__ import annotations

from harness.fakes.aws import Endpoints
from swath.backends.aws.s3.bucket import Bucket
from swath.backends.aws.s3.credentials import CredentialChain
from swath.backends.aws.s3.objects import Objects
from swath.backends.aws.s3.results import S3Results
from swath.ports.result_storage import ResultStorage, StagedItem
from tests.support.clock import FakeClock

__all__ = ["all_files", "item", "objects", "results"]


def objects(aws: Endpoints, prefix: str, *, patience_seconds: float = 15.0, attempt_seconds: float = 15.0) -> Objects:
    """Calls on a place of its own; the environment says where S3 is."""
    return Objects(
        Bucket(aws.bucket, prefix),
        CredentialChain(FakeClock()),
        patience_seconds=patience_seconds,
        attempt_seconds=attempt_seconds,
    )


def results(aws: Endpoints, prefix: str, *, patience_seconds: float = 15.0) -> S3Results:
    """One process."""
    return S3Results(objects(aws, prefix, patience_seconds=patience_seconds))


def item(item_id: str, content: bytes = b"1", *, first: bool = True) -> StagedItem:
    """With one file."""
    return StagedItem(item_id, {"data.json": content}, first=first)


async def all_files(storage: ResultStorage, job_id: str = "job") -> dict[str, bytes]:
    """All that is listed, with its bytes."""
    return {key: await storage.get(job_id, key) async for key in storage.keys(job_id)}

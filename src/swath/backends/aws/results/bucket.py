"""The place for results in S3, as `swath aws` needs it: makes the bucket, tries it out, empties the prefix.

Beside: setup.py, which makes table and queues, and results storage itself, which has a faster client of its own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import msgspec
from aiobotocore.session import AioSession

from swath.backends.aws.calls.client import AwsClients
from swath.backends.aws.setup import Done
from swath.domain.errors import SwathError, UserError

__all__ = ["PROBE", "Bucket", "NoBucket", "drop_results", "make_bucket", "try_bucket"]

PROBE: Final = ".swath-check"
_NO_BUCKET: Final = frozenset({"NoSuchBucket", "404"})
_ELSEWHERE: Final = frozenset({
    "301",
    "AuthorizationHeaderMalformed",
    "IllegalLocationConstraintException",
    "PermanentRedirect",
})  # fmt: skip


class NoBucket(UserError):
    """There is no such bucket."""


class Bucket(msgspec.Struct, frozen=True):
    """A place in S3; `prefix` has no slash at its ends."""

    name: str
    prefix: str = ""

    @property
    def url(self) -> str:
        """As a person writes it."""
        return f"s3://{self.name}/{self.prefix}".rstrip("/")

    def key(self, rest: str) -> str:
        """A key under the prefix."""
        return f"{self.prefix}/{rest}" if self.prefix else rest


async def make_bucket(clients: AwsClients, bucket: Bucket, region: str | None) -> Done:
    """Makes the bucket if it is not there; nobody but its owner can see into it."""
    try:
        await _s3(clients, bucket, "head_bucket")
    except NoBucket:
        where = region or AioSession().get_config_variable("region") or "us-east-1"
        there = {} if where == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": where}}
        await _s3(clients, bucket, "create_bucket", **there)
        return Done("bucket", bucket.name, f"made in {where}")
    return Done("bucket", bucket.name, "was there", changed=False)


async def try_bucket(clients: AwsClients, bucket: Bucket) -> Done:
    """Writes a small object under the prefix and removes it. Raises UserError with what to do."""
    key = bucket.key(PROBE)
    await _s3(clients, bucket, "head_bucket")  # some servers make a bucket when something is put there
    await _s3(clients, bucket, "put_object", Key=key, Body=b"")
    await _s3(clients, bucket, "delete_object", Key=key)
    return Done("results", bucket.url, "can be written", changed=False)


async def drop_results(clients: AwsClients, bucket: Bucket) -> Done:
    """Removes every object and unfinished upload under the prefix; the bucket stays.

    Raises UserError for a whole bucket, and, when all that can be removed is, for objects that S3 does not let go.
    """
    if not bucket.prefix:
        raise UserError(f"{bucket.url} has no prefix, so all of the bucket would be removed; empty it by other means")
    uploads = await _abort_uploads(clients, bucket)
    removed = 0
    refused: list[dict[str, Any]] = []
    async for page in _pages(clients, bucket, "list_objects_v2", {"NextContinuationToken": "ContinuationToken"}):
        keys = [{"Key": one["Key"]} for one in page.get("Contents", ())]
        if keys:
            answer = await _s3(clients, bucket, "delete_objects", Delete={"Objects": keys, "Quiet": True})
            kept = answer.get("Errors", ())
            removed += len(keys) - len(kept)
            refused += kept
            if len(kept) == len(keys):  # most likely all of them are refused, however many there are
                break
    if refused:
        first = f"{refused[0].get('Code')}: {refused[0].get('Key')}"
        raise UserError(f"S3 does not let {bucket.url} be removed: {first}; {removed:,} objects are gone")
    if not removed and not uploads:
        return Done("results", bucket.url, "nothing was there", changed=False)
    more = f", and {uploads:,} unfinished uploads" if uploads else ""
    return Done("results", bucket.url, f"{removed:,} objects are gone{more}")


async def _abort_uploads(clients: AwsClients, bucket: Bucket) -> int:
    """Parts of an upload that nobody ended are in no listing of objects, and are paid for until somebody aborts it."""
    count = 0
    markers = {"NextKeyMarker": "KeyMarker", "NextUploadIdMarker": "UploadIdMarker"}
    async for page in _pages(clients, bucket, "list_multipart_uploads", markers):
        for one in page.get("Uploads", ()):
            try:
                await _s3(clients, bucket, "abort_multipart_upload", Key=one["Key"], UploadId=one["UploadId"])
                count += 1
            except SwathError as error:
                if _code(error) != "NoSuchUpload":  # which was ended or aborted meanwhile
                    raise
    return count


async def _pages(
    clients: AwsClients, bucket: Bucket, operation: str, markers: Mapping[str, str]
) -> AsyncIterator[dict[str, Any]]:
    """All pages of a listing under the prefix. `markers`: what a page tells, and how the next is asked for by it."""
    after: dict[str, Any] = {}
    while True:
        page = await _s3(clients, bucket, operation, Prefix=f"{bucket.prefix}/", **after)
        yield page
        after = {asked: page[told] for told, asked in markers.items() if page.get(told)}
        if not page.get("IsTruncated") or not after:
            return


async def _s3(clients: AwsClients, bucket: Bucket, operation: str, **params: Any) -> dict[str, Any]:
    try:
        return await clients.call("s3", operation, Bucket=bucket.name, **params)
    except SwathError as error:
        code = _code(error)
        if code in _NO_BUCKET:
            told = "`swath aws init --create-bucket` makes it, or correct SWATH_RESULTS"
            raise NoBucket(f"there is no bucket {bucket.name!r}; {told}") from error
        if code in _ELSEWHERE:
            told = "say which with SWATH_RESULTS=s3://BUCKET/PREFIX?region=NAME"
            raise UserError(f"the bucket {bucket.name!r} is in another region; {told}") from error
        if code == "403":
            raise UserError(f"these credentials may not use the bucket {bucket.name!r}; check their policy") from error
        raise


def _code(error: SwathError) -> str:
    cause: Any = error.__cause__
    return str(getattr(cause, "response", {}).get("Error", {}).get("Code", ""))

"""Creates, checks and empties the place for results in S3, and aborts unfinished multipart uploads.

For `swath aws`, and for what obstore cannot do: it cannot list the uploads that a process began and never finished,
which S3 lists apart from objects and charges for.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec
from aiobotocore.session import AioSession
from botocore.exceptions import ClientError

from swath.backends.aws.client.client import AwsClients
from swath.backends.aws.client.errors import translate_error
from swath.backends.aws.provisioning import SetupStep
from swath.domain.errors import SwathError, UserError

__all__ = [
    "PROBE",
    "Bucket",
    "BucketMissing",
    "IsAbandoned",
    "abort_abandoned_uploads",
    "drop_results",
    "make_bucket",
    "try_bucket",
]

PROBE: Final = ".swath-check"
_NO_BUCKET: Final = frozenset({"NoSuchBucket", "404"})
_ELSEWHERE: Final = frozenset({
    "301",
    "AuthorizationHeaderMalformed",
    "IllegalLocationConstraintException",
    "PermanentRedirect",
})  # fmt: skip


class BucketMissing(UserError):
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


async def make_bucket(clients: AwsClients, bucket: Bucket, region: str | None) -> SetupStep:
    """Makes the bucket if it is not there; nobody but its owner can see into it."""
    try:
        await _s3(clients, bucket, "head_bucket")
    except BucketMissing:
        where = region or AioSession().get_config_variable("region") or "us-east-1"
        there = {} if where == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": where}}
        await _s3(clients, bucket, "create_bucket", **there)
        return SetupStep("bucket", bucket.name, f"made in {where}")
    return SetupStep("bucket", bucket.name, "was there", changed=False)


async def try_bucket(clients: AwsClients, bucket: Bucket) -> SetupStep:
    """Writes a small object under the prefix and removes it. Raises UserError with what to do."""
    key = bucket.key(PROBE)
    await _s3(clients, bucket, "head_bucket")  # some servers make a bucket when something is put there
    await _s3(clients, bucket, "put_object", Key=key, Body=b"")
    await _s3(clients, bucket, "delete_object", Key=key)
    return SetupStep("results", bucket.url, "can be written", changed=False)


async def drop_results(clients: AwsClients, bucket: Bucket) -> SetupStep:
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
        return SetupStep("results", bucket.url, "nothing was there", changed=False)
    more = f", and {uploads:,} unfinished uploads" if uploads else ""
    return SetupStep("results", bucket.url, f"{removed:,} objects are gone{more}")


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
            raise BucketMissing(f"there is no bucket {bucket.name!r}; {told}") from error
        if code in _ELSEWHERE:
            told = "say which with SWATH_RESULTS=s3://BUCKET/PREFIX?region=NAME"
            raise UserError(f"the bucket {bucket.name!r} is in another region; {told}") from error
        if code == "403":
            raise UserError(f"these credentials may not use the bucket {bucket.name!r}; check their policy") from error
        raise


def _code(error: SwathError) -> str:
    cause: Any = error.__cause__
    return str(getattr(cause, "response", {}).get("Error", {}).get("Code", ""))


IsAbandoned = Callable[[str, datetime], bool]
"""Whether to end an upload, by the path of its object below the folder that was asked for, and when it was begun."""

_GONE: Final = "NoSuchUpload"
_NOT_OFFERED: Final = frozenset({"MethodNotAllowed", "NotImplemented"})


def abort_abandoned_uploads(client: Any, bucket: Bucket, folder: str, is_left: IsAbandoned) -> int:
    """Ends them, and answers how many there were. Blocks. Raises UserError when S3 does not allow it."""
    begin, count = bucket.key(f"{folder}/"), 0
    operation = "list_multipart_uploads"
    try:
        for page in client.get_paginator(operation).paginate(Bucket=bucket.name, Prefix=begin):
            operation = "abort_multipart_upload"
            for one in page.get("Uploads", ()):
                if is_left(one["Key"].removeprefix(begin), one["Initiated"]):
                    count += _abort(client, bucket, one)
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code")
        if code in _NOT_OFFERED:
            raise UserError(f"the server of {bucket.url} does not offer {operation}") from error
        raise translate_error("s3", operation, {}, str(client.meta.region_name), error) from error
    return count


def _abort(client: Any, bucket: Bucket, upload: dict[str, Any]) -> bool:
    try:
        client.abort_multipart_upload(Bucket=bucket.name, Key=upload["Key"], UploadId=upload["UploadId"])
    except ClientError as error:
        if error.response.get("Error", {}).get("Code") != _GONE:  # it was finished or ended meanwhile
            raise
        return False
    return True

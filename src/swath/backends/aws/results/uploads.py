"""Uploads in parts that a process began and never finished: S3 lists them apart from objects, and charges for them.

objects.py calls this in a thread, because obstore cannot list them. bucket.py does the same for `swath aws destroy`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

from botocore.exceptions import ClientError

from swath.backends.aws.calls.errors import translated
from swath.backends.aws.results.bucket import Bucket
from swath.domain.errors import UserError

__all__ = ["IsLeft", "abort_uploads"]

IsLeft = Callable[[str, datetime], bool]
"""Whether to end an upload, by the path of its object below the folder that was asked for, and when it was begun."""

_GONE: Final = "NoSuchUpload"
_NOT_OFFERED: Final = frozenset({"MethodNotAllowed", "NotImplemented"})


def abort_uploads(client: Any, bucket: Bucket, folder: str, is_left: IsLeft) -> int:
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
        raise translated("s3", operation, {}, str(client.meta.region_name), error) from error
    return count


def _abort(client: Any, bucket: Bucket, upload: dict[str, Any]) -> bool:
    try:
        client.abort_multipart_upload(Bucket=bucket.name, Key=upload["Key"], UploadId=upload["UploadId"])
    except ClientError as error:
        if error.response.get("Error", {}).get("Code") != _GONE:  # it was finished or ended meanwhile
            raise
        return False
    return True

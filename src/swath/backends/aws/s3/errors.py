"""Reads obstore's exceptions as the answers of S3 that they are, and translates them like all errors of AWS.

obstore hands on S3's answer as text: its status and its code are found in it.
"""

from __future__ import annotations

import re
from typing import Final

from botocore.exceptions import BotoCoreError, ClientError
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError

from swath.backends.aws.client.errors import translate_error
from swath.backends.aws.s3.bucket import Bucket, BucketMissing
from swath.domain.errors import StoreUnavailable, SwathError, UserError
from swath.domain.job import WaitingFor

__all__ = ["S3_ERRORS", "S3AccessDenied", "S3Unavailable", "is_bucket_missing", "is_precondition_failed", "translate"]

# All that a call of obstore may raise, but for bugs. Nothing under a path is a FileNotFoundError, a timeout an OSError.
S3_ERRORS: Final = (BaseError, OSError, BotoCoreError)

_STATUS: Final = re.compile(r"status code: (\d{3})")
_CODE: Final = re.compile(r"<Code>(\w+)</Code>")
_MESSAGE: Final = re.compile(r"<Message>([^<]*)</Message>")
_ELSEWHERE: Final = frozenset({
    "AuthorizationHeaderMalformed",
    "IllegalLocationConstraintException",
    "PermanentRedirect",
})  # fmt: skip
_CONFLICT: Final = frozenset({"ConditionalRequestConflict", "OperationAborted"})  # two wrote at once; ask again
_DENIED: Final = "AccessDenied"
_LONGEST_TOLD: Final = 300


class S3AccessDenied(UserError):
    """These credentials may not do it. `operation` is the request that S3 denied."""

    def __init__(self, message: str, operation: str) -> None:
        super().__init__(message)
        self.operation = operation


class S3Unavailable(StoreUnavailable):
    """S3 did not answer a request, of this `operation`, in time."""

    def __init__(self, message: str, operation: str) -> None:
        super().__init__(message, WaitingFor.DISK)
        self.operation = operation


def is_bucket_missing(error: Exception) -> bool:
    """Whether it is the bucket that is missing, and not an object in it."""
    return "NoSuchBucket" in str(error)


def is_precondition_failed(error: Exception) -> bool:
    """Whether a put was declined because there is an object, or another one than was expected. obstore says so of every
    409 too, which may pass."""
    return isinstance(error, (AlreadyExistsError, PreconditionError)) and _search(_STATUS, str(error)) == "412"


def translate(operation: str, bucket: Bucket, region: str, error: Exception) -> SwathError:
    """What to raise for it: StoreUnavailable for whatever may pass, UserError where a person has to do something."""
    text = str(error)
    status, code = _search(_STATUS, text), _search(_CODE, text)
    if is_bucket_missing(error):
        hint = "`swath aws init --create-bucket` makes it, or correct SWATH_RESULTS"
        return BucketMissing(f"there is no bucket {bucket.name!r}; {hint}")
    if code in _ELSEWHERE or status == "301" or "redirect without LOCATION" in text:
        hint = "say which with SWATH_RESULTS=s3://BUCKET/PREFIX?region=NAME"
        return UserError(f"the bucket {bucket.name!r} is in another region than {region}; {hint}")
    if status and code not in _CONFLICT:
        code = code or _code_of(status)
        answer = {
            "Error": {"Code": code, "Message": _search(_MESSAGE, text) or f"status {status}"},
            "ResponseMetadata": {"HTTPStatusCode": int(status)},
        }
        told = translate_error("s3", operation, {}, region, ClientError(answer, operation))  # type: ignore[arg-type]  # as AWS answers
        return S3AccessDenied(str(told), operation) if code == _DENIED else _with_operation(operation, told)
    if isinstance(error, BotoCoreError):
        return _with_operation(operation, translate_error("s3", operation, {}, region, error))
    return S3Unavailable(f"S3 ({operation}) does not answer: {_describe(error)}", operation)


def _with_operation(operation: str, told: SwathError) -> SwathError:
    return S3Unavailable(str(told), operation) if isinstance(told, StoreUnavailable) else told


def _search(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return found[1] if found else ""


def _code_of(status: str) -> str:
    """An answer to HEAD has no body to tell."""
    return _DENIED if status in {"401", "403"} else status


def _describe(error: Exception) -> str:
    """The first line says it; after it comes how Rust would print the same."""
    first = str(error).partition("\n")[0].strip() or type(error).__name__
    return first[:_LONGEST_TOLD]

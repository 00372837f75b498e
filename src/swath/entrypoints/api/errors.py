"""The error codes of the API with their statuses (appendix 2), and the translation of exceptions into them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from swath.domain.errors import BadInput, Conflict, StoreReplaced, StoreUnavailable, UnknownName, UserError
from swath.domain.validation_messages import clip_text
from swath.entrypoints.api.envelope import ErrorEnvelope, json_response, request_id

if TYPE_CHECKING:
    from fastapi import Response

__all__ = ["STATUS_OF", "STORE_RETRY_SECONDS", "ApiError", "ErrorCode", "api_error_for", "error_responses"]

MAX_MESSAGE_CHARS: Final = 2_000  # of a message, which may quote what a caller sent
STORE_RETRY_SECONDS: Final = 5  # after which a caller may ask a store again that did not answer


class ErrorCode(StrEnum):
    """Stable: programs decide by them."""

    VALIDATION_ERROR = "validation_error"
    AUTHENTICATION_ERROR = "authentication_error"
    FORBIDDEN = "forbidden"
    BATCH_TOO_LARGE = "batch_too_large"
    NOT_FOUND = "not_found"
    JOB_NOT_FOUND = "job_not_found"
    ITEM_NOT_FOUND = "item_not_found"
    TASK_NOT_FOUND = "task_not_found"
    SCRAPER_NOT_FOUND = "scraper_not_found"
    ARTIFACT_NOT_FOUND = "artifact_not_found"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    CONFLICT = "conflict"
    RESULTS_NOT_READY = "results_not_ready"
    PAYLOAD_TOO_LARGE = "payload_too_large"
    RANGE_NOT_SATISFIABLE = "range_not_satisfiable"
    CREDENTIAL_NOT_FOUND = "credential_not_found"
    RATE_LIMITED = "rate_limited"
    INTERNAL_ERROR = "internal_error"
    QUEUE_FULL = "queue_full"
    CIRCUIT_OPEN = "circuit_open"
    POOL_EXHAUSTED = "pool_exhausted"
    NO_HEALTHY_PROXIES = "no_healthy_proxies"
    STORE_UNAVAILABLE = "store_unavailable"
    TASK_TIMEOUT = "task_timeout"


_C = ErrorCode
STATUS_OF: Final[Mapping[ErrorCode, int]] = {
    _C.VALIDATION_ERROR: 422,
    _C.AUTHENTICATION_ERROR: 401,
    _C.FORBIDDEN: 403,
    _C.BATCH_TOO_LARGE: 400,
    _C.NOT_FOUND: 404,
    _C.JOB_NOT_FOUND: 404,
    _C.ITEM_NOT_FOUND: 404,
    _C.TASK_NOT_FOUND: 404,
    _C.SCRAPER_NOT_FOUND: 404,
    _C.ARTIFACT_NOT_FOUND: 404,
    _C.METHOD_NOT_ALLOWED: 405,
    _C.CONFLICT: 409,
    _C.RESULTS_NOT_READY: 409,
    _C.PAYLOAD_TOO_LARGE: 413,
    _C.RANGE_NOT_SATISFIABLE: 416,
    _C.CREDENTIAL_NOT_FOUND: 424,
    _C.RATE_LIMITED: 429,
    _C.INTERNAL_ERROR: 500,
    _C.QUEUE_FULL: 503,
    _C.CIRCUIT_OPEN: 503,
    _C.POOL_EXHAUSTED: 503,
    _C.NO_HEALTHY_PROXIES: 503,
    _C.STORE_UNAVAILABLE: 503,
    _C.TASK_TIMEOUT: 504,
}
_EXAMPLES: Final[Mapping[ErrorCode, str]] = {
    _C.VALIDATION_ERROR: "items[3].input.parcel_id: is missing",
    _C.AUTHENTICATION_ERROR: "give a service key in the header X-Service-Key",
    _C.FORBIDDEN: "this key does not allow that: it needs the scope admin",
    _C.BATCH_TOO_LARGE: "a batch has at most 100 targets, not 101",
    _C.NOT_FOUND: "there is nothing at this address",
    _C.JOB_NOT_FOUND: "there is no job 'test-002'; did you mean 'test-001'?",
    _C.ITEM_NOT_FOUND: "there is no item 'item-3' in job 'test-001'",
    _C.TASK_NOT_FOUND: "there is no task '6f1c0d0e-6a6f-4a58-9a3a-0d6d4c1f7a01'",
    _C.SCRAPER_NOT_FOUND: "there is no scraper 'exmple-http'; did you mean 'example-http'?",
    _C.ARTIFACT_NOT_FOUND: "item 'item-1' has no artifact 'screenshot'",
    _C.METHOD_NOT_ALLOWED: "PUT is not known here; allowed: GET",
    _C.CONFLICT: "job 'test-001' exists with other content; give another job_id",
    _C.RESULTS_NOT_READY: "job 'test-001' is running; its results are there when it has ended",
    _C.PAYLOAD_TOO_LARGE: "the body is larger than 16,777,216 bytes; load the items as a stream",
    _C.RANGE_NOT_SATISFIABLE: "the artifact has 1,024 bytes",
    _C.CREDENTIAL_NOT_FOUND: "workspace 'w1' has no credential for 'linkedin'",
    _C.RATE_LIMITED: "too many requests; try again in 2 s",
    _C.INTERNAL_ERROR: "something went wrong in Swath; the log has it under this request id",
    _C.QUEUE_FULL: "500 tasks wait already",
    _C.CIRCUIT_OPEN: "site example.com is left alone: its circuit is open",
    _C.POOL_EXHAUSTED: "no browser became free within 10 s",
    _C.NO_HEALTHY_PROXIES: "no residential proxy is healthy",
    _C.STORE_UNAVAILABLE: "the store does not answer now",
    _C.TASK_TIMEOUT: "the task was not done within 60 s; it goes on",
}


class ApiError(Exception):
    """An answer that is no success. `retry_after`, in seconds, becomes the header Retry-After. `status`: where it is
    another than that of the code."""

    def __init__(
        self,
        code: ErrorCode,
        message: str,
        details: Mapping[str, Any] | None = None,
        retry_after: float | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        status: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.details = details
        self.retry_after = retry_after
        self.headers = headers or {}
        self.status = status or STATUS_OF[code]

    def answer(self) -> Response:
        """The error in its envelope."""
        headers = dict(self.headers)
        if self.retry_after is not None:
            headers["Retry-After"] = str(max(1, round(self.retry_after)))
        error = {
            "code": self.code,
            "message": clip_text(_encodable(str(self)), MAX_MESSAGE_CHARS),
            "details": self.details,
        }
        return json_response(
            {"success": False, "data": None, "error": error, "request_id": request_id()}, self.status, headers
        )


def api_error_for(error: Exception) -> ApiError:
    """What a caller is told. What is not foreseen says nothing of itself: the log has it."""
    match error:
        case ApiError():
            return error
        case UnknownName():
            return ApiError(_not_found_code(str(error)), str(error))
        case Conflict(row=row):
            return ApiError(ErrorCode.CONFLICT, str(error), None if row is None else {"row": row})
        case BadInput() | UserError():
            whole = {"path": "", "in": "body", "message": str(error)}
            return ApiError(ErrorCode.VALIDATION_ERROR, str(error), {"fields": [whole], "count": 1})
        case StoreUnavailable(waiting_for=waiting_for, for_callers=message):
            told = {"waiting_for": waiting_for}
            return ApiError(ErrorCode.STORE_UNAVAILABLE, message, told, retry_after=STORE_RETRY_SECONDS)
        case StoreReplaced(what=what):  # the controller ends; the path is no caller's business
            message = f"the store was {what} while it was in use; the controller stops"
            return ApiError(
                ErrorCode.STORE_UNAVAILABLE, message, {"waiting_for": "store"}, retry_after=STORE_RETRY_SECONDS
            )
    return ApiError(ErrorCode.INTERNAL_ERROR, _EXAMPLES[ErrorCode.INTERNAL_ERROR])


def error_responses(*codes: ErrorCode) -> dict[int | str, dict[str, Any]]:
    """The errors that an endpoint may answer with, for OpenAPI: `responses=declared(…)`."""
    found: dict[int | str, dict[str, Any]] = {}
    for code in codes:
        examples = found.setdefault(STATUS_OF[code], _error_response(STATUS_OF[code]))["content"]["application/json"]
        examples["examples"][code.value] = {"value": _example(code)}
    return found


def _error_response(status: int) -> dict[str, Any]:
    return {
        "model": ErrorEnvelope,
        "description": HTTPStatus(status).phrase,
        "content": {"application/json": {"examples": {}}},
    }


def _example(code: ErrorCode) -> dict[str, Any]:
    fields = [{"path": "items[3].input.parcel_id", "in": "body", "message": "is missing"}]
    details = {"fields": fields} if code is ErrorCode.VALIDATION_ERROR else None
    return {
        "success": False,
        "data": None,
        "error": {"code": code.value, "message": _EXAMPLES[code], "details": details},
        "request_id": "0b8f2f0e-4f0f-4b6b-9d8b-1f8f6a1c2d3e",
    }


def _not_found_code(message: str) -> ErrorCode:
    """Every UnknownName begins with what there is none of."""
    found = message.removeprefix("there is no ").split(" ", 1)[0]
    try:
        return ErrorCode(f"{found}_not_found")
    except ValueError:
        return ErrorCode.NOT_FOUND


def _encodable(message: str) -> str:
    """Half a surrogate pair cannot be sent."""
    return message.encode("utf-8", "backslashreplace").decode()

"""The shape of every JSON answer (I1): `success`, `data`, `error` and `request_id`."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, Final, Generic, TypeVar

import msgspec
from fastapi import Response
from pydantic import BaseModel, Field

from swath.observability.task_context import current_task_context

__all__ = ["Envelope", "ErrorBody", "ErrorEnvelope", "json_response", "ok", "request_id"]

T = TypeVar("T")

_NONE: Final = str(uuid.UUID(int=0))
# Generators of clients fail at the type `null` and at a constant boolean, so the schemas allow more than is ever sent.
_ALWAYS_NULL: Final = "Always null in this answer."


class ErrorBody(BaseModel):
    """Why it was not done. `code` is for programs and never changes, `message` is for people.

    `details.fields` are the wrong fields of a `validation_error`.
    """

    code: str = Field(examples=["validation_error"])
    message: str
    details: dict[str, Any] | None = None


class Envelope(BaseModel, Generic[T]):
    """An answer to a request that was understood and done."""

    success: bool = Field(default=True, description="Always true in this answer.")
    data: T
    error: ErrorBody | None = Field(default=None, description=_ALWAYS_NULL)
    request_id: uuid.UUID


class ErrorEnvelope(BaseModel):
    """An answer to a request that was not done."""

    success: bool = Field(default=False, description="Always false in this answer.")
    data: dict[str, Any] | None = Field(default=None, description=_ALWAYS_NULL)
    error: ErrorBody
    request_id: uuid.UUID


def request_id() -> str:
    """The id of the request that the current task serves."""
    return current_task_context().request_id or _NONE


def ok(data: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """The answer of a route: plain values, structs or models."""
    body = {"success": True, "data": data, "error": None, "request_id": request_id()}
    return json_response(body, status, headers)


def json_response(body: Mapping[str, Any], status: int, headers: Mapping[str, str] | None = None) -> Response:
    """Any body as JSON, encoded once: the declared model describes it, and is not run over it again."""
    raw = msgspec.json.encode(body, enc_hook=_json_value)
    return Response(raw, status, dict(headers or {}), media_type="application/json")


def _json_value(value: object) -> object:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    raise TypeError(f"{type(value).__name__} cannot be part of an answer")

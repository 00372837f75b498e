"""Reads a JSON body and validates it, without blocking other requests.

Larger bodies are parsed and validated in a thread, a few at a time. Counts are checked before contents and errors
are
bounded, because pydantic makes a large object for every wrong value.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec
from annotated_types import MaxLen
from fastapi import Request
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from swath.domain.validation_messages import quoted_list
from swath.entrypoints.api.errors import ApiError, ErrorCode
from swath.entrypoints.api.validation_errors import MAX_LISTED, invalid_model
from swath.pipeline.ingest.sources.json_rows import (
    DEPTH_LIMIT,
    STRICT_DECODER,
    DisallowedJson,
    has_lone_surrogate,
    nesting_depth,
)

if TYPE_CHECKING:
    from pydantic_core import InitErrorDetails

__all__ = ["BodySlots", "BodySpec", "StrictBody", "validate_each", "validated_request"]

MAX_UNKNOWN_FIELDS: Final = 20  # fields of one object that are told one by one
_SMALL_BYTES: Final = 64 << 10


class StrictBody(BaseModel):
    """Unknown fields are refused, and nothing is guessed."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, use_attribute_docstrings=True)

    most_bytes: ClassVar[int] = _SMALL_BYTES
    """That a body of this model may have, if `bulk` does not say otherwise."""
    bulk: ClassVar[bool] = False
    """Whether it may have as many as the settings allow. Few such bodies are held at a time."""

    @model_validator(mode="before")
    @classmethod
    def _counts_first(cls, value: object) -> object:
        wrong = _too_many(cls, value) if isinstance(value, dict) else []
        if wrong:
            raise ValidationError.from_exception_data(cls.__name__, wrong)
        return value


def _too_many(model: type[BaseModel], value: dict[str, Any]) -> list[InitErrorDetails]:
    wrong: list[InitErrorDetails] = []
    known = model.model_fields
    if len(value) > len(known) + MAX_UNKNOWN_FIELDS:
        unknown = [name for name in value if name not in known]
        told = f"has {len(unknown):,} fields that are not known: {quoted_list(unknown)}"
        wrong.append({"type": "value_error", "loc": (), "input": None, "ctx": {"error": ValueError(told)}})
    for name, field in known.items():
        most = next((one.max_length for one in field.metadata if isinstance(one, MaxLen)), None)
        inner = value.get(name) if most is not None else None
        if most is not None and isinstance(inner, list | dict) and len(inner) > most:
            context = {"field_type": "List", "max_length": most, "actual_length": len(inner)}
            wrong.append({"type": "too_long", "loc": (name,), "input": inner, "ctx": context})
    return wrong


def validate_each(model: type[BaseModel], field: str) -> Callable[[object, Callable[[object], Any]], Any]:
    """For WrapValidator on a list of `model` that stands in `field`: other threads get their turn between two of them,
    and of many that are wrong only some are told."""

    def validated(value: object, handler: Callable[[object], Any]) -> Any:
        if not isinstance(value, list):
            return handler(value)
        made: list[BaseModel] = []
        wrong: list[InitErrorDetails] = []
        count = 0
        for at, one in enumerate(value):
            try:
                made.append(model.model_validate(one))
            except ValidationError as error:
                count += error.error_count()
                if len(wrong) < MAX_LISTED:
                    wrong += _errors_at(error, at)
        if count > MAX_LISTED:  # what else may be wrong beside it is told when these are less
            raise invalid_model([{**one, "loc": ("body", field, *one["loc"])} for one in wrong], model, count)
        if wrong:
            raise ValidationError.from_exception_data(field, wrong)
        return handler(made)

    return validated


def _errors_at(error: ValidationError, at: int) -> list[InitErrorDetails]:
    return [
        {"type": one["type"], "loc": (at, *one["loc"]), "input": one["input"], "ctx": one.get("ctx", {})}
        for one in error.errors(include_url=False)[:MAX_LISTED]
    ]


WRAPPER_DEPTH: Final = 10  # of what stands around an item's input in a body
MAX_VALUES: Final = 500_000  # of a few bytes each they take many times as much memory as their text
SMALL_BYTES: Final = 64 << 10  # up to here a body needs no place to be read
SMALL_VALUES: Final = 1_000  # and up to here it is validated at once: that takes no longer than to change threads
BODY_SECONDS: Final = 60.0  # that a whole body may take to come
IDLE_SECONDS: Final = 10.0  # that a sender which has a place may say nothing
SPEED_CHECK_SECONDS: Final = 5.0  # after which it must have sent so much each second, if others wait for its place
MIN_BYTES_PER_SECOND: Final = 64 << 10
MAX_RECEIVING: Final = 4
MAX_VALIDATING: Final = 2
SLOT_WAIT_SECONDS: Final = 30.0  # that a sender waits for a place
RETRY_AFTER_SECONDS: Final = 10.0


class BodySpec(msgspec.Struct, frozen=True):
    """What an endpoint takes. `validate` returns the value and what is wrong. `bulk`: its bodies may be large, and keep
    their place until it has answered."""

    validate: Callable[[object], tuple[Any, list[dict[str, Any]]]]
    model: type[BaseModel] | None
    most_bytes: int
    bulk: bool = False


class BodySlots:
    """One per controller: where large bodies wait for each other. So memory is bounded whoever sends how many."""

    def __init__(self) -> None:
        self._arriving = asyncio.Semaphore(MAX_RECEIVING)
        self._at_work = asyncio.Semaphore(MAX_VALIDATING)
        self._waiting = 0
        self.one_thread = asyncio.Lock()
        """Held while a thread looks through a body: two of them would take turns with each other, and the event loop
        would get one in three."""

    @property
    def wanted(self) -> bool:
        """Whether somebody waits for a place."""
        return self._waiting > 0

    def arriving(self) -> _BodySlot:
        """A place for a body that is read. Raises ApiError rate_limited when none gets free."""
        return _BodySlot(self, self._arriving)

    def at_work(self) -> _BodySlot:
        """A place for one that is validated, and for what is made of it. Raises the same."""
        return _BodySlot(self, self._at_work)

    async def take(self, places: asyncio.Semaphore) -> None:
        """Waits until one is free."""
        self._waiting += 1
        try:
            async with asyncio.timeout(SLOT_WAIT_SECONDS):
                await places.acquire()
        except TimeoutError:
            told = "too many large bodies are being read here; send it again later, or in smaller parts"
            headers = {"Connection": "close"}  # the rest of it is not read
            raise ApiError(ErrorCode.RATE_LIMITED, told, retry_after=RETRY_AFTER_SECONDS, headers=headers) from None
        finally:
            self._waiting -= 1


class _BodySlot:
    """One of them, while the context lasts."""

    def __init__(self, places: BodySlots, free: asyncio.Semaphore) -> None:
        self._places = places
        self._free = free

    async def __aenter__(self) -> None:
        await self._places.take(self._free)

    async def __aexit__(self, *_: object) -> None:
        self._free.release()


class _JsonRequest(Request):
    """A request whose body was read and validated already."""

    def __init__(self, request: Request, value: object, *, empty: bool) -> None:
        super().__init__(request.scope, request.receive)
        self._body = b"" if empty else b"{}"  # FastAPI only looks whether there is one
        self._value = value

    async def json(self) -> Any:
        """The model of the body. FastAPI validates it once more, and takes a model as it is."""
        return self._value


@asynccontextmanager
async def validated_request(request: Request, kind: BodySpec, places: BodySlots) -> AsyncIterator[Request]:
    """The request with its body, which has its place while the context lasts if it is a large one.

    Raises ApiError: payload_too_large, rate_limited, or validation_error for what is not JSON or not the model.
    """
    async with AsyncExitStack() as working, AsyncExitStack() as reading:
        raw = await _read(request, kind, places, reading)
        if not raw:
            yield _JsonRequest(request, None, empty=True)
            return
        _check_type(request)
        if _is_small(raw):
            value = _validate(raw, kind)
        else:
            await working.enter_async_context(places.at_work())
            async with places.one_thread:
                value = await asyncio.to_thread(_validate, raw, kind)
        del raw
        await reading.aclose()
        if not kind.bulk:
            await working.aclose()
        yield _JsonRequest(request, value, empty=False)


async def _read(request: Request, kind: BodySpec, places: BodySlots, reading: AsyncExitStack) -> bytes:
    """The whole body, bounded by what it says of its length, by what really comes, and in time. Raises ApiError."""
    said, too_large = request.headers.get("content-length", "0"), _too_large(kind)
    if not said.isdecimal() or int(said[:20]) > kind.most_bytes:
        raise too_large
    raw, chunks, clock = bytearray(), aiter(request.stream()), asyncio.get_running_loop().time
    begun = clock()
    placed_at = 0.0
    while True:
        left = begun + BODY_SECONDS - clock()
        patience = min(left, IDLE_SECONDS) if placed_at else left
        try:
            async with asyncio.timeout(patience):
                chunk = await anext(chunks, None)
        except TimeoutError:
            raise _invalid_body("came too slowly, or not as a whole; send it again") from None
        if chunk is None:
            return bytes(raw)
        raw += chunk
        if len(raw) > kind.most_bytes:
            raise too_large
        if len(raw) > SMALL_BYTES and not placed_at:
            waited = clock()
            await reading.enter_async_context(places.arriving())
            placed_at = clock()
            begun += placed_at - waited
        elif placed_at and places.wanted and _is_slow(len(raw), clock() - placed_at):
            raise _invalid_body("came too slowly while others wait; send it again")


def _is_slow(came_bytes: int, seconds: float) -> bool:
    return seconds > SPEED_CHECK_SECONDS and came_bytes < MIN_BYTES_PER_SECOND * seconds


def _too_large(kind: BodySpec) -> ApiError:
    stream = "; load items as a stream with POST /jobs/{id}/items" if kind.bulk else ""
    told = f"the body is larger than {kind.most_bytes:,} bytes{stream}"
    return ApiError(ErrorCode.PAYLOAD_TOO_LARGE, told, headers={"Connection": "close"})


def _check_type(request: Request) -> None:
    kind, _, parameters = request.headers.get("content-type", "").lower().partition(";")
    kind, charset = kind.strip(), parameters.partition("charset=")[2].strip(' "')
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        raise _invalid_body("send JSON, and say so: Content-Type: application/json")
    if charset not in ("", "utf-8", "utf8"):
        raise _invalid_body("send JSON as UTF-8")
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise _invalid_body("send the body as it is, not compressed; a streamed load may be gzip")


def _is_small(raw: bytes) -> bool:
    return len(raw) <= SMALL_BYTES and _value_count_bound(raw) <= SMALL_VALUES


def _value_count_bound(raw: bytes) -> int:
    """At least as many as there are values, but for one."""
    return sum(raw.count(mark) for mark in (b",", b"[", b"{"))


def _validate(raw: bytes, kind: BodySpec) -> object:
    """Raises ApiError."""
    value, errors = kind.validate(_parse(raw))
    if errors:
        raise invalid_model(errors, kind.model)
    return value


def _parse(raw: bytes) -> object:
    """Raises ApiError where two readers could understand it differently, or where it is too much at once."""
    if _value_count_bound(raw) > MAX_VALUES:
        told = f"the body has more than {MAX_VALUES:,} values; load items as a stream with POST /jobs/{{id}}/items"
        raise ApiError(ErrorCode.PAYLOAD_TOO_LARGE, told)
    if raw.startswith(b"\xef\xbb\xbf"):
        raise _invalid_body("send JSON without a byte order mark")
    try:
        value: object = STRICT_DECODER.decode(raw.decode())
    except UnicodeDecodeError:
        raise _invalid_body("send JSON as UTF-8") from None
    except json.JSONDecodeError as error:
        told = f"is not valid JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        raise _invalid_body(told) from None
    except DisallowedJson as error:
        raise _invalid_body(str(error)) from None
    except (RecursionError, ValueError):
        raise _invalid_body("is nested too deep") from None
    limit = DEPTH_LIMIT + WRAPPER_DEPTH
    if raw.count(b"[") + raw.count(b"{") > limit and nesting_depth(value) > limit:
        raise _invalid_body(f"is nested more than {limit} deep")
    if b"\\ud" in raw.lower() and has_lone_surrogate(value):
        raise _invalid_body("has half of a surrogate pair, which is no character")
    return value


def _invalid_body(message: str) -> ApiError:
    fields = [{"path": "", "in": "body", "message": message}]
    return ApiError(ErrorCode.VALIDATION_ERROR, f"the body: {message}", {"fields": fields})

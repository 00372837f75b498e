"""From the bytes of a request to a validated body. Whatever is sent, other requests are answered meanwhile: a body of
some size is counted, parsed and validated in a thread, and only a few are held at a time.

Before: routing.py has let the caller in. After: the endpoint gets the model; strict_body.py bounds what is told of it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

import msgspec
from fastapi import Request
from pydantic import BaseModel

from swath.entrypoints.api.errors import ApiError, ErrorCode
from swath.entrypoints.api.problems import refused
from swath.pipeline.accept.json_rows import DEPTH_LIMIT
from swath.pipeline.accept.strict_json import DECODER, Refused, depth_of, has_half_a_pair

__all__ = ["BodyKind", "BodyPlaces", "taken"]

ABOUT_DEPTH: Final = 10  # of what stands around an item's input in a body
MOST_VALUES: Final = 500_000  # of a few bytes each they take many times as much memory as their text
SMALL_BYTES: Final = 64 << 10  # up to here a body needs no place to be read
SMALL_VALUES: Final = 1_000  # and up to here it is validated at once: that takes no longer than to change threads
BODY_SECONDS: Final = 60.0  # that a whole body may take to come
SILENT_SECONDS: Final = 10.0  # that a sender which has a place may say nothing
PACE_SECONDS: Final = 5.0  # after which it must have sent so much each second, if others wait for its place
LEAST_BYTES_PER_SECOND: Final = 64 << 10
MOST_ARRIVING: Final = 4
MOST_AT_WORK: Final = 2
PLACE_SECONDS: Final = 30.0  # that a sender waits for a place
AGAIN_SECONDS: Final = 10.0


class BodyKind(msgspec.Struct, frozen=True):
    """What an endpoint takes. `validate` returns the value and what is wrong. `bulk`: its bodies may be large, and keep
    their place until it has answered."""

    validate: Callable[[object], tuple[Any, list[dict[str, Any]]]]
    model: type[BaseModel] | None
    most_bytes: int
    bulk: bool = False


class BodyPlaces:
    """One per controller: where large bodies wait for each other. So memory is bounded whoever sends how many."""

    def __init__(self) -> None:
        self._arriving = asyncio.Semaphore(MOST_ARRIVING)
        self._at_work = asyncio.Semaphore(MOST_AT_WORK)
        self._waiting = 0
        self.one_thread = asyncio.Lock()
        """Held while a thread looks through a body: two of them would take turns with each other, and the event loop
        would get one in three."""

    @property
    def wanted(self) -> bool:
        """Whether somebody waits for a place."""
        return self._waiting > 0

    def arriving(self) -> _Place:
        """A place for a body that is read. Raises ApiError rate_limited when none gets free."""
        return _Place(self, self._arriving)

    def at_work(self) -> _Place:
        """A place for one that is validated, and for what is made of it. Raises the same."""
        return _Place(self, self._at_work)

    async def take(self, places: asyncio.Semaphore) -> None:
        """Waits until one is free."""
        self._waiting += 1
        try:
            async with asyncio.timeout(PLACE_SECONDS):
                await places.acquire()
        except TimeoutError:
            told = "too many large bodies are being read here; send it again later, or in smaller parts"
            headers = {"Connection": "close"}  # the rest of it is not read
            raise ApiError(ErrorCode.RATE_LIMITED, told, retry_after=AGAIN_SECONDS, headers=headers) from None
        finally:
            self._waiting -= 1


class _Place:
    """One of them, while the context lasts."""

    def __init__(self, places: BodyPlaces, free: asyncio.Semaphore) -> None:
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
async def taken(request: Request, kind: BodyKind, places: BodyPlaces) -> AsyncIterator[Request]:
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
            value = _validated(raw, kind)
        else:
            await working.enter_async_context(places.at_work())
            async with places.one_thread:
                value = await asyncio.to_thread(_validated, raw, kind)
        del raw
        await reading.aclose()
        if not kind.bulk:
            await working.aclose()
        yield _JsonRequest(request, value, empty=False)


async def _read(request: Request, kind: BodyKind, places: BodyPlaces, reading: AsyncExitStack) -> bytes:
    """The whole body, bounded by what it says of its length, by what really comes, and in time. Raises ApiError."""
    said, too_large = request.headers.get("content-length", "0"), _too_large(kind)
    if not said.isdecimal() or int(said[:20]) > kind.most_bytes:
        raise too_large
    raw, chunks, clock = bytearray(), aiter(request.stream()), asyncio.get_running_loop().time
    begun = clock()
    placed_at = 0.0
    while True:
        left = begun + BODY_SECONDS - clock()
        patience = min(left, SILENT_SECONDS) if placed_at else left
        try:
            async with asyncio.timeout(patience):
                chunk = await anext(chunks, None)
        except TimeoutError:
            raise _wrong("came too slowly, or not as a whole; send it again") from None
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
            raise _wrong("came too slowly while others wait; send it again")


def _is_slow(came_bytes: int, seconds: float) -> bool:
    return seconds > PACE_SECONDS and came_bytes < LEAST_BYTES_PER_SECOND * seconds


def _too_large(kind: BodyKind) -> ApiError:
    stream = "; load items as a stream with POST /jobs/{id}/items" if kind.bulk else ""
    told = f"the body is larger than {kind.most_bytes:,} bytes{stream}"
    return ApiError(ErrorCode.PAYLOAD_TOO_LARGE, told, headers={"Connection": "close"})


def _check_type(request: Request) -> None:
    kind, _, parameters = request.headers.get("content-type", "").lower().partition(";")
    kind, charset = kind.strip(), parameters.partition("charset=")[2].strip(' "')
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        raise _wrong("send JSON, and say so: Content-Type: application/json")
    if charset not in ("", "utf-8", "utf8"):
        raise _wrong("send JSON as UTF-8")
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise _wrong("send the body as it is, not compressed; a streamed load may be gzip")


def _is_small(raw: bytes) -> bool:
    return len(raw) <= SMALL_BYTES and _marks(raw) <= SMALL_VALUES


def _marks(raw: bytes) -> int:
    """At least as many as there are values, but for one."""
    return sum(raw.count(mark) for mark in (b",", b"[", b"{"))


def _validated(raw: bytes, kind: BodyKind) -> object:
    """Raises ApiError."""
    value, errors = kind.validate(_parsed(raw))
    if errors:
        raise refused(errors, kind.model)
    return value


def _parsed(raw: bytes) -> object:
    """Raises ApiError where two readers could understand it differently, or where it is too much at once."""
    if _marks(raw) > MOST_VALUES:
        told = f"the body has more than {MOST_VALUES:,} values; load items as a stream with POST /jobs/{{id}}/items"
        raise ApiError(ErrorCode.PAYLOAD_TOO_LARGE, told)
    if raw.startswith(b"\xef\xbb\xbf"):
        raise _wrong("send JSON without a byte order mark")
    try:
        value: object = DECODER.decode(raw.decode())
    except UnicodeDecodeError:
        raise _wrong("send JSON as UTF-8") from None
    except json.JSONDecodeError as error:
        told = f"is not valid JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        raise _wrong(told) from None
    except Refused as error:
        raise _wrong(str(error)) from None
    except (RecursionError, ValueError):
        raise _wrong("is nested too deep") from None
    limit = DEPTH_LIMIT + ABOUT_DEPTH
    if raw.count(b"[") + raw.count(b"{") > limit and depth_of(value) > limit:
        raise _wrong(f"is nested more than {limit} deep")
    if b"\\ud" in raw.lower() and has_half_a_pair(value):
        raise _wrong("has half of a surrogate pair, which is no character")
    return value


def _wrong(message: str) -> ApiError:
    fields = [{"path": "", "in": "body", "message": message}]
    return ApiError(ErrorCode.VALIDATION_ERROR, f"the body: {message}", {"fields": fields})

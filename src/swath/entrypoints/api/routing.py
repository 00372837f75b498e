"""ApiRoute: how a request reaches its endpoint: first its key, then its body, read strictly and within bounds.

Before: edge.py. After: the endpoint gets models. Every router of routes/ is `APIRouter(route_class=ApiRoute)`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, Final

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel

from swath.domain.explain import listed, near
from swath.entrypoints.api.controller import controller_of
from swath.entrypoints.api.errors import ApiError, ErrorCode
from swath.entrypoints.api.gate import admit, scope_among
from swath.entrypoints.api.problems import Problem, refused, refused_fields
from swath.pipeline.accept.json_rows import DEPTH_LIMIT
from swath.pipeline.accept.strict_json import DECODER, Refused, depth_of, has_half_a_pair

if TYPE_CHECKING:
    from fastapi.dependencies.models import Dependant

__all__ = ["ApiRoute", "read_body"]

ABOUT_DEPTH: Final = 10  # of what stands around an item's input in a body
BODY_SECONDS: Final = 60.0  # that a whole body may take to come
MOST_VALUES: Final = 500_000  # of a few bytes each they take many times as much memory as their text
LARGE_BYTES: Final = 256 << 10  # from here on it is parsed beside the event loop

_Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class ApiRoute(APIRoute):
    """An endpoint behind the gate, with a strict JSON body if it takes one."""

    def get_route_handler(self) -> _Handler:
        """See APIRoute."""
        handle, model = super().get_route_handler(), _model_of(self)
        scope, takes_json = scope_among(_calls(self.dependant)), self.body_field is not None
        names = frozenset(_query_names(self.dependant))

        async def handler(request: Request) -> Response:
            if scope is not None:
                await admit(request, scope)
            _check_query(request, names)
            try:
                return await handle(await _with_json(request) if takes_json else request)
            except RequestValidationError as error:
                raise refused(error.errors(), model) from None

        return handler


def _check_query(request: Request, names: Collection[str]) -> None:
    """A filter whose name is misspelled would list everything. Raises ApiError."""
    unknown = [name for name in dict.fromkeys(request.query_params) if name not in names]
    if unknown:
        raise refused_fields([Problem(name, _not_known(name, names), "query") for name in unknown])


def _not_known(name: str, names: Collection[str]) -> str:
    takes = f"; allowed: {listed(sorted(names))}" if names else "; this endpoint takes none"
    return f"is not known{near(name, names) or takes}"


class _JsonRequest(Request):
    """A request whose body was read already."""

    def __init__(self, request: Request, raw: bytes, value: object) -> None:
        super().__init__(request.scope, request.receive)
        self._body = raw
        self._value = value

    async def json(self) -> Any:
        """The body as it was parsed."""
        return self._value


async def _with_json(request: Request) -> Request:
    """Raises ApiError: payload_too_large, or validation_error for what is not JSON."""
    raw = await read_body(request, controller_of(request).settings.max_body_bytes)
    if not raw:
        return _JsonRequest(request, raw, None)
    _check_type(request)
    value = await asyncio.to_thread(_parsed, raw) if len(raw) > LARGE_BYTES else _parsed(raw)
    return _JsonRequest(request, raw, value)


async def read_body(request: Request, limit_bytes: int) -> bytes:
    """The whole body, bounded by what it says of its length, by what really comes, and in time. Raises ApiError."""
    said = request.headers.get("content-length", "0")
    too_large = ApiError(
        ErrorCode.PAYLOAD_TOO_LARGE,
        f"the body is larger than {limit_bytes:,} bytes; load items as a stream with POST /jobs/{{id}}/items",
        headers={"Connection": "close"},
    )
    if not said.isdecimal() or int(said[:20]) > limit_bytes:
        raise too_large
    raw = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                raw += chunk
                if len(raw) > limit_bytes:
                    raise too_large
    except TimeoutError:
        raise _wrong(f"did not come within {BODY_SECONDS:g} s") from None
    return bytes(raw)


def _check_type(request: Request) -> None:
    kind, _, parameters = request.headers.get("content-type", "").lower().partition(";")
    kind, charset = kind.strip(), parameters.partition("charset=")[2].strip(' "')
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        raise _wrong("send JSON, and say so: Content-Type: application/json")
    if charset not in ("", "utf-8", "utf8"):
        raise _wrong("send JSON as UTF-8")
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise _wrong("send the body as it is, not compressed; a streamed load may be gzip")


def _parsed(raw: bytes) -> object:
    """Raises ApiError where two readers could understand it differently, or where it is too much at once."""
    if sum(raw.count(mark) for mark in (b",", b"[", b"{")) > MOST_VALUES:
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


def _calls(dependant: Dependant) -> Iterable[object]:
    for inner in dependant.dependencies:
        yield inner.call
        yield from _calls(inner)


def _query_names(dependant: Dependant) -> Iterable[str]:
    """What may be said in the address, here or in what is depended on."""
    for field in dependant.query_params:
        model: object = field.field_info.annotation
        if isinstance(model, type) and issubclass(model, BaseModel):
            yield from (inner.alias or name for name, inner in model.model_fields.items())
        else:
            yield field.alias
    for inner in dependant.dependencies:
        yield from _query_names(inner)


def _model_of(route: APIRoute) -> type[BaseModel] | None:
    """The model of the body, for hints at the right names."""
    field = route.body_field
    found: object = None if field is None else field.field_info.annotation
    return found if isinstance(found, type) and issubclass(found, BaseModel) else None

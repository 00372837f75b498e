"""The outermost middleware: gives each request its id and rejects requests that no endpoint may see.

Rejected are foreign hosts and origins, oversized headers and addresses, and service keys in a query string. Errors
that
nothing inside has handled become an answer here. Pure ASGI, so that streams are not buffered.
"""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Collection, Iterable
from contextlib import ExitStack
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, unquote_to_bytes, urlsplit

from starlette.requests import ClientDisconnect

from swath.entrypoints.api.access_log import log_response
from swath.entrypoints.api.errors import ApiError, ErrorCode, api_error_for
from swath.entrypoints.api.validation_errors import FieldError, invalid_fields
from swath.observability.task_context import serve_request

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["EXIT_STACK", "REQUEST_ID_HEADER", "RequestMiddleware", "decode_segment", "logged_api_error"]

REQUEST_ID_HEADER: Final = "X-Request-ID"
EXIT_STACK: Final = "held"  # in the state of a request: what it gives back at its end
MAX_HEADERS: Final = 100
MAX_HEADER_BYTES: Final = 32 << 10
MAX_QUERY_BYTES: Final = 8 << 10
MAX_PATH_BYTES: Final = 16 << 10  # the longest item id, each byte of it as %XX, and the longest job id

_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_KEY_IN_QUERY: Final = re.compile(rb"(^|&)x?-?_?service[-_]key=|(^|[=&])sk_[0-9a-f]{12}_", re.IGNORECASE)
_NOT_IN_SEGMENTS: Final = str.maketrans({"%": "%25", "/": "%2F"})

_log = logging.getLogger("swath.api")


class RequestMiddleware:
    """`hosts` are names, beside those of this machine, under which the controller may be asked."""

    def __init__(self, app: ASGIApp, hosts: Collection[str] = ()) -> None:
        self._app = app
        self._names = frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = _RawHeaders(scope["headers"])
        shown_id = _request_id(headers.all(b"x-request-id"))
        serve_request(shown_id)
        out = _ResponseSender(send, shown_id)
        try:
            self._look_over(scope, headers)
            inner = {**scope, "path": _path(scope), "state": {**scope.get("state", {}), EXIT_STACK: ExitStack()}}
        except ApiError as error:
            log_response(scope, error.status, 0.0)
            await error.answer()(scope, receive, out.send)
            return
        try:
            with inner["state"][EXIT_STACK]:
                await self._app(inner, receive, out.send)
        except ClientDisconnect:
            _log.info("the caller went away")
        except Exception as error:
            if out.begun:
                raise  # half an answer cannot be taken back; the server cuts the connection
            await logged_api_error(error).answer()(scope, receive, out.send)

    def _look_over(self, scope: Scope, headers: _RawHeaders) -> None:
        """Raises ApiError."""
        if len(scope["headers"]) > MAX_HEADERS or headers.size > MAX_HEADER_BYTES:
            raise ApiError(ErrorCode.PAYLOAD_TOO_LARGE, "the request has too many headers, or too long ones")
        if len(scope["query_string"]) > MAX_QUERY_BYTES or len(_raw_path(scope)) > MAX_PATH_BYTES:
            raise ApiError(ErrorCode.PAYLOAD_TOO_LARGE, "the address is too long")
        if _KEY_IN_QUERY.search(unquote_to_bytes(scope["query_string"])):
            told = "an address is no place for a key: it ends up in logs; send it in X-Service-Key, and revoke this one"
            raise ApiError(ErrorCode.AUTHENTICATION_ERROR, told)
        host = headers.only(b"host")
        if host is None or not self._serves(host):
            told = "this controller does not serve that Host; add its name to SWATH_ALLOWED_HOSTS"
            raise ApiError(ErrorCode.FORBIDDEN, told)
        origins = headers.all(b"origin")
        if origins and (len(origins) > 1 or origins[0] not in self._own_origins(scope, host)):
            raise ApiError(ErrorCode.FORBIDDEN, "pages of other origins may not use this controller")
        if len(headers.all(b"idempotency-key")) > 1:
            raise invalid_fields([FieldError("Idempotency-Key", "is given more than once", "header")])

    def _own_origins(self, scope: Scope, host: str) -> tuple[str, ...]:
        """Behind what ends TLS for us a name has https, of which our own socket knows nothing."""
        own, name = f"{scope['scheme']}://{host}", _host_name(host)
        return (own, f"https://{host}") if name in self._names and not _is_address(name) else (own,)

    def _serves(self, host: str) -> bool:
        """An address is no name that somebody could point at us, so addresses are fine whoever they stand for."""
        name = _host_name(host)
        if name is None:
            return False
        return name in self._names or name == "localhost" or name.endswith(".localhost") or _is_address(name)


def logged_api_error(error: Exception) -> ApiError:
    """What the caller is told; what nobody foresaw goes to the log in full."""
    answer = api_error_for(error)
    if answer.code is ErrorCode.INTERNAL_ERROR:
        _log.error("a request failed: %s", type(error).__name__, exc_info=error)
    return answer


class _RawHeaders:
    """The headers of a request as they came: names in lower case, in order."""

    def __init__(self, raw: Iterable[tuple[bytes, bytes]]) -> None:
        self._raw = list(raw)

    @property
    def size(self) -> int:
        return sum(len(name) + len(value) for name, value in self._raw)

    def all(self, name: bytes) -> list[str]:
        return [value.decode("latin-1").strip() for found, value in self._raw if found == name]

    def only(self, name: bytes) -> str | None:
        found = self.all(name)
        return found[0] if len(found) == 1 else None


class _ResponseSender:
    """The way back: puts the request id on the answer, and knows whether it has begun."""

    def __init__(self, send: Send, shown_id: str) -> None:
        self._send = send
        self._header = (REQUEST_ID_HEADER.lower().encode(), shown_id.encode())
        self.begun = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.begun = True
            message = {**message, "headers": [*message.get("headers", ()), self._header]}
        await self._send(message)


def _request_id(given: list[str]) -> str:
    """Ours is always new; a caller's is kept if it is a UUID."""
    if len(given) == 1 and _UUID.fullmatch(given[0]):
        return given[0].lower()
    return str(uuid.uuid4())


def _host_name(host: str) -> str | None:
    try:
        parts = urlsplit(f"//{host.lower()}")
        _ = parts.port  # raises ValueError when it is none
    except ValueError:
        return None
    whole = not parts.path and not parts.query and not parts.fragment and "@" not in host
    return parts.hostname.rstrip(".") if whole and parts.hostname else None


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _raw_path(scope: Scope) -> bytes:
    raw: Any = scope.get("raw_path")
    return raw if isinstance(raw, bytes) else str(scope["path"]).encode("utf-8", "surrogatepass")


def _path(scope: Scope) -> str:
    """The path for routing, where a slash that belongs to an id is still %2F. Raises ApiError if it is no text."""
    raw = scope.get("raw_path")
    if not isinstance(raw, bytes):
        return str(scope["path"])
    try:
        segments = [unquote_to_bytes(part).decode() for part in raw.split(b"?", 1)[0].split(b"/")]
    except UnicodeDecodeError:
        raise ApiError(ErrorCode.VALIDATION_ERROR, "the address is not UTF-8 text") from None
    return "/".join(segment.translate(_NOT_IN_SEGMENTS) for segment in segments)


def decode_segment(segment: str) -> str:
    """An id as it was meant, from its segment of such a path."""
    return unquote(segment)

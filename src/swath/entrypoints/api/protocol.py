"""BoundedProtocol: the server's end of a connection, with bounds on what comes before any of our code sees a request.

Before: a socket (listen.py). After: edge.py, which sees whole requests only. Without it a head that never ends would be
kept in memory as long as it comes.
"""

from __future__ import annotations

import asyncio
import uuid
from contextvars import copy_context
from http import HTTPStatus
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from swath.entrypoints.api.edge import MOST_PATH_BYTES, MOST_QUERY_BYTES, REQUEST_ID_HEADER
from swath.entrypoints.api.errors import ApiError, ErrorCode
from swath.observe.context import serve_request

__all__ = ["BoundedProtocol"]

MOST_HEAD_BYTES: Final = 128 << 10  # more than edge.py lets through, so that most get an answer in the envelope
HEAD_SECONDS: Final = 20.0  # from the first byte of a request, or from the connection, to the end of its headers


class BoundedProtocol(HttpToolsProtocol):
    """Ends connections whose request does not begin within bounds; bodies are bounded where they are read."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._head_bytes = 0
        self._in_head = True
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """See asyncio.Protocol."""
        super().connection_made(transport)
        self._begin_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        self._end_head()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        super().data_received(data)
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > MOST_HEAD_BYTES:
                self._refuse(ApiError(ErrorCode.PAYLOAD_TOO_LARGE, "the head of the request is too large"))

    def on_message_begin(self) -> None:
        """A request begins, on a new connection or on one that was kept."""
        super().on_message_begin()
        self._begin_head()

    def on_headers_complete(self) -> None:
        """Now it is the app's."""
        self._end_head()
        super().on_headers_complete()

    def _begin_head(self) -> None:
        self._end_head()
        self._in_head, self._head_bytes = True, 0
        late = ApiError(ErrorCode.VALIDATION_ERROR, f"the request did not come within {HEAD_SECONDS:g} s")
        self._timer = self.loop.call_later(HEAD_SECONDS, self._refuse, late)

    def _end_head(self) -> None:
        self._in_head = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def send_400_response(self, msg: str) -> None:
        """What is no request is refused in the envelope, too; uvicorn, which calls this, has plain text for it."""
        del msg
        if len(self.url or b"") > MOST_PATH_BYTES + MOST_QUERY_BYTES:  # so long that it was not even parsed
            self._refuse(ApiError(ErrorCode.PAYLOAD_TOO_LARGE, "the address is too long"))
        else:
            self._refuse(ApiError(ErrorCode.VALIDATION_ERROR, "that is not a request of HTTP/1.1"))

    def _refuse(self, error: ApiError) -> None:
        self._end_head()
        if not self.transport.is_closing():
            self.transport.write(copy_context().run(_raw_answer, error))
            self.transport.close()


def _raw_answer(error: ApiError) -> bytes:
    """As it goes over the wire, in a context of its own: no request was read whose id it could have."""
    shown_id = str(uuid.uuid4())
    serve_request(shown_id)
    answer = error.answer()
    headers = [*answer.raw_headers, (REQUEST_ID_HEADER.lower().encode(), shown_id.encode()), (b"connection", b"close")]
    lines = [f"HTTP/1.1 {answer.status_code} {HTTPStatus(answer.status_code).phrase}".encode()]
    return b"\r\n".join([*lines, *(name + b": " + value for name, value in headers), b"", bytes(answer.body)])

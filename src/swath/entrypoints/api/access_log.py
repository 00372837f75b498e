"""Counts, logs and traces each request (O1, O2).

It runs around the routes, because only they know the route template. Nothing that a caller wrote is logged.
"""

from __future__ import annotations

import asyncio
import logging
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from starlette.requests import ClientDisconnect

from swath.observability.counters import FIGURES
from swath.observability.task_context import current_task_context, request_span

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["AccessLog", "log_response"]

NO_ROUTE: Final = "none"  # of addresses that do not exist there is no end
CLIENT_CLOSED_REQUEST: Final = 499  # as many servers note it: the caller did not wait for an answer
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PATCH", "PUT", "DELETE", "OPTIONS"})
_PROBES: Final = frozenset({"/health", "/readiness", "/metrics"})  # asked all day long by programs

_log = logging.getLogger("swath.requests")


class AccessLog:
    """Pure ASGI, so that streams pass it untouched. A stream counts when it is over."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        request_id = current_task_context().request_id
        if scope["type"] != "http" or request_id is None:
            await self._app(scope, receive, send)
            return
        status: int | None = None
        streams, began_at = False, time.monotonic()

        async def watched(message: Message) -> None:
            nonlocal status, streams
            if message["type"] == "http.response.start":
                status, streams = message["status"], _is_stream(message)
            await send(message)

        try:
            with request_span("request", request_id, method=scope["method"]):
                await self._app(scope, receive, watched)
        except ClientDisconnect:
            status = CLIENT_CLOSED_REQUEST
            raise
        except asyncio.CancelledError:  # it is broken off, and listen.py answers
            status = status or HTTPStatus.SERVICE_UNAVAILABLE.value
            raise
        finally:
            log_response(scope, status or 500, time.monotonic() - began_at, streams=streams)


def log_response(scope: Scope, status: int, seconds: float, *, streams: bool = False) -> None:
    """One request more, among the figures and in the log. Nothing that a caller has written gets there: no path, no
    query, and no method that is none."""
    method = scope["method"] if scope["method"] in _METHODS else NO_ROUTE
    route = getattr(scope.get("route"), "path", NO_ROUTE)
    FIGURES.answered(method, route, status, None if streams else seconds)
    level = _level(route, status)
    if _log.isEnabledFor(level):
        caller = scope.get("state", {}).get("caller")
        told = {
            "method": method,
            "route": route,
            "status": status,
            "duration_ms": round(seconds * 1_000, 1),
            "key_id": getattr(caller, "key_id", None),
        }
        _log.log(level, "request answered", extra=told)


def _level(route: str, status: int) -> int:
    """A 500 is a bug of ours; those above it send the caller away for a while."""
    if status == 500:
        return logging.ERROR
    if route in _PROBES:
        return logging.DEBUG
    return logging.WARNING if status > 500 else logging.INFO


def _is_stream(start: Message) -> bool:
    return any(
        name == b"content-type" and value.startswith(b"text/event-stream") for name, value in start.get("headers", ())
    )

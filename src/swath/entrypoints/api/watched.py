"""Watched: counts and traces what the API is asked (O2). Inside edge.py, which has given the request its id; around the
routes, since only they know which of them it was.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from swath.observe.context import serving
from swath.observe.figures import FIGURES
from swath.observe.spans import request_span

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["Watched"]

_NO_ROUTE: Final = "none"  # of addresses that do not exist there is no end
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PATCH", "PUT", "DELETE", "OPTIONS"})


class Watched:
    """Pure ASGI, so that streams pass it untouched. A stream counts when it is over."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        request_id = serving().request_id
        if scope["type"] != "http" or request_id is None:
            await self._app(scope, receive, send)
            return
        status, began_at = 500, time.monotonic()

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        method = scope["method"]
        try:
            with request_span("request", request_id, method=method):
                await self._app(scope, receive, watched)
        finally:
            route = getattr(scope.get("route"), "path", _NO_ROUTE)
            FIGURES.answered(method if method in _METHODS else _NO_ROUTE, route, status, time.monotonic() - began_at)

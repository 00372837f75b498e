"""Document: one answer that the main frame of a page asked for, from the gate to the day it has loaded.

documents.py keeps them; dom.py makes pages of what stands in the browser and of what is known here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from swath.web.charset import content_type_of
from swath.web.redirects import is_redirect
from swath.web.transport import Headers, Request, Response

__all__ = ["Document", "FileWanted", "is_file", "request_in", "response_in"]

_SHOWN: Final = ("html", "xml", "json", "text/", "image/svg")
_EMPTY: Final = frozenset({204, 205, 304})


class Document:
    """`request` is as the gate let it out; `response` has no body. `left`: the gate knows that it is over.

    `is_empty`: it had no body, and what is shown in its place is not the site's. `judged`: it was looked at. `parsed`:
    all of it has come, though pictures and the like may still be on their way; `loaded`: those too."""

    __slots__ = ("is_empty", "judged", "left", "loaded", "loader_id", "parsed", "request", "response")

    def __init__(self, loader_id: str, request: Request) -> None:
        self.loader_id = loader_id
        self.request = request
        self.response: Response | None = None
        self.is_empty = False
        self.judged = False
        self.left = False
        self.parsed = False
        self.loaded = False


class FileWanted:
    """Somebody waits for a file: whatever document is asked for next is taken for it, and not shown."""

    __slots__ = ("came", "largest_bytes")

    def __init__(self, largest_bytes: int) -> None:
        self.largest_bytes = largest_bytes
        self.came: asyncio.Future[tuple[Request, Response]] = asyncio.get_running_loop().create_future()


def request_in(event: Mapping[str, Any], url: str) -> Request:
    """What Chromium is about to ask for. Cookies are Chromium's own, and not told here."""
    told = event["request"]
    return Request(url=url, method=told["method"], headers=tuple(told["headers"].items()))


def response_in(event: Mapping[str, Any], url: str) -> Response:
    """What came, without the body."""
    headers: Sequence[Mapping[str, str]] = event.get("responseHeaders") or ()
    told: Headers = tuple((header["name"].lower(), header["value"]) for header in headers)
    return Response(url=url, status=event["responseStatusCode"], headers=told)


def is_file(response: Response, *, asked_as_file: bool) -> bool:
    """Whether Chromium would save the answer, or show it in a viewer of its own, or do nothing at all with it."""
    if asked_as_file or response.status in _EMPTY:
        return not is_redirect(response.status, response.headers)
    if (response.header("content-disposition") or "").strip().lower().startswith("attachment"):
        return True
    kind = content_type_of(response.header("content-type"))
    return not any(shown in kind for shown in _SHOWN)

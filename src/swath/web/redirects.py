"""Where an answer sends us next, by the rules of the Fetch standard. Pure; the session walks the hops."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

import msgspec

from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.web.address import canonical, origin_of, resolve, shown
from swath.web.transport import Headers, Request, Response

__all__ = ["MOST_REDIRECTS", "is_redirect", "next_request"]

MOST_REDIRECTS: Final = 10
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_OF_THE_BODY: Final = frozenset({"content-type", "content-encoding", "content-language", "content-length", "origin"})
_PRIVATE: Final = frozenset({"authorization", "cookie", "proxy-authorization"})


def is_redirect(status: int, headers: Headers) -> bool:
    """Whether an answer sends us on; its body is then nobody's page."""
    return status in _REDIRECTS and any(name == "location" for name, _ in headers)


def next_request(request: Request, response: Response) -> Request | None:
    """The request for the next hop; None when the answer is no redirect. Raises Failed navigation for a bad target."""
    location = response.header("location") if response.status in _REDIRECTS else None
    if location is None:
        return None
    try:
        # A header is bytes: what is not ASCII goes on as the very bytes that came.
        url = resolve(location if location.isascii() else quote(location.encode("latin-1"), safe=_SAFE), request.url)
    except Failed:
        message = f"{shown(request.url)} redirects to {shown(location)[:100]!r}"
        raise Failed(Failure.of(FailureKind.NAVIGATION, message)) from None
    method, body, dropped = request.method, request.body, frozenset[str]()
    if (response.status in {301, 302} and method == "POST") or (
        response.status == 303 and method not in {"GET", "HEAD"}
    ):
        method, body, dropped = "GET", b"", _OF_THE_BODY
    if origin_of(url) != origin_of(canonical(request.url)):
        dropped |= _PRIVATE
    headers = tuple((name, value) for name, value in request.headers if name.lower() not in dropped)
    return msgspec.structs.replace(request, url=url, method=method, body=body, headers=headers)


_SAFE: Final = "!#$%&'()*+,/:;=?@[]~ "

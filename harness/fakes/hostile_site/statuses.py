"""Answers that are well formed and mean trouble: odd statuses, waits of a thousand years, a refusal called success."""

from __future__ import annotations

from typing import Final

from harness.fakes.hostile_site.behaviour import Behaviour, Respond, always, head, html, whole
from swath.domain.failure import FailureKind

__all__ = ["STATUSES"]

_K = FailureKind
_BLOCK_PAGE: Final = (
    b"<!doctype html><html><head><title>Access Denied</title></head><body><h1>Access Denied</h1>"
    b"<p>You don't have permission to access this page on this server.</p>"
    b"<p>Your request has been blocked. Reference #18.2d351ab8.1557333295.a4e16ab</p></body></html>"
)


def _status(status: bytes, *fields: bytes) -> Respond:
    return always(whole(html("status"), *fields, status=status))


def _slow_down(after: bytes) -> Respond:
    return _status(b"429 Too Many Requests", b"Retry-After: " + after)


STATUSES: Final = (
    Behaviour("status-999", "answers 999", (_K.BLOCKED,), _status(b"999 Request denied")),
    Behaviour("status-299", "answers 299", (), _status(b"299 Odd")),
    Behaviour("status-600", "answers 600", (_K.HTTP_ERROR,), _status(b"600 Odd")),
    Behaviour(
        "interim-flood",
        "sends 1,000 interim answers before the page",
        (),
        always(head(status=b"103 Early Hints") * 1000, whole(html("status"))),
    ),
    Behaviour(
        "switch",
        "switches to a protocol that nobody asked for",
        (_K.HTTP_ERROR, _K.SERVER_ERROR),
        always(
            head(b"Upgrade: websocket", b"Connection: Upgrade", status=b"101 Switching Protocols"), b"\x81\x05hello"
        ),
    ),
    Behaviour(
        "basic-prompt",
        "asks for a password",
        (_K.CREDENTIAL,),
        _status(b"401 Unauthorized", b'WWW-Authenticate: Basic realm="\xff"'),
    ),
    Behaviour(
        "not-modified",
        "answers 304 to somebody who has nothing",
        (_K.HTTP_ERROR,),
        always(head(b"Connection: close", status=b"304 Not Modified")),
    ),
    Behaviour(
        "no-content",
        "answers 204 with a body",
        (),
        always(head(b"Content-Length: 10", b"Connection: close", status=b"204 No Content"), b"unexpected"),
    ),
    Behaviour("retry-after-ages", "asks for a wait of 10^12 seconds", (_K.RATE_LIMITED,), _slow_down(b"1000000000000")),
    Behaviour(
        "retry-after-past",
        "asks for a wait until 1994",
        (_K.RATE_LIMITED,),
        _slow_down(b"Sun, 06 Nov 1994 08:49:37 GMT"),
    ),
    Behaviour(
        "retry-after-odd",
        "asks for a wait until a day that is none",
        (_K.RATE_LIMITED,),
        _slow_down(b"Mon, 99 Feb -1 25:61:61 +9999"),
    ),
    Behaviour("retry-after-text", "asks for a wait of `\\xb2` seconds", (_K.RATE_LIMITED,), _slow_down(b"\xb2")),
    Behaviour(
        "blocked-as-success",
        "answers 200 with a block page",
        (_K.BLOCKED,),
        always(whole(_BLOCK_PAGE, b"Content-Type: text/html")),
    ),
)

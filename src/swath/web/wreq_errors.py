"""What an error of the HTTP client means. wreq tells most of it in its text only, so the text is read here, once.

The texts are those of the pinned version; a test provokes the common ones and holds the rest to samples.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from swath.domain.failure import Failure, FailureKind
from swath.web.tls_problems import handshake_problem

__all__ = ["failure_of"]

_K = FailureKind
# The address stands in the text, and an address may contain any of the words below.
_ADDRESS: Final = re.compile(r"uri: \S+, ")
# An Os error of the same kind as that of a bad chunk is about our own socket; "Library" is what the client objected to.
_NO_HTTP: Final = (
    *("Error(Parse", "Http2", "InvalidData"),
    *("(Body, Custom { kind: InvalidInput", "FLOW_CONTROL_ERROR, Library"),
)


def failure_of(error: BaseException, where: str) -> Failure:
    """The failure that an exception of the client stands for; `where` is the address as people may see it."""
    text = _ADDRESS.sub("", str(error))
    for kind, words, told_by in _SIGNS:
        if told_by(type(error).__name__, text):
            return Failure.of(kind, f"{handshake_problem(text) if kind is _K.TLS else words} at {where}")
    return Failure.of(_K.INTERNAL, f"the HTTP client raised {type(error).__name__} at {where}: {text}")


def _is_tls(name: str, text: str) -> bool:
    return name == "TlsError" or "CERTIFICATE_VERIFY_FAILED" in text or "code: SSL" in text or "Ssl(" in text


def _has(*signs: str) -> Callable[[str, str], bool]:
    return lambda _, text: any(sign in text for sign in signs)


def _named(*names: str) -> Callable[[str, str], bool]:
    return lambda name, _: name in names


# In order: the first that fits counts. A handshake cut short ("SYSCALL") may be a plain reset, so it can be retried.
_SIGNS: Final[tuple[tuple[FailureKind, str, Callable[[str, str], bool]], ...]] = (
    (_K.PROXY, "the proxy failed", _named("ProxyConnectionError")),
    (_K.INTERNAL, "a name was looked up without the egress guard", _has("dns error")),
    (_K.TIMEOUT, "the time for connecting is over", _has("TimedOut", "deadline has elapsed")),
    (_K.TIMEOUT, "the time is over", _named("TimeoutError")),
    (_K.TOO_LARGE, "the head of the answer is too large", _has("TooLarge")),
    (_K.CONNECT, "the connection was refused", _has("ConnectionRefused")),
    (_K.CONNECT, "the handshake was cut short", _has("SYSCALL")),
    (_K.TLS, "no TLS connection could be made", _is_tls),
    (_K.CONNECT, "the connection was closed early", _has("IncompleteMessage", "IncompleteBody", "UnexpectedEof")),
    (_K.CONNECT, "the connection was reset", _has("ConnectionReset", "BrokenPipe", "Canceled", "ChannelClosed")),
    (_K.SERVER_ERROR, "the answer is no HTTP", _has(*_NO_HTTP)),
    (_K.INTERNAL, "the request cannot be sent", _named("BuilderError")),
    (_K.CONNECT, "the connection failed", _named("ConnectionError", "ConnectionResetError")),
    (_K.CONNECT, "the exchange failed", _named("RequestError", "BodyError", "DecodingError")),
)

"""Maps Chromium's network errors (`net::ERR_…`) to failure kinds. Pure.

The forward proxy often knows the cause better: behind it, all that Chromium sees is a proxy.
"""

from __future__ import annotations

import re
from typing import Final

from swath.domain.failure import Failure, FailureKind
from swath.fetch.url import redacted

__all__ = ["ABORTED", "IGNORED_ERRORS", "NO_BODY", "net_error_failure", "net_error_in"]

_K = FailureKind
_NAME: Final = re.compile(r"net::(ERR_[A-Z0-9_]+)")

ABORTED: Final = "ERR_ABORTED"
NO_BODY: Final = "ERR_HTTP_RESPONSE_CODE_FAILURE"  # an answer with a status and nothing else, which is judged by that
# A document that another took the place of, that became a file, or that we have stopped ourselves.
IGNORED_ERRORS: Final = frozenset({ABORTED, "ERR_BLOCKED_BY_CLIENT", NO_BODY})

_KINDS: Final = {
    "ERR_TIMED_OUT": _K.TIMEOUT,
    "ERR_CONNECTION_TIMED_OUT": _K.TIMEOUT,
    "ERR_NAME_NOT_RESOLVED": _K.DNS_UNKNOWN,
    "ERR_NAME_RESOLUTION_FAILED": _K.DNS_TEMPORARY,
    "ERR_DNS_TIMED_OUT": _K.DNS_TEMPORARY,
    "ERR_PROXY_CONNECTION_FAILED": _K.PROXY,
    "ERR_TUNNEL_CONNECTION_FAILED": _K.PROXY,
    "ERR_PROXY_AUTH_UNSUPPORTED": _K.PROXY,
    "ERR_PROXY_AUTH_REQUESTED": _K.PROXY,
    "ERR_INVALID_AUTH_CREDENTIALS": _K.CREDENTIAL,
    "ERR_UNSAFE_PORT": _K.EGRESS_DENIED,
    "ERR_ACCESS_DENIED": _K.EGRESS_DENIED,
    "ERR_NETWORK_ACCESS_DENIED": _K.EGRESS_DENIED,
    "ERR_BLOCKED_BY_LOCAL_NETWORK_ACCESS_CHECKS": _K.EGRESS_DENIED,
    "ERR_BLOCKED_BY_ADMINISTRATOR": _K.EGRESS_DENIED,
    "ERR_DISALLOWED_URL_SCHEME": _K.EGRESS_DENIED,
    "ERR_UNKNOWN_URL_SCHEME": _K.INVALID_INPUT,
    "ERR_INVALID_URL": _K.INVALID_INPUT,
    "ERR_TOO_MANY_REDIRECTS": _K.NAVIGATION,
    "ERR_INVALID_REDIRECT": _K.NAVIGATION,
    "ERR_UNSAFE_REDIRECT": _K.NAVIGATION,
    "ERR_BLOCKED_BY_RESPONSE": _K.NAVIGATION,
    "ERR_EMPTY_RESPONSE": _K.SERVER_ERROR,
    "ERR_INVALID_RESPONSE": _K.SERVER_ERROR,
    "ERR_INVALID_HTTP_RESPONSE": _K.SERVER_ERROR,
    "ERR_INVALID_CHUNKED_ENCODING": _K.SERVER_ERROR,
    "ERR_INCOMPLETE_CHUNKED_ENCODING": _K.SERVER_ERROR,
    "ERR_CONTENT_LENGTH_MISMATCH": _K.SERVER_ERROR,
    "ERR_CONTENT_DECODING_FAILED": _K.SERVER_ERROR,
    "ERR_CONTENT_DECODING_INIT_FAILED": _K.SERVER_ERROR,
    "ERR_HTTP2_PROTOCOL_ERROR": _K.SERVER_ERROR,
    "ERR_HTTP2_SERVER_REFUSED_STREAM": _K.SERVER_ERROR,
    "ERR_QUIC_PROTOCOL_ERROR": _K.SERVER_ERROR,
    "ERR_RESPONSE_HEADERS_TOO_BIG": _K.TOO_LARGE,
    "ERR_OUT_OF_MEMORY": _K.BROWSER_CRASH,
    "ERR_INSUFFICIENT_RESOURCES": _K.BROWSER_CRASH,
}
_KINDS_BY_PREFIX: Final = (
    ("ERR_CERT_", _K.TLS),
    ("ERR_SSL_", _K.TLS),
    ("ERR_BAD_SSL_", _K.TLS),
    ("ERR_CONNECTION_", _K.CONNECT),
    ("ERR_ADDRESS_", _K.CONNECT),
    ("ERR_SOCKET_", _K.CONNECT),
    ("ERR_NETWORK_", _K.CONNECT),
    ("ERR_INTERNET_", _K.CONNECT),
    ("ERR_PROXY_", _K.PROXY),
    ("ERR_SOCKS_", _K.PROXY),
    ("ERR_DNS_", _K.DNS_TEMPORARY),
)


def net_error_in(message: str) -> str | None:
    """The name that stands in what the driver says."""
    found = _NAME.search(message)
    return None if found is None else found[1]


def net_error_failure(name: str, url: str) -> Failure:
    """What the table says; of a name that it does not have, that the page was not reached."""
    kind = _KINDS.get(name) or next((kind for start, kind in _KINDS_BY_PREFIX if name.startswith(start)), _K.NAVIGATION)
    return Failure.of(kind, f"{redacted(url)} cannot be reached: {name}")

"""Relayed: whether a request may have come through something on this machine that passes on what others send (I5).

Before: gate.py, while there are no service keys, when everybody at this machine may do everything. A proxy here sits at
this machine too, and those behind it do not. One that adds nothing and keeps nothing cannot be told from a program.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from swath.entrypoints.api.doorkeeper import is_loopback

if TYPE_CHECKING:
    from fastapi import Request

    from swath.settings import Settings

__all__ = ["sign_of_a_relay"]

# What proxies, load balancers and content networks put on what they pass on. What programs send by themselves, such as
# X-Request-ID, traceparent and X-Amzn-Trace-Id, says nothing: whatever adds the last one adds X-Forwarded-For as well.
_ADDED: Final = frozenset(
    {
        "forwarded",
        "via",
        "x-real-ip",
        "x-client-ip",
        "x-cluster-client-ip",
        "x-original-forwarded-for",
        "x-original-host",
        "x-original-url",
        "x-envoy-external-address",
        "x-azure-clientip",
        "x-azure-fdid",
        "x-proxyuser-ip",
        "x-appengine-user-ip",
        "client-ip",
        "true-client-ip",
        "fastly-client-ip",
        "fly-client-ip",
        "cdn-loop",
        "x-amz-cf-id",
    }
)
_ADDED_PREFIXES: Final = ("x-forwarded", "cf-", "tailscale-")


def sign_of_a_relay(request: Request, settings: Settings) -> str | None:
    """What speaks for it, in words for people; None when nothing does."""
    if settings.allowed_hosts:
        return "SWATH_ALLOWED_HOSTS is set"
    added = next(_added(request.headers.keys()), None)
    if added is not None:
        return f"it has the header {added}"
    host = _name(request.headers.get("host", ""))
    if not (is_loopback(host) or host.endswith(".localhost")):
        return "its Host is not this machine"
    if request.scope.get("http_version") == "1.0":  # as nginx sends it, if nobody says otherwise
        return "it came as HTTP/1.0"
    return None


def _added(names: Iterable[str]) -> Iterator[str]:
    for name in names:
        if name in _ADDED or name.startswith(_ADDED_PREFIXES):
            yield name.title()


def _name(host: str) -> str:
    try:
        return (urlsplit(f"//{host.lower()}").hostname or "").rstrip(".")
    except ValueError:
        return ""

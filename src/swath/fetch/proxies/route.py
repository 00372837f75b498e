"""Route: one connection path through a proxy, ready to be dialled, with the meter of its traffic."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import msgspec

from swath.domain.failure import Failure
from swath.domain.proxy_products import ProxyType
from swath.domain.secret import Secret

__all__ = ["ReadRefusal", "Route", "RouteMeter"]


class ReadRefusal(Protocol):
    """How a provider says no."""

    def __call__(
        self, status: int, headers: tuple[tuple[str, str], ...], *, tunnel: bool, body: bytes | None = None
    ) -> Failure | None:
        """The failure that an answer stands for if it is the provider's own and not the site's; None for the site's.

        `tunnel`: it answered our CONNECT. Header names are lower-case. Without a `body` none was to come.
        """
        ...


class RouteMeter(msgspec.Struct):
    """What went over a route, in bytes as the provider counts them; the transport adds to it."""

    sent_bytes: int = 0
    received_bytes: int = 0
    requests: int = 0

    @property
    def bytes(self) -> int:
        """Both ways."""
        return self.sent_bytes + self.received_bytes


class Route(msgspec.Struct, frozen=True, kw_only=True, eq=False, weakref=True):
    """`name` is what people may see: neither user nor password. `ca_file` holds what the provider signs with.

    One is made for each attempt and site, and kept while the attempt lasts: it is one identity, with connections and a
    meter of its own. `opens_tls`: the provider decrypts what goes through, so an answer may be its own.
    """

    tier: ProxyType
    name: str
    scheme: str
    host: str
    port: int
    username: Secret | None = None
    password: Secret | None = None
    ca_file: Path | None = None
    opens_tls: bool = False
    meter: RouteMeter = msgspec.field(default_factory=RouteMeter)
    read_refusal: ReadRefusal

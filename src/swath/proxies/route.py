"""Route: one way out through a proxy, ready to be dialled. Chosen by proxies/, used by the transport."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import msgspec

from swath.domain.failure import Failure
from swath.domain.policy import ProxyType
from swath.domain.secret import Secret

__all__ = ["ReadRefusal", "Route"]


class ReadRefusal(Protocol):
    """How a provider says no."""

    def __call__(self, status: int, headers: tuple[tuple[str, str], ...], *, tunnel: bool) -> Failure | None:
        """The failure that an answer stands for if it is the provider's own and not the site's; None for the site's.

        `tunnel`: it answered our CONNECT. Header names are lower-case.
        """
        ...


class Route(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """`name` is what people may see: neither user nor password. `ca_file` holds what the provider signs with."""

    tier: ProxyType
    name: str
    scheme: str
    host: str
    port: int
    username: Secret | None = None
    password: Secret | None = None
    ca_file: Path | None = None
    read_refusal: ReadRefusal

"""Address: where a controller is, and whether a key may be sent there. Before: the settings. After: wire.py dials."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import quote, urlsplit

import msgspec

from swath.domain.errors import BadInput
from swath.domain.secret import Secret

__all__ = ["Address", "check_key_is_safe", "is_this_machine"]


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """A controller's URL, taken apart. `prefix` is what stands before every path, behind a proxy that shares a host."""

    url: str
    host: str
    port: int
    tls: bool
    prefix: str
    netloc: str

    @classmethod
    def of(cls, url: str) -> Address:
        """Raises BadInput."""
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise BadInput(f"--server {url}: is not the address of a controller; write http://host:8000") from None
        plain = url.isascii() and url.isprintable() and not parts.query and not parts.fragment
        if parts.scheme not in ("http", "https") or parts.hostname is None or not plain:
            raise BadInput(f"--server {url}: is not the address of a controller; write http://host:8000")
        tls = parts.scheme == "https"
        return cls(
            url=url.rstrip("/"),
            host=parts.hostname,
            port=port or (443 if tls else 80),
            tls=tls,
            prefix=parts.path.rstrip("/"),
            netloc=parts.netloc,
        )

    def path(self, *segments: str) -> str:
        """The path of something there; a segment may hold any text."""
        return self.prefix + "".join(f"/{quote(segment, safe='')}" for segment in segments)


def is_this_machine(host: str) -> bool:
    """Whether what is sent there never leaves this machine."""
    try:
        found = ip_address(host.partition("%")[0])
    except ValueError:
        return host.lower().rstrip(".") == "localhost"
    return (getattr(found, "ipv4_mapped", None) or found).is_loopback


def check_key_is_safe(address: Address, key: Secret | None) -> None:
    """Whoever listens in on the way would have the key. Raises BadInput."""
    if key is not None and not key.reveal().isascii():
        raise BadInput("SWATH_SERVICE_KEY is no service key: it has letters that none has")
    if key is not None and not address.tls and not is_this_machine(address.host):
        raise BadInput(
            f"{address.url} is not encrypted, and everybody on the way could read the service key; use https://, or a "
            "tunnel (ssh -L), or give --insecure if the way there is safe"
        )

"""The egress guard: parses a URL, resolves it, checks every address, and returns the addresses that may be dialled.

Asked before every connection that a job can cause: pages, each redirect, robots.txt, proxies, webhooks.
"""

from __future__ import annotations

import socket
from collections import OrderedDict
from collections.abc import Collection, Container
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

import msgspec

from swath.domain.errors import BadInput, Failed
from swath.domain.failure import Failure, FailureKind
from swath.fetch.egress.resolver import DnsAnswer, IPAddress, Resolver, non_public_reason
from swath.fetch.url import canonical, origin_of
from swath.ports.clock import Clock

__all__ = ["EgressGuard", "EgressTarget"]

_FOREVER: Final = float("inf")
_UNRESOLVED_SECONDS: Final = 60.0
_MOST_KEPT: Final = 4_096
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
# Ports of other services, to which a request could be made to look like a command: those that browsers refuse, and the
# stores that are commonly open.
_SERVICE_PORTS: Final = frozenset(
    {
        *(1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697),
        *(10080, 2375, 2376, 3306, 5432, 6379, 9042, 11211, 27017),
    }
)
# What stands for something near whoever looks it up (RFC 6761, 6762, 8375, and what routers and clouds hand out).
_LOCAL: Final = (
    *(".localhost", ".local", ".localdomain", ".internal", ".home.arpa", ".lan"),
    *(".intranet", ".private", ".corp", ".home"),
)


class EgressTarget(msgspec.Struct, frozen=True):
    """Where to connect to. `addresses` are checked, best first, and the only ones to dial.

    None are known of a name that only the proxy can resolve.
    """

    scheme: str
    host: str
    port: int
    addresses: tuple[IPAddress, ...]


class EgressGuard:
    """Shared by everything in a process that connects.

    `allow_private`: exact `host:port` pairs, as they stand in addresses, which may be private or on another port than
    the usual. `own_ports`: where this system listens itself; never reached on this machine, allowed or not. They may
    come and go, so they are asked for with every request.
    """

    def __init__(
        self,
        resolver: Resolver,
        clock: Clock,
        *,
        allow_private: Collection[str] = (),
        own_ports: Container[int] = (),
    ) -> None:
        self._resolver = resolver
        self._clock = clock
        self._allowed = frozenset(_host_and_port(entry) for entry in allow_private)
        self._own_ports = own_ports
        self._direct: OrderedDict[str, tuple[EgressTarget, float]] = OrderedDict()
        self._proxied: OrderedDict[str, tuple[EgressTarget, float]] = OrderedDict()

    async def check(self, url: str) -> EgressTarget:
        """Where an address leads. Raises Failed: invalid_input, dns_unknown, dns_temporary, or egress_denied."""
        return await self.check_origin(origin_of(canonical(url)))

    def checked_before(self, origin: str) -> EgressTarget | None:
        """What `check_origin` found lately, if it did: it need not be waited for."""
        kept = self._direct.get(origin)
        if kept is None or kept[1] <= self._clock.boot() or kept[0].port in self._own_ports:
            return None
        return kept[0]

    async def check_origin(self, origin: str) -> EgressTarget:
        """The same for scheme, host and port of an address that is canonical already."""
        known = self.checked_before(origin)
        if known is not None:
            return known
        scheme, host, port = _parts(origin)
        target, good_until = await self._checked(scheme, host, port)
        _remember(self._direct, origin, target, good_until)
        return target

    async def check_proxied(self, url: str) -> EgressTarget:
        """The same for a request that a proxy makes for us: it resolves names, so those that we cannot pass.

        Also those that nobody can tell of now: behind a proxy there may be no resolver at all. What a name stands for
        on the proxy's side we cannot know, so names that are local everywhere are refused, whatever they are here.
        """
        origin = origin_of(canonical(url))
        kept = self._proxied.get(origin)
        if kept is not None and kept[1] > self._clock.boot() and kept[0].port not in self._own_ports:
            return kept[0]
        scheme, host, port = _parts(origin)
        if _is_local(host) and (host, port) not in self._allowed:
            raise _denied(host, port)
        try:
            target, good_until = await self._checked(scheme, host, port)
        except Failed as failed:
            if failed.failure.kind not in {FailureKind.DNS_UNKNOWN, FailureKind.DNS_TEMPORARY}:
                raise
            target, good_until = EgressTarget(scheme, host, port, ()), self._clock.boot() + _UNRESOLVED_SECONDS
        _remember(self._proxied, origin, target, good_until)
        return target

    async def check_proxy(self, host: str, port: int) -> EgressTarget:
        """Where a proxy itself is. Raises Failed as `check`."""
        written = f"[{host}]" if ":" in host and not host.startswith("[") else host
        return await self.check(f"http://{written}:{port}/")

    async def _checked(self, scheme: str, host: str, port: int) -> tuple[EgressTarget, float]:
        allowed = (host, port) in self._allowed
        if not allowed and not _is_usual(port):
            raise _denied(host, port)
        literal = _literal(host)
        answer = await self._resolver.look_up(host) if literal is None else DnsAnswer((literal,), _FOREVER)
        # One bad address refuses them all: which of them is dialled is not for a stranger's name server to choose.
        if not allowed and any(non_public_reason(address) for address in answer.addresses):
            raise _denied(host, port)
        if port in self._own_ports and any(_is_ours(address) for address in answer.addresses):
            raise _denied(host, port)
        return EgressTarget(scheme, host, port, answer.addresses), answer.good_until


def _is_usual(port: int) -> bool:
    return port in {80, 443} or (port >= 1_024 and port not in _SERVICE_PORTS)


def _is_local(host: str) -> bool:
    """Whether a name means something of the network that it is asked in; a single label always does."""
    return _literal(host) is None and ("." not in host or host.endswith(_LOCAL))


def _is_ours(address: IPAddress) -> bool:
    """Whether this machine answers there: a socket can be bound to an address of its own only. Nothing is sent."""
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if address.is_loopback or address.is_unspecified:
        return True
    family = socket.AF_INET if isinstance(address, IPv4Address) else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((str(address), 0))
    except OSError:
        return False
    return True


def _host_and_port(entry: str) -> tuple[str, int]:
    """An entry of the allow list in canonical spelling. Raises BadInput."""
    try:
        origin = origin_of(canonical(f"http://{entry}/"))
    except Failed:
        origin = ""
    written = entry.rpartition(":")[2]
    if not origin or not written.isdigit() or "/" in entry:
        raise BadInput(f"{entry!r} is no host and port; write it like localhost:3000 or [::1]:3000")
    _, host, _ = _parts(origin)
    return host, int(written)


def _parts(origin: str) -> tuple[str, str, int]:
    scheme, _, authority = origin.partition("://")
    host, colon, port = authority.rpartition(":")
    if not colon or port.endswith("]"):
        return scheme, authority, _DEFAULT_PORTS[scheme]
    return scheme, host, int(port)


def _literal(host: str) -> IPAddress | None:
    """The address that a canonical host is; all spellings of IPv4 are dotted by now."""
    try:
        return ip_address(host.strip("[]"))
    except ValueError:
        return None


def _remember(
    kept: OrderedDict[str, tuple[EgressTarget, float]], origin: str, target: EgressTarget, good_until: float
) -> None:
    kept[origin] = (target, good_until)
    kept.move_to_end(origin)
    if len(kept) > _MOST_KEPT:
        kept.popitem(last=False)


def _denied(host: str, port: int) -> Failed:
    """Says neither which rule it was nor what the name stands for here: a page must not map our network with us."""
    return Failed(Failure.of(FailureKind.EGRESS_DENIED, f"{host}:{port} is not to be reached from here"))

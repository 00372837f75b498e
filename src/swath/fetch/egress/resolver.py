"""Resolves host names through the system's resolver, with a cache, and says which IP addresses are public.

Python's `is_global` lets multicast, site-local, NAT64, 6to4 and IPv4-compatible addresses through, so the ranges are
listed here.
"""

from __future__ import annotations

import asyncio
import socket
from collections import OrderedDict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final, Protocol

import msgspec

from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.ports.clock import Clock

__all__ = ["DnsAnswer", "IPAddress", "Resolver", "SystemResolver", "non_public_reason", "same_addresses"]

IPAddress = IPv4Address | IPv6Address

_V4: Final = tuple(
    (IPv4Network(network), what)
    for network, what in (
        ("0.0.0.0/8", "unspecified"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "carrier-grade NAT"),
        ("127.0.0.0/8", "loopback"),
        ("168.63.129.16/32", "cloud platform"),  # looks public; on Azure it is the host of the virtual machine
        ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "protocol assignments"),
        ("192.0.2.0/24", "documentation"),
        ("192.88.99.0/24", "6to4 relay"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "benchmark"),
        ("198.51.100.0/24", "documentation"),
        ("203.0.113.0/24", "documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
    )
)
# Only named so that the reason is a good one: whatever lies outside of global unicast is refused anyway.
_V6: Final = tuple(
    (IPv6Network(network), what)
    for network, what in (
        ("::/128", "unspecified"),
        ("::1/128", "loopback"),
        ("::/96", "IPv4-compatible"),
        ("64:ff9b:1::/48", "local NAT64"),
        ("100::/64", "discard"),
        ("fc00::/7", "private"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "site-local"),
        ("ff00::/8", "multicast"),
        ("2001::/32", "Teredo"),
        ("2001::/23", "protocol assignments"),
        ("2001:db8::/32", "documentation"),
        ("2002::/16", "6to4"),
        ("3fff::/20", "documentation"),
    )
)
_GLOBAL_UNICAST: Final = IPv6Network("2000::/3")
_NAT64: Final = IPv6Network("64:ff9b::/96")


def non_public_reason(address: IPAddress) -> str | None:
    """Why an address is not to be reached; None when it is a public one.

    An address that carries an IPv4 one is that one (mapped, or by NAT64, as networks without IPv4 write all of them).
    Tunnels (6to4, Teredo) and the forms that end inside a network are refused whatever they carry: no site is there.
    """
    if isinstance(address, IPv6Address):
        carried = address.ipv4_mapped
        if carried is None and address in _NAT64:
            carried = IPv4Address(int(address) & 0xFFFF_FFFF)
        if carried is None:
            return _first(address, _V6) or (None if address in _GLOBAL_UNICAST else "reserved")
        address = carried
    return _first(address, _V4)


def _first(address: IPAddress, refused: Iterable[tuple[IPv4Network | IPv6Network, str]]) -> str | None:
    return next((what for network, what in refused if address in network), None)


def same_addresses(known: tuple[IPAddress, ...], checked: tuple[IPAddress, ...]) -> bool:
    """In any order: name servers shuffle them."""
    return known is checked or set(known) == set(checked)


_GOOD_SECONDS: Final = 60.0
_BAD_SECONDS: Final = 5.0
_MOST_AT_ONCE: Final = 16  # each holds a thread; more of them only make a resolver in trouble slower
_MOST_KEPT: Final = 4_096
_TIMEOUT_SECONDS: Final = 10.0
_UNKNOWN: Final = frozenset(
    code for name in ("EAI_NONAME", "EAI_NODATA", "EAI_ADDRFAMILY") if (code := getattr(socket, name, None)) is not None
)


class DnsAnswer(msgspec.Struct, frozen=True):
    """The addresses of a name, best first, and until when they may be used, on the boot clock."""

    addresses: tuple[IPAddress, ...]
    good_until: float = 0.0


class Resolver(Protocol):
    """Looks names up."""

    async def look_up(self, host: str) -> DnsAnswer:
        """Raises Failed: dns_unknown when there is no such name, dns_temporary when nobody can tell now."""
        ...


class _CachedAnswer(msgspec.Struct, frozen=True):
    good_until: float
    answer: DnsAnswer | Failure


class SystemResolver:
    """Implements Resolver on getaddrinfo. One question per name at a time, whoever asks; answers are kept a while."""

    def __init__(self, clock: Clock, timeout_seconds: float = _TIMEOUT_SECONDS) -> None:
        self._clock = clock
        self._timeout_seconds = timeout_seconds
        self._kept: OrderedDict[str, _CachedAnswer] = OrderedDict()
        self._under_way: dict[str, asyncio.Task[_CachedAnswer]] = {}
        # Threads of its own: a name server that hangs must not hold up what else the process does in threads.
        self._threads = ThreadPoolExecutor(_MOST_AT_ONCE, thread_name_prefix="swath-dns")

    async def look_up(self, host: str) -> DnsAnswer:
        """See Resolver."""
        kept = self._kept.get(host)
        if kept is None or kept.good_until <= self._clock.boot():
            task = self._under_way.get(host)
            if task is None:
                task = self._under_way[host] = asyncio.create_task(self._ask(host))
            kept = await asyncio.shield(task)  # one who stops waiting does not stop it for the others
        if isinstance(kept.answer, Failure):
            raise Failed(kept.answer)
        return kept.answer

    async def _ask(self, host: str) -> _CachedAnswer:
        try:
            found = await self._found(host)
            seconds = _BAD_SECONDS if isinstance(found, Failure) else _GOOD_SECONDS
            good_until = self._clock.boot() + seconds
            kept = _CachedAnswer(good_until, found if isinstance(found, Failure) else DnsAnswer(found, good_until))
            self._kept[host] = kept
            self._kept.move_to_end(host)
            while len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
            return kept
        finally:
            del self._under_way[host]

    async def _found(self, host: str) -> tuple[IPAddress, ...] | Failure:
        ask = partial(socket.getaddrinfo, host.encode("ascii"), None, type=socket.SOCK_STREAM)
        try:
            async with asyncio.timeout(self._timeout_seconds):
                infos = await asyncio.get_running_loop().run_in_executor(self._threads, ask)
        except socket.gaierror as error:
            if error.errno in _UNKNOWN:
                return Failure.of(FailureKind.DNS_UNKNOWN, f"there is no such name as {host}")
            return Failure.of(FailureKind.DNS_TEMPORARY, f"{host} could not be looked up: {error.strerror}")
        except (OSError, RuntimeError, ValueError) as error:  # time over, no thread to be had, a name that is none
            return Failure.of(FailureKind.DNS_TEMPORARY, f"{host} could not be looked up: {type(error).__name__}")
        addresses = tuple(dict.fromkeys(ip_address(str(info[4][0]).partition("%")[0]) for info in infos))
        if not addresses:
            return Failure.of(FailureKind.DNS_UNKNOWN, f"{host} has no address")
        return addresses

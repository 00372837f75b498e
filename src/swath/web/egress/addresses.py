"""Which IP addresses are out there in the world, and which are not to be reached from here. Pure.

Asked by the guard for every address that a name or a literal stands for. Python's `is_global` lets multicast,
site-local, NAT64, 6to4 and IPv4-compatible forms through, so the lists are spelt out, from IANA's special registries.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Final

__all__ = ["IPAddress", "refusal", "same_places"]

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


def refusal(address: IPAddress) -> str | None:
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


def same_places(known: tuple[IPAddress, ...], checked: tuple[IPAddress, ...]) -> bool:
    """In any order: name servers shuffle them."""
    return known is checked or set(known) == set(checked)

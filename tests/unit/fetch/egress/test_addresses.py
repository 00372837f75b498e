from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swath.fetch.egress.resolver import non_public_reason

pytestmark = pytest.mark.req("Z4")


@pytest.mark.parametrize(
    ("address", "what"),
    [
        ("0.0.0.0", "unspecified"),
        ("0.1.2.3", "unspecified"),
        ("10.0.0.1", "private"),
        ("100.64.0.1", "carrier-grade NAT"),
        ("100.100.100.200", "carrier-grade NAT"),
        ("127.0.0.1", "loopback"),
        ("127.255.255.254", "loopback"),
        ("168.63.129.16", "cloud platform"),
        ("169.254.169.254", "link-local"),
        ("172.16.0.1", "private"),
        ("172.31.255.255", "private"),
        ("192.0.0.192", "protocol assignments"),
        ("192.0.2.1", "documentation"),
        ("192.88.99.1", "6to4 relay"),
        ("192.168.1.1", "private"),
        ("198.18.0.1", "benchmark"),
        ("198.19.255.255", "benchmark"),
        ("198.51.100.1", "documentation"),
        ("203.0.113.1", "documentation"),
        ("224.0.0.1", "multicast"),
        ("239.255.255.250", "multicast"),
        ("240.0.0.1", "reserved"),
        ("255.255.255.255", "reserved"),
        ("::", "unspecified"),
        ("::1", "loopback"),
        ("::127.0.0.1", "IPv4-compatible"),
        ("::8.8.8.8", "IPv4-compatible"),
        ("::ffff:127.0.0.1", "loopback"),
        ("::ffff:169.254.169.254", "link-local"),
        ("::ffff:0:127.0.0.1", "reserved"),
        ("64:ff9b::127.0.0.1", "loopback"),
        ("64:ff9b::10.0.0.1", "private"),
        ("64:ff9b:1::8.8.8.8", "local NAT64"),
        ("64:ff9b:1:7f00:0:100::", "local NAT64"),
        ("100::1", "discard"),
        ("2001::1", "Teredo"),
        ("2001:0:4136:e378:8000:63bf:80ff:fffe", "Teredo"),
        ("2001:2::1", "protocol assignments"),
        ("2001:20::1", "protocol assignments"),
        ("2001:db8::1", "documentation"),
        ("2002:7f00:1::", "6to4"),
        ("2002:808:808::1", "6to4"),
        ("3fff::1", "documentation"),
        ("5f00::1", "reserved"),
        ("fc00::1", "private"),
        ("fd00:ec2::254", "private"),
        ("fe80::1", "link-local"),
        ("fec0::1", "site-local"),
        ("ff02::1", "multicast"),
        ("ff0e::1", "multicast"),
        ("4000::1", "reserved"),
    ],
)
def test_what_is_not_in_the_world_is_refused(address: str, what: str) -> None:
    assert non_public_reason(ip_address(address)) == what


@pytest.mark.parametrize(
    "address",
    [
        *("1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255"),
        *(
            "128.0.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
        ),
        *("223.255.255.255", "168.63.129.15", "2606:4700:4700::1111", "2a00:1450:4001:80b::200e", "2400:cb00::1"),
        *("::ffff:8.8.8.8", "64:ff9b::8.8.8.8"),
    ],
)
def test_what_is_in_the_world_passes(address: str) -> None:
    assert non_public_reason(ip_address(address)) is None


@given(st.integers(0, 2**32 - 1))
def test_an_address_that_carries_another_is_no_better_than_that(number: int) -> None:
    carried = IPv4Address(number)
    assert non_public_reason(IPv6Address((0xFFFF << 32) + number)) == non_public_reason(carried)
    assert non_public_reason(IPv6Address((0x64FF9B << 96) + number)) == non_public_reason(carried)
    if not carried.is_global:
        assert non_public_reason(carried) is not None


@given(st.integers(0, 2**128 - 1))
def test_nothing_passes_that_python_calls_private(number: int) -> None:
    address = IPv6Address(number)
    if non_public_reason(address) is None:
        assert (address.ipv4_mapped or address).is_global or number >> 32 == 0x64FF9B << 64
        assert not address.is_multicast

"""Bright Data: one endpoint; the user name says what is asked of it. Reads refusals by their error codes.

Only the code counts: several errors share a text.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

from swath.domain.errors import BadInput
from swath.domain.failure import Failure, FailureKind
from swath.domain.proxy_products import PRODUCTS, ProxyLocation, ProxyType
from swath.domain.retry import parse_retry_after
from swath.domain.secret import Secret
from swath.fetch.proxies.config import ProxyConfig
from swath.fetch.proxies.providers import custom
from swath.fetch.proxies.route import ReadRefusal, Route

__all__ = ["CODES", "BrightData", "check_url", "code_meaning", "read_refusal", "read_unlocker_refusal", "username"]

_K = FailureKind
Meaning = tuple[FailureKind, str]

_KYC: Final = "verify the account (KYC) with the provider, or take another way out"
_GOVERNMENT: Final = (
    "government sites are closed to accounts without KYC: verify the account with the provider, or go direct"
)
_LOGIN: Final = "check SWATH_PROXY_CUSTOMER and the zone's name and password"
_ZONE_LISTS: Final = "the zone's own list of sites forbids it; change the list at the provider"
_SLOWER: Final = "the provider asks us to slow down"

CODES: Final[dict[str, Meaning]] = {
    "client_10000": (_K.ACCESS_POLICY, _LOGIN),
    "client_10001": (_K.ACCESS_POLICY, _LOGIN),
    "client_10002": (_K.ACCESS_POLICY, "there is no such zone; check the zone's name"),
    "client_10010": (_K.ACCESS_POLICY, _LOGIN),
    "client_10020": (_K.ACCESS_POLICY, "the account or zone is suspended; look at its balance and state"),
    "client_10030": (_K.ACCESS_POLICY, "this machine's address is not on the zone's list"),
    "client_10040": (_K.ACCESS_POLICY, _KYC),
    "client_10050": (_K.ACCESS_POLICY, "this machine's address is on the zone's deny list"),
    "client_10060": (_K.ACCESS_POLICY, "the exit address is not in the zone"),
    "client_10061": (_K.ACCESS_POLICY, "the zone has no exit in that country"),
    "client_10062": (_K.ACCESS_POLICY, "the zone has no exit in that country"),
    "client_10063": (_K.ACCESS_POLICY, "the exit address is not valid"),
    "client_10090": (_K.ACCESS_POLICY, "this is the wrong product for the request"),
    "client_10100": (_K.ACCESS_POLICY, "the zone's usage limit is reached; raise it at the provider"),
    "client_10110": (_K.RATE_LIMITED, "the account sends too fast; an account with funds may send faster"),
    "client_10120": (_K.ACCESS_POLICY, "the zone does not allow another route"),
    "client_10140": (_K.PROXY, "the provider saw us hang up"),
    "client_10250": (_K.ACCESS_POLICY, _ZONE_LISTS),
    "client_10260": (_K.ACCESS_POLICY, _ZONE_LISTS),
    "policy_20000": (_K.ACCESS_POLICY, "the provider does not serve this category of site"),
    "policy_20050": (_K.ACCESS_POLICY, "the provider does not serve this site"),
    "policy_20051": (_K.ACCESS_POLICY, _GOVERNMENT),
    "policy_20052": (_K.ACCESS_POLICY, "the provider serves this site on another network only"),
    "policy_20070": (_K.ACCESS_POLICY, "the site is closed to exits in that country"),
    "policy_20080": (_K.ACCESS_POLICY, "the provider serves this site on another network only"),
    "policy_20090": (_K.ACCESS_POLICY, "the provider serves this site through web_unlocker only"),
    "policy_20110": (_K.ACCESS_POLICY, "the provider serves search engines through another product only"),
    "policy_20130": (_K.ACCESS_POLICY, f"this method needs KYC (POST does): {_KYC}"),
    "policy_20140": (_K.ACCESS_POLICY, f"the site's robots.txt forbids it to accounts without KYC: {_KYC}"),
    "policy_20220": (_K.RATE_LIMITED, f"{_SLOWER} on this site"),
    "policy_20222": (_K.RATE_LIMITED, f"{_SLOWER} on this site"),
    "policy_20223": (_K.RATE_LIMITED, f"{_SLOWER} on this site"),
    "policy_20230": (_K.ACCESS_POLICY, "the provider does not serve this site from that country"),
    "peer_30030": (_K.PROXY, "no exit is free in that city"),
    "peer_30040": (_K.PROXY, "the exit took too long"),
    "target_40001": (_K.DNS_UNKNOWN, "the provider finds no such name"),
    "target_40011": (_K.CONNECT, "the provider could not connect to the site"),
    "target_40020": (_K.TIMEOUT, "the site did not answer the provider in time"),
    "target_40021": (_K.TIMEOUT, "the site did not answer the provider in time"),
    "kyc_required": (_K.ACCESS_POLICY, _KYC),
    "business_account_required": (_K.ACCESS_POLICY, "the product needs a business account; ask the provider"),
    "ub_bad_endpoint_robots": (_K.ACCESS_POLICY, f"the site's robots.txt forbids it to accounts without KYC: {_KYC}"),
}


def code_meaning(code: str, status: int) -> Meaning:
    """The kind of failure that a code stands for, and the hint."""
    known = CODES.get(code)
    if known is not None:
        return known
    if status == 429:
        return _K.RATE_LIMITED, _SLOWER
    family = code.partition("_")[0]
    if family == "peer" or (family not in {"policy", "target"} and status >= 500):
        return _K.PROXY, "the provider could not do it"
    if family == "target":
        return _K.CONNECT, "the provider could not reach the site"
    return _K.ACCESS_POLICY, "the provider refuses it; look the code up in its documents"


_CODE_HEADERS: Final = ("x-brd-err-code", "x-brd-error-code")
_TEXT_HEADERS: Final = ("x-brd-error", "x-brd-err-msg")
_FAMILIES: Final = {"1": "client", "2": "policy", "3": "peer", "4": "target"}
_CODE: Final = re.compile(r"\b(?:(?:client|policy|peer|target)_\d{5}|kyc_required|business_account_required|ub_\w+)\b")
_WHOLE_CODE: Final = re.compile(r"[a-z][a-z_0-9]{2,60}")
_NUMBER: Final = re.compile(r"[1-4]\d{4}")
_GATEWAY_STATUSES: Final = frozenset({502, 504})
# Nothing to see: white space, or the frame of a page without anything in it.
_BLANK: Final = re.compile(
    rb"(?:\s|\x00|\xef\xbb\xbf|<(?:!doctype|/?(?:html|head|body|pre))\b[^<>]*>)*+", re.IGNORECASE
)
_BLANK_BYTES: Final = 1_000

Headers = tuple[tuple[str, str], ...]


def username(customer: str, zone: str, place: ProxyLocation) -> str:
    """By the grammar `brd-customer-<id>-zone-<name>[-flag-value]*`, with the flags in small letters."""
    flags = "".join(f"-{name}-{value if name == 'session' else value.lower()}" for name, value in place.given().items())
    return f"brd-customer-{customer}-zone-{zone}{flags}"


def check_url(url: str, name: str) -> tuple[str, str, int]:
    """Scheme, host and port of the endpoint. Raises BadInput that shows nothing of credentials put into it."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise BadInput(f"{name} is no address; write http://host:port") from None
    if parts.username is not None or parts.password is not None:
        raise BadInput(f"{name} must hold no user name or password; they have settings of their own")
    if parts.scheme not in custom.SCHEMES or not parts.hostname or port is None or parts.path not in {"", "/"}:
        raise BadInput(f"{name} must be http://host:port, or https://")
    return parts.scheme, parts.hostname, port


class BrightData:
    """Makes routes through the zones that are set up. `address` is scheme, host and port of the endpoint."""

    def __init__(self, setup: ProxyConfig) -> None:
        self._setup = setup
        self.address = check_url(setup.url, "SWATH_PROXY_URL")

    def name(self, tier: ProxyType) -> str:
        """What people may see of the way through a zone."""
        return f"{tier} at {self.address[1]}:{self.address[2]}"

    def route(self, tier: ProxyType, place: ProxyLocation) -> Route:
        """One way out through the tier's zone. An identity that the policy does not name is new with each route."""
        zone, customer = self._setup.zones[tier], self._setup.customer
        if zone.name is None or customer is None:
            raise BadInput(f"proxy type {tier} is not set up")
        scheme, host, port = self.address
        product = PRODUCTS[tier]
        wanted = {name: value for name, value in place.given().items() if name in product.options}
        if "session" in product.options:
            wanted.setdefault("session", custom.new_session())
        read: ReadRefusal = read_unlocker_refusal if tier is ProxyType.WEB_UNLOCKER else read_refusal
        return Route(
            tier=tier,
            name=self.name(tier),
            scheme=scheme,
            host=host,
            port=port,
            username=Secret(username(customer, zone.name, ProxyLocation(**wanted))),
            password=zone.password,
            ca_file=self._setup.ca_file if product.opens_tls else None,
            opens_tls=product.opens_tls,
            read_refusal=read,
        )


def read_refusal(status: int, headers: Headers, *, tunnel: bool, body: bytes | None = None) -> Failure | None:
    """Implements ReadRefusal. A code is a refusal whatever the status: some come with 200 and an empty body."""
    named = dict(reversed(headers))  # the first of a name counts
    code = _code(named)
    if code is not None:
        kind, hint = code_meaning(code, status)
        return Failure.of(kind, f"Bright Data refuses it ({code}): {hint}", _retry_after(named))
    real = named.get("x-brd-status-code", "")
    if real.isdigit() and int(real) >= 400:
        return Failure.of(FailureKind.PROXY, f"Bright Data says that it failed ({real}), and not why")
    if any(named.get(name) for name in _TEXT_HEADERS):  # the text itself may name the account
        kind = FailureKind.RATE_LIMITED if status == 429 else FailureKind.PROXY
        return Failure.of(kind, f"Bright Data refuses it ({status}), and gives no code", _retry_after(named))
    if not tunnel and status in _GATEWAY_STATUSES and not any(name.startswith("x-brd-") for name in named):
        # What it has fetched carries a header of its own.
        return Failure.of(FailureKind.PROXY, f"Bright Data could not fetch it ({status}), and does not say why")
    return custom.read_refusal(status, headers, tunnel=tunnel, body=body)


def read_unlocker_refusal(status: int, headers: Headers, *, tunnel: bool, body: bytes | None = None) -> Failure | None:
    """The same for the Unlocker, of which an empty answer is no page of anybody's."""
    refusal = read_refusal(status, headers, tunnel=tunnel, body=body)
    if refusal is None and 200 <= status < 300 and body is not None and _is_blank(body):
        message = "the Unlocker answered with nothing; asked for format json, its API says why"
        return Failure.of(FailureKind.PROXY, message)
    return refusal


def _is_blank(body: bytes) -> bool:
    return not body or body.isspace() or (len(body) <= _BLANK_BYTES and _BLANK.fullmatch(body) is not None)


def _code(named: dict[str, str]) -> str | None:
    for header in _CODE_HEADERS:
        value = named.get(header, "").strip()
        if value:
            return _normalized_code(value)
    # Proxy-Status is to take the place of the others; its details begin with the code.
    for header in ("proxy-status", *_TEXT_HEADERS):
        found = _CODE.search(named.get(header, ""))
        if found is not None:
            return found[0]
    return None


def _normalized_code(value: str) -> str:
    """A code as the table has it, however it is written; what is no code may name the account, and is not shown."""
    bare = value.strip("\"' ").lower()
    plain = re.sub(r"[\s-]+", "_", bare)
    if _NUMBER.fullmatch(plain):
        return f"{_FAMILIES[plain[0]]}_{plain}"
    known = _CODE.search(plain)
    if known is not None:
        return known[0]
    return bare if _WHOLE_CODE.fullmatch(bare) else "unknown code"


def _retry_after(named: dict[str, str]) -> float | None:
    return parse_retry_after(named.get("retry-after", ""))

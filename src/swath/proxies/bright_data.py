"""Bright Data: one endpoint, and a user name that says what is wanted of it. Names are built here, never taken apart.

Before: ways.py asks for a route. After: the transport dials it, and has refusals read here, by their codes.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

from swath.domain.errors import BadInput
from swath.domain.failure import Failure, FailureKind
from swath.domain.proxy_products import PRODUCTS, Place, ProxyType
from swath.domain.retry import asked_seconds
from swath.domain.secret import Secret
from swath.proxies import custom
from swath.proxies.bright_data_codes import meaning
from swath.proxies.route import ReadRefusal, Route
from swath.proxies.setup import ProxySetup

__all__ = ["BrightData", "check_url", "read_refusal", "read_unlocker_refusal", "username"]

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


def username(customer: str, zone: str, place: Place) -> str:
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

    def __init__(self, setup: ProxySetup) -> None:
        self._setup = setup
        self.address = check_url(setup.url, "SWATH_PROXY_URL")

    def name(self, tier: ProxyType) -> str:
        """What people may see of the way through a zone."""
        return f"{tier} at {self.address[1]}:{self.address[2]}"

    def route(self, tier: ProxyType, place: Place) -> Route:
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
            username=Secret(username(customer, zone.name, Place(**wanted))),
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
        kind, hint = meaning(code, status)
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
            return _spelt(value)
    # Proxy-Status is to take the place of the others; its details begin with the code.
    for header in ("proxy-status", *_TEXT_HEADERS):
        found = _CODE.search(named.get(header, ""))
        if found is not None:
            return found[0]
    return None


def _spelt(value: str) -> str:
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
    return asked_seconds(named.get("retry-after", ""))

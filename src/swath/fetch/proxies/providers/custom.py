"""Proxies given by their URLs with credentials, `http://user:password@host:port`, of any provider or your own."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable
from typing import Final
from urllib.parse import unquote, urlsplit

import msgspec

from swath.domain.errors import BadInput
from swath.domain.failure import Failure, FailureKind
from swath.domain.proxy_products import ProxyLocation, ProxyType
from swath.domain.retry import parse_retry_after
from swath.domain.secret import Secret
from swath.fetch.proxies.route import Route

__all__ = ["SCHEMES", "CustomProxy", "new_session", "parse_proxies", "read_refusal"]

SCHEMES: Final = {"http": 80, "https": 443}
_FIELD: Final = re.compile(r"\{(\w*)\}")
_FIELDS: Final = frozenset(ProxyLocation.__struct_fields__)
_OWN_STATUSES: Final = frozenset({403, 502, 503, 504})  # with which a proxy says that it will not, or cannot
_PROXY_SOFTWARE: Final = re.compile(r"squid|tinyproxy|privoxy|mitmproxy|3proxy|ccproxy|polipo|\bproxy", re.IGNORECASE)


class CustomProxy(msgspec.Struct, frozen=True, kw_only=True):
    """One address. `name` is what people may see of it; `fields` are what user name and password have places for."""

    name: str
    scheme: str
    host: str
    port: int
    username: Secret | None = None
    password: Secret | None = None
    fields: frozenset[str] = frozenset()

    def objection(self, place: ProxyLocation) -> str | None:
        """Why it cannot be asked for such a place: there is no place in it for a part, or a part is left open."""
        given = set(place.given())
        if extra := sorted(given - self.fields):
            return f"its address has no {{{extra[0]}}}, so it takes no {extra[0]}"
        if open_parts := sorted(self.fields - given - {"session"}):
            return f"its address has a {{{open_parts[0]}}}, so the policy must say a {open_parts[0]}"
        return None

    def route(self, place: ProxyLocation) -> Route:
        """One way out through it. An identity that the policy does not name is new with each route."""
        values = {"session": new_session()} | place.given()
        return Route(
            tier=ProxyType.CUSTOM,
            name=self.name,
            scheme=self.scheme,
            host=self.host,
            port=self.port,
            username=_fill_template(self.username, values),
            password=_fill_template(self.password, values),
            read_refusal=read_refusal,
        )


def _parse_proxy(url: Secret, which: str) -> CustomProxy:
    """Raises BadInput that says what is wrong with which address, and shows nothing of it."""
    text = url.reveal()
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise BadInput(f"{which} is no address; write http://user:password@host:port") from None
    if parts.scheme not in SCHEMES:
        raise BadInput(f"{which} must begin with http:// or https://")
    if not parts.hostname or parts.path not in {"", "/"} or parts.query or parts.fragment:
        raise BadInput(
            f"{which} is no address; write http://user:password@host:port, with % / ? # @ : in a password as %25 %2F …"
        )
    fields = {field for part in (parts.username, parts.password) for field in _FIELD.findall(unquote(part or ""))}
    if not fields <= _FIELDS:
        raise BadInput(f"{which} has a place for something else than {', '.join(ProxyLocation.__struct_fields__)}")
    port = SCHEMES[parts.scheme] if port is None else port
    return CustomProxy(
        name=f"[{parts.hostname}]:{port}" if ":" in parts.hostname else f"{parts.hostname}:{port}",
        scheme=parts.scheme,
        host=parts.hostname,
        port=port,
        username=None if parts.username is None else Secret(unquote(parts.username)),
        password=None if parts.password is None else Secret(unquote(parts.password)),
        fields=frozenset(fields),
    )


def parse_proxies(urls: Iterable[Secret], setting: str = "SWATH_PROXY_CUSTOM_URLS") -> list[CustomProxy]:
    """All of a list. Several accounts at one address are told apart by their number."""
    proxies: dict[str, CustomProxy] = {}
    for number, url in enumerate(urls, start=1):
        proxy = _parse_proxy(url, f"{setting}: address {number}")
        if proxy.name in proxies:
            proxy = msgspec.structs.replace(proxy, name=f"{proxy.name} ({number})")
        proxies[proxy.name] = proxy
    return list(proxies.values())


def new_session() -> str:
    """A name that nobody else uses: letters and digits, which every provider takes."""
    return secrets.token_hex(6)


def _fill_template(template: Secret | None, values: dict[str, str]) -> Secret | None:
    return template and Secret(_FIELD.sub(lambda field: values[field[1]], template.reveal()))


def read_refusal(
    status: int,
    headers: tuple[tuple[str, str], ...],
    *,
    tunnel: bool,
    body: bytes | None = None,  # noqa: ARG001 what it says is not known
) -> Failure | None:
    """Implements ReadRefusal for a proxy of which nothing is known but that it speaks HTTP."""
    if status == 407:
        return Failure.of(FailureKind.PROXY, "the proxy refuses our user name or password (407)")
    said = dict(reversed(headers))
    own = said.get("x-squid-error", "") or (
        said.get("proxy-status", "") if "error=" in said.get("proxy-status", "") else ""
    )
    if "ACCESS_DENIED" in own or "http_request_denied" in own:
        return Failure.of(FailureKind.ACCESS_POLICY, f"the proxy does not allow this site ({status})")
    if own:
        return Failure.of(FailureKind.PROXY, f"the proxy says that it failed ({status})")
    if not tunnel and not (status in _OWN_STATUSES and _is_from_proxy(said)):
        return None  # it may as well be the site's
    if status == 429:
        return Failure.of(FailureKind.RATE_LIMITED, "the proxy asks us to slow down (429)", _retry_after(headers))
    if status in {401, 402, 403, 451}:
        return Failure.of(FailureKind.ACCESS_POLICY, f"the proxy does not allow this site ({status})")
    return Failure.of(FailureKind.PROXY, f"the proxy {'made no tunnel' if tunnel else 'failed'} ({status})")


def _is_from_proxy(said: dict[str, str]) -> bool:
    """Whether an answer was made by the proxy. It marks what it passes on, too, but that names the site's server."""
    if "proxy-authenticate" in said or "proxy-agent" in said:
        return True
    marks = said["server"] if "server" in said else f"{said.get('via', '')} {said.get('x-cache', '')}"
    return _PROXY_SOFTWARE.search(marks) is not None


def _retry_after(headers: tuple[tuple[str, str], ...]) -> float | None:
    return parse_retry_after(next((value for name, value in headers if name == "retry-after"), ""))

"""A cookie jar by RFC 6265: host-only and domain cookies, paths, expiry, Secure. One per attempt."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

import msgspec

from swath.fetch.http.header_values import parse_http_date

__all__ = ["CookieJar"]

_MOST_COOKIES: Final = 300
_MOST_OF_DOMAIN: Final = 50
_LONGEST_BYTES: Final = 4096
_HEADER_BYTES: Final = 32 * 1024


class _Cookie(msgspec.Struct):
    name: str
    value: str
    domain: str
    path: str
    host_only: bool = True
    secure: bool = False
    expires_at: float | None = None

    @property
    def pair(self) -> str:
        return f"{self.name}={self.value}" if self.name else self.value

    def fits(self, host: str, path: str, *, secure: bool) -> bool:
        if self.secure and not secure:
            return False
        if not _path_matches(path, self.path):
            return False
        return host == self.domain if self.host_only else _domain_matches(host, self.domain)


class CookieJar:
    """Cookies of one attempt. Times are Unix seconds."""

    __slots__ = ("_cookies",)

    def __init__(self) -> None:
        self._cookies: dict[tuple[str, str, str], _Cookie] = {}

    def __len__(self) -> int:
        return len(self._cookies)

    def store(self, url: str, set_cookies: Iterable[str], now: float) -> None:
        """Takes the Set-Cookie headers of an answer from `url`; what breaks the rules is ignored, as browsers do."""
        for text in set_cookies:
            cookie = _parsed(url, text, now)
            if cookie is None:
                continue
            key = (cookie.domain, cookie.path, cookie.name)
            if cookie.expires_at is not None and cookie.expires_at <= now:
                self._cookies.pop(key, None)
            else:
                self._cookies[key] = cookie
                self._make_room(cookie.domain)

    def header(self, url: str, now: float) -> str | None:
        """The Cookie header for a request to `url`: longer paths first, then the older ones; None for no cookies.

        When they are too many for a header, the oldest are left out.
        """
        if not self._cookies:
            return None
        parts = urlsplit(url)
        host, path, secure = parts.hostname or "", parts.path or "/", parts.scheme == "https"
        for key in [k for k, c in self._cookies.items() if c.expires_at is not None and c.expires_at <= now]:
            del self._cookies[key]
        fitting = _newest([c for c in self._cookies.values() if c.fits(host, path, secure=secure)])
        fitting.sort(key=lambda cookie: -len(cookie.path))
        return "; ".join(cookie.pair for cookie in fitting) or None

    def _make_room(self, domain: str) -> None:
        """Takes out the oldest of a domain that has too many, or of all."""
        of_domain = [key for key in self._cookies if key[0] == domain]
        if len(of_domain) > _MOST_OF_DOMAIN:
            del self._cookies[of_domain[0]]
        elif len(self._cookies) > _MOST_COOKIES:
            del self._cookies[next(iter(self._cookies))]


def _newest(cookies: list[_Cookie]) -> list[_Cookie]:
    """Those that a header has room for, in the same order."""
    room_bytes = _HEADER_BYTES
    for position in range(len(cookies) - 1, -1, -1):
        room_bytes -= len(cookies[position].pair.encode()) + len("; ")
        if room_bytes < 0:
            return cookies[position + 1 :]
    return cookies


def _parsed(url: str, text: str, now: float) -> _Cookie | None:
    if len(text) > 2 * _LONGEST_BYTES:
        return None
    pair, *rest = text.split(";")
    name, equals, value = pair.partition("=")
    if not equals:
        name, value = "", pair
    name, value = name.strip(), value.strip()
    if not (name or value) or len(name) + len(value) > _LONGEST_BYTES or not (name + value).isprintable():
        return None
    attributes: dict[str, str] = {}
    for attribute in rest:
        key, _, setting = attribute.partition("=")
        attributes[key.strip().lower()] = setting.strip()
    parts = urlsplit(url)
    host = parts.hostname or ""
    cookie = _Cookie(name, value, host, attributes.get("path", ""), expires_at=_expiry(attributes, now))
    cookie.secure = "secure" in attributes
    if cookie.secure and parts.scheme != "https":
        return None
    if not cookie.path.startswith("/"):
        cookie.path = parts.path.rpartition("/")[0] or "/"
    domain = attributes.get("domain", "").lower().removeprefix(".")
    if domain and domain != host:
        # No list of public suffixes: a jar lives for one attempt on one site, so a name with a dot is strict enough.
        if "." not in domain or not _domain_matches(host, domain):
            return None
        cookie.domain = domain
    cookie.host_only = not domain or _is_address(host)
    return cookie


def _expiry(attributes: dict[str, str], now: float) -> float | None:
    age = attributes.get("max-age", "")
    if age.lstrip("-").isdecimal():
        return now + min(int(age[:12]), 10**9) if not age.startswith("-") else now
    return parse_http_date(attributes["expires"]) if "expires" in attributes else None


def _domain_matches(host: str, domain: str) -> bool:
    return host == domain or (host.endswith("." + domain) and not _is_address(host))


def _path_matches(path: str, cookie_path: str) -> bool:
    if cookie_path in {"/", path}:
        return True
    return path.startswith(cookie_path) and (cookie_path.endswith("/") or path[len(cookie_path)] == "/")


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True

"""Canonical http(s) URLs, the form in which they may appear in messages, and URL-encoded and multipart form bodies.

Messages and logs show a URL without credentials, query or parameters.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from ada_url import URL, join_url, normalize_url

from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind

__all__ = [
    "URLENCODED",
    "Fields",
    "canonical",
    "field_pairs",
    "host_of",
    "multipart",
    "origin_of",
    "redacted",
    "resolve",
    "urlencoded",
    "with_params",
]

URLENCODED: Final = "application/x-www-form-urlencoded"
_UNSAFE: Final = re.compile(rb"[^A-Za-z0-9*._-]")
_CODES: Final = {bytes([code]): b"%%%02X" % code for code in range(256)} | {b" ": b"+"}


def urlencoded(fields: Sequence[tuple[str, str]], charset: str = "utf-8") -> str:
    """A query or body; characters that the charset lacks become references, line ends CRLF."""
    return "&".join([f"{_quoted(name, charset)}={_quoted(value, charset)}" for name, value in fields])


def multipart(fields: Sequence[tuple[str, str]], charset: str = "utf-8") -> tuple[str, bytes]:
    """The content type with its boundary, and the body."""
    boundary = "swath-" + secrets.token_hex(16)
    parts: list[bytes] = []
    for name, value in fields:
        quoted = _crlf(name).replace('"', "%22").replace("\r\n", "%0D%0A")
        text = f'--{boundary}\r\nContent-Disposition: form-data; name="{quoted}"\r\n\r\n{_crlf(value)}\r\n'
        parts.append(text.encode(charset, "xmlcharrefreplace"))
    parts.append(f"--{boundary}--\r\n".encode("ascii"))
    return f"multipart/form-data; boundary={boundary}", b"".join(parts)


def _quoted(text: str, charset: str) -> str:
    # Looks at unsafe bytes only: the standard library takes 40 µs for the view state of an ASP.NET page, this 5.
    return _UNSAFE.sub(_code, _crlf(text).encode(charset, "xmlcharrefreplace")).decode("ascii")


def _code(found: re.Match[bytes]) -> bytes:
    return _CODES[found[0]]


def _crlf(text: str) -> str:
    if "\n" not in text and "\r" not in text:
        return text
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\n", "\r\n")


Fields = Mapping[str, object] | Sequence[tuple[str, object]]

_MOST_CHARACTERS: Final = 32_768
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_BREAKS: Final = re.compile(r"[\t\r\n]")  # in the middle of a link they mean nothing to browsers
_SCHEME: Final = re.compile(r"\s*([A-Za-z][A-Za-z0-9+.-]*:)?")
# An address that parses to itself if its origin does: every parser reads it alike. Most are, and cost no parsing.
_PLAIN: Final = re.compile(r"(https?://[a-z0-9.:\[\]-]+)/[A-Za-z0-9!$%&()*+,/:;=?@_~.-]*")
# What the parser made of one: it has percent-encoded all that could be mistaken for a delimiter.
_WEB: Final = re.compile(r"(https?://)([^/?#@]*@)?(\[[0-9a-f:.]+\]|[^/?#@:\[\]]+)((?::[0-9]+)?)(/[^#]*)")
# Any text, as the most careless reader would cut it: what may be an authority, and what comes behind.
_AUTHORITY: Final = re.compile(r"(?:(\s*[A-Za-z][A-Za-z0-9+.-]*:[/\\]*|\s*[/\\]{2,})([^/\\?#]*))?(.*)", re.DOTALL)
# What is no password, but for the port.
_HOST: Final = re.compile(r"([A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+|localhost)(?::[0-9]*)?")
_QUERY: Final = re.compile(r"[?#]")
_PARAMETERS: Final = re.compile(r"(?:;|%3b)[^/]*", re.IGNORECASE)
_LABEL: Final = re.compile(r"[a-z0-9_-]{1,63}")
_DOTS: Final = re.compile(r"/\.|%2e", re.IGNORECASE)


def resolve(url: str, base: str | None) -> str:
    """The canonical address, as an author or a site means it. Raises Failed as `canonical`, internal without a base."""
    text = _BREAKS.sub("", url.strip())
    if base is not None:
        return canonical(text, base)
    if not _SCHEME.match(text)[1]:  # type: ignore[index] # the pattern fits every text
        raise Failed(
            Failure.of(FailureKind.INTERNAL, f"{redacted(text)!r} is relative, and the scraper has no base_url")
        )
    return canonical(text)


@lru_cache(256)  # the session spells an address, and the transport makes sure
def canonical(url: str, base: str | None = None) -> str:
    """The one spelling of an address, without fragment; ASCII throughout. Raises Failed invalid_input.

    Refused are other schemes than http and https, credentials, control characters, and backslashes before the query:
    what parsers are known to differ about.
    """
    if base is not None and url.startswith("/") and not url.startswith("//"):
        url, base = origin_of(canonical(base)) + url, None
    if len(url) > _MOST_CHARACTERS:
        raise _invalid_url(url, f"is longer than {_MOST_CHARACTERS} characters")
    plain = _PLAIN.fullmatch(url)
    if plain is not None and base is None and not _DOTS.search(url) and _is_canonical(plain[1]):
        return url
    return _parsed(url, base)


def origin_of(url: str) -> str:
    """Scheme, host and port of a canonical address, as it spells them."""
    return url[: url.index("/", 8)]


def host_of(url: str) -> str:
    """The host of a canonical address, without its port; empty for a text that is no address."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def with_params(url: str, params: Fields | None) -> str:
    """Adds query parameters behind those that the address has."""
    if not params:
        return url
    parts = urlsplit(url)
    query = "&".join(filter(None, (parts.query, urlencoded(field_pairs(params)))))
    return urlunsplit(parts._replace(query=query))


def field_pairs(fields: Fields) -> list[tuple[str, str]]:
    """Names and values as text, in order; a sequence as value stands for several of its name, None for none."""
    pairs: list[tuple[str, str]] = []
    for name, value in fields.items() if isinstance(fields, Mapping) else fields:
        values = value if isinstance(value, (list, tuple)) else (value,)
        pairs.extend((name, str(one)) for one in values if one is not None)
    return pairs


def redacted(url: str) -> str:
    """The address as it may stand in messages and logs: neither credentials nor query nor parameters in the path.

    Whatever it is: a password may have any character, so of what has an @ behind the host little more is shown.
    """
    start, authority, rest = _AUTHORITY.match(url).groups()  # type: ignore[union-attr] # the pattern fits every text
    scheme = (start or "").strip().rstrip("/\\")
    if "@" in rest:
        host = _HOST.fullmatch(authority or "")
        return f"{scheme}//{host[1]}/…" if host else f"{scheme}//…" if start else "…"
    try:
        parsed = URL(url)
        if parsed.hostname:
            return f"{parsed.protocol}//{parsed.host}{_without_parameters(parsed.pathname)}"
    except ValueError:
        pass  # it may have credentials all the same
    before, at, host_and_port = (authority or "").rpartition("@")
    text = f"{scheme}//…@{host_and_port}{rest}" if at and before else f"{start or ''}{host_and_port}{rest}"
    return _without_parameters(text)[:200].encode("utf-8", "replace").decode()


def _without_parameters(path: str) -> str:
    return _PARAMETERS.sub("", _QUERY.split(path, maxsplit=1)[0])


def _parsed(url: str, base: str | None) -> str:
    if _CONTROL.search(url):
        raise _invalid_url(url, "contains control characters")
    if "\\" in url and "\\" in re.split(r"[?#]", url, maxsplit=1)[0]:
        raise _invalid_url(url, "contains a backslash")
    try:
        parsed = _WEB.match(normalize_url(url) if base is None else join_url(base, url))
    except ValueError:
        raise _invalid_url(url, "is no web address") from None
    if parsed is None:
        raise _invalid_url(url, "is no http or https address")
    scheme, credentials, host, port, rest = parsed.groups()
    if credentials:
        raise _invalid_url(url, "contains credentials, which do not belong there")
    host = host.removesuffix(".")  # the same host, but not to a client that is told where to find it
    if not _is_host(host):
        raise _invalid_url(url, "has no usable host name")
    return f"{scheme}{host}{port}{rest}"


@lru_cache(maxsize=4_096)
def _is_canonical(origin: str) -> bool:
    try:
        return _parsed(f"{origin}/", None) == f"{origin}/"
    except Failed:
        return False


def _is_host(host: str) -> bool:
    """What stands in brackets the parser has checked; of names it lets more pass than there can be."""
    return host.startswith("[") or (len(host) <= 253 and all(_LABEL.fullmatch(label) for label in host.split(".")))


def _invalid_url(url: str, why: str) -> Failed:
    return Failed(Failure.of(FailureKind.INVALID_INPUT, f"{redacted(url)!r} {why}"))

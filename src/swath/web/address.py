"""Addresses: resolving what authors and sites write to absolute http(s) URLs, and showing them without secrets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import quote, urljoin, urlsplit, urlunsplit

from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.web.encode import urlencoded

__all__ = ["Fields", "pairs_of", "resolve", "shown", "with_params"]

Fields = Mapping[str, object] | Sequence[tuple[str, object]]

# What may stand in an address as it is, "%" included: authors and sites write addresses that are encoded already.
_PLAIN: Final = "!#$%&'()*+,/:;=?@[]~"


def resolve(url: str, base: str | None) -> str:
    """The absolute address, without fragment. Raises Failed: internal when there is no base, else invalid_input."""
    try:
        joined = url.strip() if base is None else _join(base, url.strip())
        parts = urlsplit(joined)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname)
        _ = parts.port  # raises ValueError when it is no number
    except ValueError as error:
        raise Failed(Failure.of(FailureKind.INVALID_INPUT, f"{url!r} is no web address: {error}")) from None
    if not usable:
        if base is None and not parts.scheme:
            raise Failed(Failure.of(FailureKind.INTERNAL, f"{url!r} is relative, and the scraper has no base_url"))
        raise Failed(Failure.of(FailureKind.INVALID_INPUT, f"{url!r} is no http or https address"))
    joined = joined.partition("#")[0]
    return joined if joined.isascii() and " " not in joined else _encoded(joined)


def _join(base: str, url: str) -> str:
    if url.startswith("/") and not url.startswith("//") and "/." not in url:
        parts = urlsplit(base)  # the common case, at a fifth of the cost
        return f"{parts.scheme}://{parts.netloc}{url}"
    return urljoin(base, url)


def with_params(url: str, params: Fields | None) -> str:
    """Adds query parameters behind those that the address has."""
    if not params:
        return url
    parts = urlsplit(url)
    query = "&".join(filter(None, (parts.query, urlencoded(pairs_of(params)))))
    return urlunsplit(parts._replace(query=query))


def pairs_of(fields: Fields) -> list[tuple[str, str]]:
    """Names and values as text, in order; a sequence as value stands for several of its name, None for none."""
    pairs: list[tuple[str, str]] = []
    for name, value in fields.items() if isinstance(fields, Mapping) else fields:
        values = value if isinstance(value, (list, tuple)) else (value,)
        pairs.extend((name, str(one)) for one in values if one is not None)
    return pairs


def shown(url: str) -> str:
    """The address as it may stand in messages and logs: neither credentials nor query."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "an unreadable address"
    return f"{parts.scheme}://{host}{port}{parts.path}"


def _encoded(url: str) -> str:
    parts = urlsplit(url)
    try:
        host = parts.netloc if parts.netloc.isascii() else parts.netloc.encode("idna").decode("ascii")
    except UnicodeError as error:
        raise Failed(Failure.of(FailureKind.INVALID_INPUT, f"{parts.netloc!r} is no host name: {error}")) from None
    rest = (quote(part, safe=_PLAIN) for part in (parts.path, parts.query))
    return urlunsplit((parts.scheme, host, *rest, ""))

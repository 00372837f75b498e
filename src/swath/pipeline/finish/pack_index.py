"""The index of a lease's WARC (CDXJ): a line for each page, sorted, by which ordinary tools find a page by its address.

Before: the lease is settled, by its holder or by whoever rescued it. Ours is not among its readers: the store knows
where everything lies.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

import msgspec

from swath.domain.layout import INDEX, PACKS, WARC, PackedAt
from swath.pipeline.finish.artifacts import Stored, StoredPage

__all__ = ["index_document", "index_key", "index_lines"]

_PLAIN: Final = re.compile(r"https?://([^/?#@\s]+)(/[^?#\s]*)")


def index_key(fence: int) -> str:
    """Where the index of a lease's packs lies."""
    return f"{PACKS}{fence}.{INDEX}"


def index_document(lines: Iterable[str]) -> bytes:
    """Sorted, as those who look something up expect it."""
    return "".join(sorted(lines)).encode()


def index_lines(places: Iterable[PackedAt], stored: Stored) -> list[str]:
    """A line for each page and download of an item that lies in a WARC; `places` are those of its files."""
    packed = {at.name: at for at in places if at.pack.endswith(WARC)}
    if not packed:
        return []
    return [_line(page, packed[page.file]) for page in (*stored.pages, *stored.downloads) if page.file in packed]


def _line(page: StoredPage, at: PackedAt) -> str:
    when = _second(int(max(0.0, page.fetched_at)))
    fields = {
        "url": page.url,
        "mime": page.content_type,
        "status": str(page.status),
        "digest": f"sha256:{page.sha256}",
        "length": str(at.length),
        "offset": str(at.start),
        "filename": at.pack.removeprefix(PACKS),
    }
    return f"{_search_key(page.url)} {when} {msgspec.json.encode(fields).decode()}\n"


def _search_key(url: str) -> str:
    """The address with its host reversed (SURT), in lower case and without blanks: `com,example)/path?a=1&b=2`."""
    url = url.lower()
    try:
        plain = _PLAIN.fullmatch(url)
        if plain is not None:
            return f"{_where(plain[1])}){plain[2]}"
        parts = urlsplit(url)
        where = _where(parts.netloc)
    except ValueError:
        return "urn:none"
    query = f"?{'&'.join(sorted(parts.query.split('&')))}" if parts.query else ""
    return "".join(f"{where}){parts.path or '/'}{query}".split())


@lru_cache(64)  # the pages of a lease come from few hosts, within few seconds
def _where(authority: str) -> str:
    parts = urlsplit(f"//{authority}")
    host, port = parts.hostname or "", parts.port
    names = host.removeprefix("www.").split(".")
    reversed_host = host if ":" in host or names[-1].isdecimal() else ",".join(reversed(names))
    return reversed_host if port is None else f"{reversed_host}:{port}"


@lru_cache(64)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y%m%d%H%M%S")

"""Writes and reads WARC 1.1 records (ISO 28500), each a gzip member of its own. Pure.

Bodies are stored decoded, so headers that describe the transfer are renamed as other archivers do. Credentials are
masked, and request bodies are not stored.
"""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime
from functools import lru_cache
from http import HTTPStatus
from itertools import count
from typing import Final, NamedTuple
from urllib.parse import quote

from isal import isal_zlib

from swath.domain.result import Exchange, Page

__all__ = [
    "BodyLocation",
    "GzipError",
    "RecordIds",
    "info_record",
    "locate_body",
    "member_head",
    "page_records",
    "read_body",
]

GzipError: type[Exception] = isal_zlib.error  # type: ignore[assignment]  # its stub calls the class an instance

_WEB_SCHEMES: Final = ("http://", "https://")
_LEVEL: Final = 1  # of isal; five times as fast as zlib's 6 at nearly the same size
_REQUEST_LEVEL: Final = 0  # with ready-made tables: to make some for so few bytes takes longer than all else
_WBITS: Final = 31
_HEADS: Final = {_LEVEL: bytes.fromhex("1f8b08000000000000ff"), _REQUEST_LEVEL: bytes.fromhex("1f8b08000000000004ff")}
_END: Final = b"\r\n\r\n"
# Of requests only what everybody sends is told: any other header may be a key. Sites have fewer secrets of ours.
_KEPT_REQUEST_HEADERS: Final = frozenset(
    {
        *("accept", "accept-encoding", "accept-language", "cache-control", "connection", "content-length"),
        *("content-type", "dnt", "host", "if-modified-since", "if-none-match", "origin", "pragma", "priority"),
        *("range", "referer", "te", "upgrade-insecure-requests", "user-agent", "x-requested-with"),
    }
)
_SECRET: Final = re.compile(r"cookie|token|secret|api-?key|auth|csrf|xsrf|session|service-key")
_TRANSFER_HEADERS: Final = frozenset({"content-encoding", "transfer-encoding", "content-length"})
_REASONS: Final = {status.value: status.phrase for status in HTTPStatus}
_RESERVED: Final = "%/:?#[]@!$&'()*+,;=~-._"
_URI: Final = re.compile(rf"[A-Za-z0-9{re.escape(_RESERVED)}]+")
_PARTS: Final = re.compile(r"https?://([^/?#]*)([^?#]*)((?:\?[^#]*)?)")
_BREAKS: Final = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]+")
_NOT_IN_HEADER_NAMES: Final = re.compile(r"[^!#$%&'*+.^_`|~0-9A-Za-z-]")
_PAGE_RECORD: Final = re.compile(
    rb"WARC/1\.1\r\nWARC-Type: (response|resource)\r\n.*\r\n"
    rb"WARC-Payload-Digest: sha256:([0-9a-f]{64})\r\n.*\r\nContent-Length: ([0-9]+)",
    re.DOTALL,
)


def info_record(software: str, about: str, ids: RecordIds) -> bytes:
    """What a file begins with: who made it, and of what."""
    body = f"software: {software}\r\nformat: WARC File Format 1.1\r\nisPartOf: {_single_line(about)}\r\n"
    now = datetime.now(UTC).timestamp()
    head = f"WARC-Type: warcinfo\r\nWARC-Record-ID: {next(ids)}\r\nWARC-Date: {_date(now)}\r\n"
    return _member(f"{head}Content-Type: application/warc-fields\r\n", body.encode("utf-8", "replace"))


class RecordIds:
    """Names for the records of a group: one part by chance for all of them, and a number."""

    def __init__(self) -> None:
        chance = os.urandom(10).hex()
        self._first = f"<urn:uuid:{chance[:8]}-{chance[8:12]}-4{chance[12:15]}-a{chance[15:18]}-"
        self._numbers = count()

    def __next__(self) -> str:
        return f"{self._first}{next(self._numbers):012x}>"


def page_records(page: Page, digest: str, mark: str, ids: RecordIds) -> tuple[bytes, bytes]:
    """What comes before a page's own record (its request, if that is known), and the record with the body.

    `digest` is the SHA-256 of the body, `mark` says whose page it is.
    """
    identity, uri = next(ids), _uri(page.url)
    where = f"WARC-Target-URI: {uri}\r\nWARC-Date: {_date(page.fetched_at)}\r\n"
    of_item = f"WARC-Payload-Digest: sha256:{digest}\r\nSwath-File: {mark}\r\n"
    if page.exchange is None or not page.url.startswith(_WEB_SCHEMES):
        kind = f"Content-Type: {_single_line(page.content_type)}; charset={_single_line(page.charset)}\r\n"
        head = f"WARC-Type: resource\r\nWARC-Record-ID: {identity}\r\n{where}{of_item}{kind}"
        return b"", _member(head, page.body)
    kind = "Content-Type: application/http; msgtype=response\r\n"
    head = f"WARC-Type: response\r\nWARC-Record-ID: {identity}\r\n{where}{of_item}{kind}"
    response = _member(head, _answer_head(page, page.exchange), page.body)
    kind = f"WARC-Concurrent-To: {identity}\r\nContent-Type: application/http; msgtype=request\r\n"
    head = f"WARC-Type: request\r\nWARC-Record-ID: {next(ids)}\r\n{where}{kind}"
    return _member(head, _request(uri, page.exchange), level=_REQUEST_LEVEL), response


class BodyLocation(NamedTuple):
    """Where in an unpacked record the body of a page is, and its SHA-256."""

    start: int
    size: int
    sha256: str

    @property
    def end(self) -> int:
        """The first byte behind it."""
        return self.start + self.size


def locate_body(record: bytes) -> BodyLocation | None:
    """As the beginning of an unpacked record tells it; None where too little of that is there. Raises ValueError."""
    head_end = record.find(_END)
    if head_end < 0:
        return None
    found = _PAGE_RECORD.fullmatch(record, 0, head_end)
    if found is None:
        raise ValueError("it is no WARC record of a page")
    start = block = head_end + len(_END)
    end = block + int(found[3])
    if found[1] == b"response":
        answer_end = record.find(_END, block, end)
        if answer_end < 0 and len(record) < end:
            return None
        if answer_end < 0:
            raise ValueError("it holds no whole answer")
        start = answer_end + len(_END)
    return BodyLocation(start, end - start, found[2].decode())


def read_body(member: bytes) -> bytes:
    """The body of a page from its record. Raises ValueError and GzipError for what is none."""
    record = isal_zlib.decompress(member, _WBITS)
    place = locate_body(record)
    end = 0 if place is None else place.start + place.size
    if place is None or record[end:] != _END:
        raise ValueError("it is no whole WARC record")
    return record[place.start : end]


def member_head(told: bytes) -> bytes:
    """What the gzip member of a record begins with: neither time nor name. `told` is its WARC-Type and what follows."""
    return _HEADS[_REQUEST_LEVEL if told.startswith(b"request\r\n") else _LEVEL]


def _member(head: str, *block: bytes, level: int = _LEVEL) -> bytes:
    lines = f"WARC/1.1\r\n{head}Content-Length: {sum(map(len, block))}\r\n\r\n"
    return isal_zlib.compress(b"".join((lines.encode("utf-8", "replace"), *block, _END)), level, _WBITS)


def _answer_head(page: Page, exchange: Exchange) -> bytes:
    lines = "".join([_response_line(name, value) for name, value in exchange.response_headers])
    first = f"HTTP/1.1 {page.status} {_REASONS.get(page.status, '')}\r\n"
    return f"{first}{lines}Content-Length: {len(page.body)}\r\n\r\n".encode("latin-1", "replace")


def _request(uri: str, exchange: Exchange) -> bytes:
    authority, path, query = _PARTS.match(uri).groups()  # type: ignore[union-attr]  # it begins as web addresses do
    target = (path or "/") + (query if query != "?" else "")
    lines = "".join([_request_line(name, value) for name, value in exchange.request_headers])
    first = f"{_single_line(exchange.method)} {target} HTTP/1.1\r\nHost: {authority.rpartition('@')[2]}\r\n"
    return f"{first}{lines}\r\n".encode("latin-1", "replace")


@lru_cache(256)  # nearly all headers are those of the page before; a site may send long ones
def _response_line(name: str, value: str) -> str:
    return _line(name, value, masked=_SECRET.search(name.lower()) is not None)


@lru_cache(256)
def _request_line(name: str, value: str) -> str:
    lower = name.lower()
    return _line(name, value, masked=lower not in _KEPT_REQUEST_HEADERS and not lower.startswith("sec-"))


def _line(name: str, value: str, *, masked: bool) -> str:
    lower, token = name.lower(), _NOT_IN_HEADER_NAMES.sub("_", name) or "_"
    if masked:
        return f"{token}: masked\r\n"
    if lower in _TRANSFER_HEADERS:
        token = f"X-Crawler-{token}"
    return f"{token}: {_single_line(value)}\r\n"


def _single_line(text: str) -> str:
    """In one line: whatever a site or an author says, it begins no header of its own."""
    return _BREAKS.sub(" ", text)


def _uri(url: str) -> str:
    """Pages that authors made themselves may have any text here."""
    if _URI.fullmatch(url):
        return url
    return quote(url, safe=_RESERVED, errors="replace") if url else "urn:swath:none"


def _date(seconds: float) -> str:
    whole = int(seconds)
    return f"{_second(max(0, whole))}.{int((seconds - whole) * 1e6) if seconds > 0 else 0:06d}Z"


@lru_cache(64)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")

"""Packs: pages of a lease in one WARC, everything else as JSON Lines, with a CDXJ index; and reads of whole ranges.

The record of every page ends before the next item begins, so what is needed of a pack lies before the end of the
last
artifact.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, Generic, NamedTuple, TypeVar
from urllib.parse import urlsplit

import msgspec

import swath
from swath.domain.job import Job
from swath.domain.result import Artifact, Result
from swath.domain.storage_keys import (
    INDEX_SUFFIX,
    PACKS_PREFIX,
    RECORDS_SUFFIX,
    WARC_SUFFIX,
    PackLocation,
    encode_key,
    page_file_name,
)
from swath.pipeline.formats.artifacts import (
    DATA_FILE,
    METADATA_FILE,
    StoredMetadata,
    StoredPage,
    check_unique_names,
    encode_json,
    record_of,
    stored_download,
    stored_page,
)
from swath.pipeline.formats.warc import RecordIds, info_record, page_records
from swath.ports.result_storage import PackAppend

__all__ = [
    "PackRange",
    "PackedFile",
    "PackedItem",
    "Packer",
    "group_into_ranges",
    "index_document",
    "index_key",
    "index_lines",
    "line_data",
    "line_parts",
    "needed_pack_bytes",
    "pack_locations",
    "packed_artifacts",
]

_RANGE_BYTES: Final = 4 * 1024 * 1024
_GAP_BYTES: Final = 64 * 1024  # what a read costs in a bucket is worth more bytes than these


Place = TypeVar("Place", bound=tuple[str, int, int, str])
"""A `PackedAt`, or what begins like one: pack, first byte, length."""


class PackRange(NamedTuple, Generic[Place]):
    """Neighbours in one pack, by where they begin; requests and what lost may lie between them."""

    pack: str
    start: int
    length: int
    places: tuple[Place, ...]

    def cut(self, data: bytes) -> list[bytes]:
        """The bytes of each place, of what was read for the range; short where that is too short."""
        first = self.start
        return [data[start - first : start - first + length] for _, start, length, _ in self.places]


def group_into_ranges(places: Iterable[Place]) -> Iterator[PackRange[Place]]:
    """All of them, in ranges of a few MiB at most, unless one place alone has more."""
    run: list[Place] = []
    its_pack, its_start, its_end = "", 0, 0
    for place in sorted(places):
        pack, start, length, _ = place  # by names it would take longer than all else here
        end = start + length
        if pack != its_pack or start > its_end + _GAP_BYTES or end - its_start > _RANGE_BYTES:
            if run:
                yield PackRange(its_pack, its_start, its_end - its_start, tuple(run))
            run, its_pack, its_start, its_end = [], pack, start, end
        run.append(place)
        if end > its_end:  # noqa: PLR1730 `max` is a call, for each of many
            its_end = end
    if run:
        yield PackRange(its_pack, its_start, its_end - its_start, tuple(run))


_NONE: Final = msgspec.Raw(b"null")


class PackedFile(NamedTuple):
    """A file of an item on its way into a pack: where its bytes are among those of the group."""

    ending: str
    start: int
    length: int
    name: str
    sha256: str


class PackedItem(NamedTuple):
    """The files of an item, and what its metadata says of pages and downloads."""

    files: tuple[PackedFile, ...] = ()
    stored: StoredMetadata = StoredMetadata()


class _RecordLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is kept of an item beside its pages."""

    item_id: str
    metadata: msgspec.Raw
    data: msgspec.Raw = _NONE


_encode_line: Final = msgspec.json.Encoder().encode
_decode_line: Final = msgspec.json.Decoder(_RecordLine).decode


class Packer:
    """Takes the items of one group, one after the other."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._keep = job.policy.keep
        self._keeps_pages = self._keep.pages
        self._parts: dict[str, list[bytes]] = {WARC_SUFFIX: [], RECORDS_SUFFIX: []}
        self._sizes = {WARC_SUFFIX: 0, RECORDS_SUFFIX: 0}
        self._ids = RecordIds()

    def add(self, item_id: str, result: Result | None, about: Mapping[str, Any]) -> PackedItem:
        """Packs one item. Raises for what cannot be written, and then nothing of the item is in the group."""
        result = result or Result()
        check_unique_names(result)
        stored = StoredMetadata(
            tuple(
                [stored_page(page, page_file_name(page.name) if self._keeps_pages else None) for page in result.pages]
            ),
            tuple(map(stored_download, result.downloads)),
        )
        records = self._records(item_id, result, stored) if self._keeps_pages or result.downloads else []
        data = encode_json(result.data) if result.data is not None and self._keep.data else None
        metadata = record_of(self._job, item_id, stored, about)
        whole = _RecordLine(
            replace_lone_surrogates(item_id), msgspec.Raw(metadata), _NONE if data is None else msgspec.Raw(data)
        )
        line = _encode_line(whole) + b"\n"
        files = [self._put(WARC_SUFFIX, name, before, record) for name, before, record in records]
        written = self._put(RECORDS_SUFFIX, METADATA_FILE, b"", line)
        files.append(written)
        if data is not None:
            files.append(PackedFile(RECORDS_SUFFIX, written.start, written.length, DATA_FILE, written.sha256))
        return PackedItem(tuple(files), stored)

    def _records(self, item_id: str, result: Result, stored: StoredMetadata) -> list[tuple[str, bytes, bytes]]:
        """Of each file that is kept: its name, what comes before its record, and the record."""
        came = (*result.pages, *(download.page for download in result.downloads))
        return [
            (one.file, *page_records(page, one.sha256, f"{encode_key(item_id)}/{one.file}", self._ids))
            for one, page in zip((*stored.pages, *stored.downloads), came, strict=True)
            if one.file is not None
        ]

    def _put(self, ending: str, name: str, before: bytes, data: bytes) -> PackedFile:
        start = self._sizes[ending] + len(before)
        self._parts[ending] += (before, data)
        self._sizes[ending] = start + len(data)
        return PackedFile(ending, start, len(data), name, hashlib.sha256(data).hexdigest())

    def additions(self) -> dict[str, PackAppend]:
        """What is to be appended."""
        heads = {
            WARC_SUFFIX: info_record(f"swath/{swath.__version__}", self._job.job_id, self._ids),
            RECORDS_SUFFIX: b"",
        }
        return {ending: PackAppend(b"".join(parts), heads[ending]) for ending, parts in self._parts.items() if parts}


def replace_lone_surrogates(text: str) -> str:
    """Half characters, which no UTF-8 can hold, become U+FFFD, as everywhere else in what is stored."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def pack_locations(item: PackedItem, placed: Mapping[str, tuple[str, int]]) -> list[PackLocation]:
    """Of each of its files, now that storage has `placed` the bytes of the group."""
    places = []
    for ending, start, length, name, _ in item.files:
        pack, first = placed[ending]
        places.append(PackLocation(pack, first + start, length, name))
    return places


def packed_artifacts(item: PackedItem, places: Iterable[PackLocation]) -> tuple[Artifact, ...]:
    """Its files at their places."""
    found = zip(item.files, places, strict=True)
    return tuple([Artifact(place.key, file.length, file.sha256) for file, place in found])


def needed_pack_bytes(artifacts: Iterable[Artifact]) -> dict[str, int]:
    """How many bytes of each pack these need, from its beginning."""
    needed: dict[str, int] = {}
    for artifact in artifacts:
        packed = PackLocation.of(artifact.key)
        if packed is not None:
            needed[packed.pack] = max(needed.get(packed.pack, 0), packed.end)
    return needed


def line_parts(line: bytes) -> dict[str, bytes]:
    """The files that a line holds, by name. Raises msgspec.MsgspecError for what is no line of ours."""
    read = _decode_line(line)
    metadata, data = bytes(read.metadata), bytes(read.data)
    return {METADATA_FILE: metadata} if data == b"null" else {METADATA_FILE: metadata, DATA_FILE: data}


def line_data(line: bytes) -> bytes:
    """The record alone; `null` where there is none. Raises as `line_parts` does."""
    return bytes(_decode_line(line).data)


_PLAIN: Final = re.compile(r"https?://([^/?#@\s]+)(/[^?#\s]*)")


def index_key(fence: int) -> str:
    """Where the index of a lease's packs lies."""
    return f"{PACKS_PREFIX}{fence}.{INDEX_SUFFIX}"


def index_document(lines: Iterable[str]) -> bytes:
    """Sorted, as those who look something up expect it."""
    return "".join(sorted(lines)).encode()


def index_lines(places: Iterable[PackLocation], stored: StoredMetadata) -> list[str]:
    """A line for each page and download of an item that lies in a WARC; `places` are those of its files."""
    packed = {at.name: at for at in places if at.pack.endswith(WARC_SUFFIX)}
    if not packed:
        return []
    return [_line(page, packed[page.file]) for page in (*stored.pages, *stored.downloads) if page.file in packed]


def _line(page: StoredPage, at: PackLocation) -> str:
    when = _second(int(max(0.0, page.fetched_at)))
    fields = {
        "url": page.url,
        "mime": page.content_type,
        "status": str(page.status),
        "digest": f"sha256:{page.sha256}",
        "length": str(at.length),
        "offset": str(at.start),
        "filename": at.pack.removeprefix(PACKS_PREFIX),
    }
    return f"{_search_key(page.url)} {when} {msgspec.json.encode(fields).decode()}\n"


def _search_key(url: str) -> str:
    """The address with its host reversed (SURT), in lower case and without blanks: `com,example)/path?a=1&b=2`."""
    url = url.lower()
    try:
        plain = _PLAIN.fullmatch(url)
        if plain is not None:
            return f"{_reversed_host(plain[1])}){plain[2]}"
        parts = urlsplit(url)
        where = _reversed_host(parts.netloc)
    except ValueError:
        return "urn:none"
    query = f"?{'&'.join(sorted(parts.query.split('&')))}" if parts.query else ""
    return "".join(f"{where}){parts.path or '/'}{query}".split())


@lru_cache(64)  # the pages of a lease come from few hosts, within few seconds
def _reversed_host(authority: str) -> str:
    parts = urlsplit(f"//{authority}")
    host, port = parts.hostname or "", parts.port
    names = host.removeprefix("www.").split(".")
    reversed_host = host if ":" in host or names[-1].isdecimal() else ",".join(reversed(names))
    return reversed_host if port is None else f"{reversed_host}:{port}"


@lru_cache(64)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y%m%d%H%M%S")

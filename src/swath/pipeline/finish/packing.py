"""Packer: the outcomes of a group as bytes for the packs of their lease (R2): pages as WARC, all else as JSON Lines.

Before: the committer has a group of a job whose layout is `warc`. After: storage appends the bytes and says where they
begin, of which `places_of` and `artifacts_of` make keys. Every page's record ends before that of the next item begins,
so whatever is needed of a pack lies before the end of the last artifact.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

import swath
from swath.domain.job import Job
from swath.domain.keys import encode, page_name
from swath.domain.layout import RECORDS, WARC, PackedAt
from swath.domain.result import Artifact, Result
from swath.pipeline.finish.artifacts import (
    DATA_FILE,
    METADATA_FILE,
    Stored,
    check_names,
    json_of,
    record_of,
    stored_download,
    stored_page,
)
from swath.pipeline.finish.warc import RecordIds, info_record, page_records
from swath.ports.result_storage import Addition

__all__ = ["PackedFile", "PackedItem", "Packer", "artifacts_of", "line_data", "line_parts", "needed_of", "places_of"]

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
    stored: Stored = Stored()


class _Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is kept of an item beside its pages."""

    item_id: str
    metadata: msgspec.Raw
    data: msgspec.Raw = _NONE


_encode_line: Final = msgspec.json.Encoder().encode
_decode_line: Final = msgspec.json.Decoder(_Line).decode


class Packer:
    """Takes the items of one group, one after the other."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._keep = job.policy.keep
        self._keeps_pages = self._keep.pages
        self._parts: dict[str, list[bytes]] = {WARC: [], RECORDS: []}
        self._sizes = {WARC: 0, RECORDS: 0}
        self._ids = RecordIds()

    def add(self, item_id: str, result: Result | None, about: Mapping[str, Any]) -> PackedItem:
        """Packs one item. Raises for what cannot be written, and then nothing of the item is in the group."""
        result = result or Result()
        check_names(result)
        stored = Stored(
            tuple([stored_page(page, page_name(page.name) if self._keeps_pages else None) for page in result.pages]),
            tuple(map(stored_download, result.downloads)),
        )
        records = self._records(item_id, result, stored) if self._keeps_pages or result.downloads else []
        data = json_of(result.data) if result.data is not None and self._keep.data else None
        metadata = record_of(self._job, item_id, stored, about)
        whole = _Line(json_text(item_id), msgspec.Raw(metadata), _NONE if data is None else msgspec.Raw(data))
        line = _encode_line(whole) + b"\n"
        files = [self._put(WARC, name, before, record) for name, before, record in records]
        written = self._put(RECORDS, METADATA_FILE, b"", line)
        files.append(written)
        if data is not None:
            files.append(PackedFile(RECORDS, written.start, written.length, DATA_FILE, written.sha256))
        return PackedItem(tuple(files), stored)

    def _records(self, item_id: str, result: Result, stored: Stored) -> list[tuple[str, bytes, bytes]]:
        """Of each file that is kept: its name, what comes before its record, and the record."""
        came = (*result.pages, *(download.page for download in result.downloads))
        return [
            (one.file, *page_records(page, one.sha256, f"{encode(item_id)}/{one.file}", self._ids))
            for one, page in zip((*stored.pages, *stored.downloads), came, strict=True)
            if one.file is not None
        ]

    def _put(self, ending: str, name: str, before: bytes, data: bytes) -> PackedFile:
        start = self._sizes[ending] + len(before)
        self._parts[ending] += (before, data)
        self._sizes[ending] = start + len(data)
        return PackedFile(ending, start, len(data), name, hashlib.sha256(data).hexdigest())

    def additions(self) -> dict[str, Addition]:
        """What is to be appended."""
        heads = {WARC: info_record(f"swath/{swath.__version__}", self._job.job_id, self._ids), RECORDS: b""}
        return {ending: Addition(b"".join(parts), heads[ending]) for ending, parts in self._parts.items() if parts}


def json_text(text: str) -> str:
    """Half characters, which no UTF-8 can hold, become U+FFFD, as everywhere else in what is stored."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def places_of(item: PackedItem, placed: Mapping[str, tuple[str, int]]) -> list[PackedAt]:
    """Of each of its files, now that storage has `placed` the bytes of the group."""
    places = []
    for ending, start, length, name, _ in item.files:
        pack, first = placed[ending]
        places.append(PackedAt(pack, first + start, length, name))
    return places


def artifacts_of(item: PackedItem, places: Iterable[PackedAt]) -> tuple[Artifact, ...]:
    """Its files at their places."""
    found = zip(item.files, places, strict=True)
    return tuple([Artifact(place.key, file.length, file.sha256) for file, place in found])


def needed_of(artifacts: Iterable[Artifact]) -> dict[str, int]:
    """How many bytes of each pack these need, from its beginning."""
    needed: dict[str, int] = {}
    for artifact in artifacts:
        packed = PackedAt.of(artifact.key)
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

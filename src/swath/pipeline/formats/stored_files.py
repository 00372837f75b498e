"""Reads the files of one or many items back, whatever the layout, and checks them against their stored hashes.

What lies close together in a pack is read by one call.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

import msgspec
from isal import isal_zlib

from swath.domain.errors import BadInput, StoreDamaged
from swath.domain.result import Artifact
from swath.domain.storage_keys import PACKS_PREFIX, WARC_SUFFIX, PackLocation, artifact_file_name
from swath.pipeline.formats.artifacts import METADATA_FILE, parse_metadata
from swath.pipeline.formats.packs import group_into_ranges, line_data, line_parts
from swath.pipeline.formats.warc import GzipError, read_body
from swath.ports.result_storage import FileRange, ResultStorage

__all__ = [
    "RawFiles",
    "WantedFiles",
    "check_bytes",
    "decode_item_data",
    "decode_item_files",
    "group_by_bytes",
    "missing_file_error",
    "opened",
    "read_artifact",
    "read_files_of_items",
    "read_item_files",
    "read_raw_files",
]

_GZIP: Final = b"\x1f\x8b\x08"
_GZIP_WBITS: Final = 31


async def read_item_files(
    storage: ResultStorage, job_id: str, item_id: str, artifacts: Sequence[Artifact]
) -> dict[str, bytes]:
    """The files of one item by plain name, unpacked: `html.html` is the body as it was fetched.

    Raises StoreDamaged when one is not what was stored.
    """
    raw = await asyncio.gather(*(read_artifact(storage, job_id, artifact) for artifact in artifacts))
    return decode_item_files(job_id, item_id, artifacts, raw)


def decode_item_files(
    job_id: str, item_id: str, artifacts: Sequence[Artifact], raw: Sequence[bytes]
) -> dict[str, bytes]:
    """The same from bytes that were read and checked."""
    files, all_packed = {}, True
    for artifact, data in zip(artifacts, raw, strict=True):
        packed = PackLocation.of(artifact.key)
        if packed is None:
            files[artifact_file_name(item_id, artifact.key)], all_packed = data, False
            continue
        try:
            files[packed.name] = read_body(data) if packed.pack.endswith(WARC_SUFFIX) else line_parts(data)[packed.name]
        except (ValueError, KeyError, GzipError, msgspec.MsgspecError) as error:
            raise _damage_error(job_id, artifact.key, f"cannot be read: {error}") from None
    try:
        return files if all_packed else _decompressed(files)
    except (BadInput, GzipError) as error:
        raise StoreDamaged(f"item {item_id!r} of job {job_id!r} cannot be read: {error}", job_id) from None


def decode_item_data(job_id: str, artifact: Artifact, raw: bytes) -> bytes:
    """The record of an item from the bytes of its `data.json`, which are checked: what `plain_files` says, for those
    who go through many and want nothing else. Raises StoreDamaged."""
    check_bytes(job_id, artifact, raw)
    if not artifact.key.startswith(PACKS_PREFIX):
        return raw
    try:
        data = line_data(raw)
    except msgspec.MsgspecError as error:
        raise _damage_error(job_id, artifact.key, f"cannot be read: {error}") from None
    if data == b"null":
        raise _damage_error(job_id, artifact.key, "cannot be read: there is no record in it")
    return data


async def read_artifact(storage: ResultStorage, job_id: str, artifact: Artifact) -> bytes:
    """The bytes that an artifact stands for, as they lie there: of a packed file, its record or line.

    Raises StoreDamaged when they are not those that were stored.
    """
    packed = PackLocation.of(artifact.key)
    try:
        if packed is None:
            data = await storage.get(job_id, artifact.key)
        else:
            data = await storage.read(job_id, packed.pack, packed.start, packed.length)
    except KeyError:
        raise missing_file_error(job_id, artifact.key) from None
    check_bytes(job_id, artifact, data)
    return data


def check_bytes(job_id: str, artifact: Artifact, data: bytes) -> None:
    """Raises StoreDamaged when these are not the bytes that were stored."""
    if hashlib.sha256(data).hexdigest() != artifact.sha256:
        raise _damage_error(job_id, artifact.key, "has other bytes than were stored")


def missing_file_error(job_id: str, key: str) -> StoreDamaged:
    """To be raised for a file that is not there."""
    return _damage_error(job_id, key, "is missing")


def _decompressed(files: dict[str, bytes]) -> dict[str, bytes]:
    """Pages that lie by themselves are compressed if their metadata says so; in a bucket their names do not."""
    zipped = {name for name, data in files.items() if data.startswith(_GZIP)}
    if not zipped:
        return files
    compressed = {name for name in files if name.endswith(".html.gz")}
    if METADATA_FILE in files and not zipped <= compressed:
        compressed |= {page.file for page in parse_metadata(files[METADATA_FILE]).pages if page.file is not None}
    plain = {}
    for name, data in files.items():
        page = name.removesuffix(".gz")
        packed = f"{page}.gz" in compressed and name in zipped
        plain[page if packed else name] = isal_zlib.decompress(data, _GZIP_WBITS) if packed else data
    return plain


def _damage_error(job_id: str, key: str, how: str) -> StoreDamaged:
    return StoreDamaged(f"the stored file {key} of job {job_id!r} {how}; see `swath jobs verify`", job_id)


WantedFiles = tuple[str, Sequence[Artifact]]
"""An item's id and those of its artifacts that somebody wants."""

T = TypeVar("T")
RawFiles = Mapping[str, bytes]
"""Stored bytes by the artifact's key."""

GROUP_BYTES: Final = 16 << 20  # of stored bytes held at once; pages unpack to several times as much


async def read_files_of_items(
    storage: ResultStorage, job_id: str, wanted: Sequence[WantedFiles]
) -> list[dict[str, bytes]]:
    """For each item its files by plain name, unpacked and checked, in the order given.

    Holds stored bytes of one group at a time; the answer is as large as what was asked for (see `in_groups`). Raises
    StoreDamaged when a file is not what was stored.
    """
    found: list[dict[str, bytes]] = []
    for group in group_by_bytes((one, _size(one[1])) for one in wanted):
        raw = await read_raw_files(storage, job_id, [artifact for _, artifacts in group for artifact in artifacts])
        found += await asyncio.to_thread(lambda: [opened(job_id, one, raw) for one in group])  # noqa: B023 awaited
    return found


def group_by_bytes(sized: Iterable[tuple[T, int]], most_bytes: int = GROUP_BYTES) -> Iterator[list[T]]:
    """In groups of no more bytes than that, or of one that has more."""
    group: list[T] = []
    total = 0
    for one, size in sized:
        if group and total + size > most_bytes:
            yield group
            group, total = [], 0
        group.append(one)
        total += size
    if group:
        yield group


def _size(artifacts: Iterable[Artifact]) -> int:
    return sum(artifact.size for artifact in artifacts)


def opened(job_id: str, wanted: WantedFiles, raw: RawFiles) -> dict[str, bytes]:
    """The files of one item by plain name, unpacked and checked. Raises StoreDamaged."""
    item_id, artifacts = wanted
    found = []
    for artifact in artifacts:
        data = raw.get(artifact.key)
        if data is None:
            raise missing_file_error(job_id, artifact.key)
        check_bytes(job_id, artifact, data)
        found.append(data)
    return decode_item_files(job_id, item_id, artifacts, found)


async def read_raw_files(storage: ResultStorage, job_id: str, artifacts: Sequence[Artifact]) -> RawFiles:
    """As they lie there, unchecked; what is not there is left out."""
    places, alone = list[tuple[str, int, int, str]](), list[str]()
    for artifact in artifacts:
        place = PackLocation.of(artifact.key)
        if place is None:
            alone.append(artifact.key)
        else:
            places.append((*place[:3], artifact.key))
    runs = list(group_into_ranges(places))
    asked = [*(FileRange(run.pack, run.start, run.length) for run in runs), *map(FileRange, alone)]
    read = await storage.read_all(job_id, asked)
    raw = {key: data for key, data in zip(alone, read[len(runs) :], strict=True) if data is not None}
    for run, data in zip(runs, read, strict=False):
        if data is not None:
            raw.update(zip([key for _, _, _, key in run.places], run.cut(data), strict=True))
    return raw

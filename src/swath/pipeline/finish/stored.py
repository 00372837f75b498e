"""The files of an item as they were before they were stored, whatever the layout: for everybody who reads results.

Before: the store says which artifacts an item has. After: the API, export, re-extraction and evidence. Bytes are
checked against the hash that the store has.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from typing import Final

import msgspec
from isal import isal_zlib

from swath.domain.errors import BadInput, StoreDamaged
from swath.domain.layout import PACKS, WARC, PackedAt, file_of
from swath.domain.result import Artifact
from swath.pipeline.finish.artifacts import METADATA_FILE, stored_in
from swath.pipeline.finish.packing import line_data, line_parts
from swath.pipeline.finish.warc import GzipError, body_of
from swath.ports.result_storage import ResultStorage

__all__ = ["check_bytes", "contents", "missing", "plain_data", "plain_files", "stored_bytes"]

_GZIP: Final = b"\x1f\x8b\x08"
_GZIP_WBITS: Final = 31


async def contents(
    storage: ResultStorage, job_id: str, item_id: str, artifacts: Sequence[Artifact]
) -> dict[str, bytes]:
    """The files of one item by plain name, unpacked: `html.html` is the body as it was fetched.

    Raises StoreDamaged when one is not what was stored.
    """
    raw = await asyncio.gather(*(stored_bytes(storage, job_id, artifact) for artifact in artifacts))
    return plain_files(job_id, item_id, artifacts, raw)


def plain_files(job_id: str, item_id: str, artifacts: Sequence[Artifact], raw: Sequence[bytes]) -> dict[str, bytes]:
    """The same from bytes that were read and checked."""
    files, all_packed = {}, True
    for artifact, data in zip(artifacts, raw, strict=True):
        packed = PackedAt.of(artifact.key)
        if packed is None:
            files[file_of(item_id, artifact.key)], all_packed = data, False
            continue
        try:
            files[packed.name] = body_of(data) if packed.pack.endswith(WARC) else line_parts(data)[packed.name]
        except (ValueError, KeyError, GzipError, msgspec.MsgspecError) as error:
            raise _damaged(job_id, artifact.key, f"cannot be read: {error}") from None
    try:
        return files if all_packed else _without_compression(files)
    except (BadInput, GzipError) as error:
        raise StoreDamaged(f"item {item_id!r} of job {job_id!r} cannot be read: {error}", job_id) from None


def plain_data(job_id: str, artifact: Artifact, raw: bytes) -> bytes:
    """The record of an item from the bytes of its `data.json`, which are checked: what `plain_files` says, for those
    who go through many and want nothing else. Raises StoreDamaged."""
    check_bytes(job_id, artifact, raw)
    if not artifact.key.startswith(PACKS):
        return raw
    try:
        data = line_data(raw)
    except msgspec.MsgspecError as error:
        raise _damaged(job_id, artifact.key, f"cannot be read: {error}") from None
    if data == b"null":
        raise _damaged(job_id, artifact.key, "cannot be read: there is no record in it")
    return data


async def stored_bytes(storage: ResultStorage, job_id: str, artifact: Artifact) -> bytes:
    """The bytes that an artifact stands for, as they lie there: of a packed file, its record or line.

    Raises StoreDamaged when they are not those that were stored.
    """
    packed = PackedAt.of(artifact.key)
    try:
        if packed is None:
            data = await storage.get(job_id, artifact.key)
        else:
            data = await storage.read(job_id, packed.pack, packed.start, packed.length)
    except KeyError:
        raise missing(job_id, artifact.key) from None
    check_bytes(job_id, artifact, data)
    return data


def check_bytes(job_id: str, artifact: Artifact, data: bytes) -> None:
    """Raises StoreDamaged when these are not the bytes that were stored."""
    if hashlib.sha256(data).hexdigest() != artifact.sha256:
        raise _damaged(job_id, artifact.key, "has other bytes than were stored")


def missing(job_id: str, key: str) -> StoreDamaged:
    """To be raised for a file that is not there."""
    return _damaged(job_id, key, "is missing")


def _without_compression(files: dict[str, bytes]) -> dict[str, bytes]:
    """Pages that lie by themselves are compressed if their metadata says so; in a bucket their names do not."""
    zipped = {name for name, data in files.items() if data.startswith(_GZIP)}
    if not zipped:
        return files
    compressed = {name for name in files if name.endswith(".html.gz")}
    if METADATA_FILE in files and not zipped <= compressed:
        compressed |= {page.file for page in stored_in(files[METADATA_FILE]).pages if page.file is not None}
    plain = {}
    for name, data in files.items():
        page = name.removesuffix(".gz")
        packed = f"{page}.gz" in compressed and name in zipped
        plain[page if packed else name] = isal_zlib.decompress(data, _GZIP_WBITS) if packed else data
    return plain


def _damaged(job_id: str, key: str, how: str) -> StoreDamaged:
    return StoreDamaged(f"the stored file {key} of job {job_id!r} {how}; see `swath jobs verify`", job_id)

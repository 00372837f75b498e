"""A job's results as the files layout has them (R1), from either layout and in the current version; in a folder, or as
an archive (tar) on its way to somebody else.

Before: current.py walks the items. After: export.py gives the folder its name, or sends the archive. A job in the files
layout gives the same bytes that it stored.
"""

from __future__ import annotations

import asyncio
import hashlib
import tarfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from swath.domain.item import ItemRecord
from swath.domain.job import JobStatus
from swath.domain.keys import encode, page_name
from swath.domain.result import Artifact
from swath.pipeline.finish.artifacts import DATA_FILE, METADATA_FILE, json_of, page_file
from swath.pipeline.finish.manifests import item_key, line_of
from swath.pipeline.results.bulk_read import contents_of_many, in_groups
from swath.pipeline.results.current import CurrentItem, current_items
from swath.ports.job_store import JobStore
from swath.ports.result_storage import ResultStorage

__all__ = ["ARCHIVE_END", "archived", "item_files", "write_files"]

ARCHIVE_END: Final = bytes(2 * tarfile.BLOCKSIZE)


async def item_files(
    store: JobStore, storage: ResultStorage, status: JobStatus
) -> AsyncGenerator[tuple[int, dict[str, bytes]], None]:
    """All files by their keys, some items at a time; and how many items these are."""
    async for items in current_items(store, status):
        for group in in_groups((item, _size(item)) for item in items):
            plain = await _plain_files(storage, group)
            yield len(group), await asyncio.to_thread(_stored_files, group, plain)


def write_files(folder: Path, files: Mapping[str, bytes]) -> int:
    """Puts them into a folder; answers with how many bytes."""
    for key, data in files.items():
        path = folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return sum(map(len, files.values()))


def archived(files: Mapping[str, bytes], written_at: float) -> bytes:
    """A piece of an archive. `written_at`, in Unix seconds, is the time that the files get."""
    parts = []
    for key, data in files.items():
        about = tarfile.TarInfo(key)
        about.size, about.mtime = len(data), int(written_at)
        parts += [about.tobuf(tarfile.PAX_FORMAT), data, bytes(-len(data) % tarfile.BLOCKSIZE)]
    return b"".join(parts)


def _size(item: CurrentItem) -> int:
    return sum(artifact.size for artifact in item.first.artifacts)


async def _plain_files(storage: ResultStorage, items: Sequence[CurrentItem]) -> list[dict[str, bytes]]:
    """Pages and downloads are those of version 1; what was read from them is that of the item's version."""
    files = await _read(storage, [(item.first_job_id, item.first) for item in items])
    newer = [at for at, item in enumerate(items) if item.version > 1]
    read = await _read(storage, [(items[at].job.job_id, items[at].record) for at in newer])
    for at, found in zip(newer, read, strict=True):
        kept = {name: data for name, data in files[at].items() if name not in (DATA_FILE, METADATA_FILE)}
        files[at] = kept | found
    return files


async def _read(storage: ResultStorage, wanted: Sequence[tuple[str, ItemRecord]]) -> list[dict[str, bytes]]:
    """All files of these items, each out of the job that has it."""
    found: dict[int, dict[str, bytes]] = {}
    for job_id in dict.fromkeys(job_id for job_id, _ in wanted):
        here = [(at, record) for at, (owner, record) in enumerate(wanted) if owner == job_id]
        contents = await contents_of_many(storage, job_id, [(one.item_id, one.artifacts) for _, one in here])
        found |= {at: files for (at, _), files in zip(here, contents, strict=True)}
    return [found[at] for at in range(len(wanted))]


def _stored_files(items: Sequence[CurrentItem], plain: Sequence[dict[str, bytes]]) -> dict[str, bytes]:
    all_files: dict[str, bytes] = {}
    for item, files in zip(items, plain, strict=True):
        base = f"items/{encode(item.record.item_id)}"
        stored = {f"{base}/{name}": data for name, data in _as_stored(files).items()}
        artifacts = tuple(Artifact(key, len(data), hashlib.sha256(data).hexdigest()) for key, data in stored.items())
        entry = msgspec.structs.replace(item.record, artifacts=artifacts)
        all_files |= stored | {item_key(item.record.item_id): line_of(item.job, entry)}
    return all_files


def _as_stored(files: dict[str, bytes]) -> dict[str, bytes]:
    """Large pages compressed, and the metadata naming each file as it is now."""
    if METADATA_FILE not in files:
        return files
    stored, about = dict(files), msgspec.json.decode(files[METADATA_FILE])
    changed = False
    for page in about["pages"]:
        plain = page_name(page["name"])
        if plain in files:
            del stored[plain]
            name, data = page_file(page["name"], files[plain])
            stored[name] = data
            changed = changed or page["file"] != name
            page["file"] = name
    if changed:
        stored[METADATA_FILE] = json_of(about)
    return stored

"""A job's results as the files layout has them (R1), in a folder, from either layout and in the current version.

Before: current.py walks the items. After: export.py gives the folder its name. A job in the files layout gives the same
bytes that it stored.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

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

__all__ = ["write_item_files"]


async def write_item_files(
    store: JobStore, storage: ResultStorage, status: JobStatus, folder: Path
) -> AsyncGenerator[tuple[int, int], None]:
    """Writes everything, some items at a time; tells of each group how many items and how many bytes it had."""
    async for items in current_items(store, status):
        for group in in_groups((item, _size(item)) for item in items):
            files = await _plain_files(storage, group)
            size = await asyncio.to_thread(_write_group, folder, group, files)
            yield len(group), size


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


def _write_group(folder: Path, items: Sequence[CurrentItem], plain: Sequence[dict[str, bytes]]) -> int:
    size = 0
    for item, files in zip(items, plain, strict=True):
        base = f"items/{encode(item.record.item_id)}"
        stored = {f"{base}/{name}": data for name, data in _as_stored(files).items()}
        artifacts = tuple(Artifact(key, len(data), hashlib.sha256(data).hexdigest()) for key, data in stored.items())
        entry = msgspec.structs.replace(item.record, artifacts=artifacts)
        stored[item_key(item.record.item_id)] = line_of(item.job, entry)
        for key, data in stored.items():
            path = folder / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            size += len(data)
    return size


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

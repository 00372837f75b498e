"""Checks that files are there with the bytes they should have, some at a time, and finds those nobody refers to.

Called by verify.py for each group of rows; pack_check.py does it for packs. Hashing runs in a thread; what is in memory
at once is bounded by bytes too.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from swath.domain.errors import UnknownName
from swath.domain.item import ItemRecord
from swath.domain.job import Job
from swath.domain.keys import decode
from swath.domain.layout import Layout
from swath.domain.result import Artifact
from swath.pipeline.finish.manifests import item_key
from swath.pipeline.finish.report import Findings, ProblemCode, difference
from swath.ports.job_store import JobStore
from swath.ports.result_storage import ResultStorage

__all__ = ["FileCheck", "find_strays"]

_GROUP_FILES: Final = 64
_GROUP_BYTES: Final = 16 * 1024 * 1024


class FileCheck:
    """Reads files of one job and compares them with what they should be; `present` counts those that were there."""

    def __init__(self, job_id: str, storage: ResultStorage) -> None:
        self._job_id = job_id
        self._storage = storage
        self.present = 0
        self.bytes = 0

    async def check(self, wanted: Iterable[Artifact], findings: Findings) -> list[Artifact]:
        """Notes files that were changed; answers with those that are missing, which may be for a reason."""
        missing = []
        for group in _groups(wanted):
            bodies = await asyncio.gather(*(self._read(artifact.key) for artifact in group))
            digests = await asyncio.to_thread(_hash, bodies)
            for artifact, body, digest in zip(group, bodies, digests, strict=True):
                if body is None:
                    missing.append(artifact)
                    continue
                self.present += 1
                self.bytes += len(body)
                if digest != artifact.sha256 or len(body) != artifact.size:
                    findings.add(ProblemCode.ARTIFACT_CHANGED, artifact.key, difference(artifact, len(body)))
        return missing

    async def _read(self, key: str) -> bytes | None:
        try:
            return await self._storage.get(self._job_id, key)
        except KeyError:
            return None


def _groups(wanted: Iterable[Artifact]) -> Iterator[list[Artifact]]:
    group: list[Artifact] = []
    size = 0
    for artifact in wanted:
        if group and (len(group) == _GROUP_FILES or size + artifact.size > _GROUP_BYTES):
            yield group
            group, size = [], 0
        group.append(artifact)
        size += artifact.size
    if group:
        yield group


def _hash(bodies: Sequence[bytes | None]) -> list[str]:
    return ["" if body is None else hashlib.sha256(body).hexdigest() for body in bodies]


async def find_strays(
    job: Job, referred: Collection[str], store: JobStore, storage: ResultStorage, findings: Findings
) -> None:
    """Notes every key under items/ and manifests/ that neither an item nor `referred` names. One look-up an item."""
    job_id = job.job_id
    record: ItemRecord | None = None
    for folder in ("items/", "manifests/"):
        async for key in storage.keys(job_id, folder):
            if key in referred:
                continue
            item_id = _item_of(key)
            if item_id is not None and (record is None or record.item_id != item_id):
                record = await _item(store, job_id, item_id)
            if item_id is None or record is None or key not in _keys_of(job, record):
                findings.add(ProblemCode.STRAY_KEY, key, "nothing refers to this file")


def _keys_of(job: Job, record: ItemRecord) -> set[str]:
    keys = {artifact.key for artifact in record.artifacts}
    return keys | {item_key(record.item_id)} if job.layout is Layout.FILES else keys


def _item_of(key: str) -> str | None:
    """The item whose folder or entry it may be."""
    folder, _, path = key.partition("/")
    if folder == "manifests":
        prefix, _, path = path.partition("/")
        if prefix != "items" or not path.endswith(".json"):
            return None
        encoded = path.removesuffix(".json")
    else:
        segments = path.split("/")
        ends = next((n for n, segment in enumerate(segments) if not segment.endswith("~")), 0)
        encoded = "/".join(segments[: ends + 1])
    try:
        return decode(encoded)
    except ValueError:  # no name of ours: not ASCII, or not the code of any text
        return None


async def _item(store: JobStore, job_id: str, item_id: str) -> ItemRecord | None:
    try:
        return await store.item(job_id, item_id)
    except UnknownName:
        return None

"""Checks files against their stored hashes, manifest lists against the store's rows, and finds files without an owner.

Lists and rows are both in order of `seq`. What is in memory at once is bounded in files and bytes.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

import msgspec

from swath.domain.errors import UnknownName
from swath.domain.item import ItemRecord
from swath.domain.job import Job
from swath.domain.manifest import ManifestPart
from swath.domain.result import Artifact
from swath.domain.storage_keys import Layout, decode_key
from swath.pipeline.formats.manifests import item_key, lists_of, part_key
from swath.pipeline.results.verify.report import ProblemCode, ProblemList, describe_difference
from swath.ports.job_store import JobStore
from swath.ports.result_storage import ResultStorage

__all__ = ["FileCheck", "ListCheck", "find_strays"]

_GROUP_FILES: Final = 64
_GROUP_BYTES: Final = 16 * 1024 * 1024


class FileCheck:
    """Reads files of one job and compares them with what they should be; `present` counts those that were there."""

    def __init__(self, job_id: str, storage: ResultStorage) -> None:
        self._job_id = job_id
        self._storage = storage
        self.present = 0
        self.bytes = 0

    async def check(self, wanted: Iterable[Artifact], findings: ProblemList) -> list[Artifact]:
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
                    findings.add(ProblemCode.ARTIFACT_CHANGED, artifact.key, describe_difference(artifact, len(body)))
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
    job: Job, referred: Collection[str], store: JobStore, storage: ResultStorage, findings: ProblemList
) -> None:
    """Notes every key under items/ and manifests/ that neither an item nor `referred` names. One look-up an item."""
    job_id = job.job_id
    record: ItemRecord | None = None
    for folder in ("items/", "manifests/"):
        async for key in storage.keys(job_id, folder):
            if key in referred:
                continue
            item_id = _item_id_of_key(key)
            if item_id is not None and (record is None or record.item_id != item_id):
                record = await _find_item(store, job_id, item_id)
            if item_id is None or record is None or key not in _expected_keys(job, record):
                findings.add(ProblemCode.STRAY_KEY, key, "nothing refers to this file")


def _expected_keys(job: Job, record: ItemRecord) -> set[str]:
    keys = {artifact.key for artifact in record.artifacts}
    return keys | {item_key(record.item_id)} if job.layout is Layout.FILES else keys


def _item_id_of_key(key: str) -> str | None:
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
        return decode_key(encoded)
    except ValueError:  # no name of ours: not ASCII, or not the code of any text
        return None


async def _find_item(store: JobStore, job_id: str, item_id: str) -> ItemRecord | None:
    try:
        return await store.item(job_id, item_id)
    except UnknownName:
        return None


class _ListPart(msgspec.Struct, frozen=True):
    job_id: str
    list_name: str = msgspec.field(name="list")
    part: int
    items: list[msgspec.Raw]


class _ListEntry(msgspec.Struct, frozen=True):
    item_id: str
    seq: int


class ListCheck:
    """One list of one job: `expect` each of its rows in order, then `end`."""

    def __init__(
        self, job_id: str, name: str, parts: tuple[ManifestPart, ...], storage: ResultStorage, store: JobStore
    ) -> None:
        self._job_id = job_id
        self._name = name
        self._parts = deque(enumerate(parts, 1))
        self._storage = storage
        self._store = store
        self._lines: deque[bytes] = deque()
        self._key = ""
        self.read_parts: set[str] = set()

    async def expect(self, record: ItemRecord, line: bytes, findings: ProblemList) -> None:
        """The next entry must be this one."""
        while (head := await self._head(findings)) is not None:
            if head == line:
                self._lines.popleft()
                return
            entry = self._decode(head, findings)
            if entry is not None and entry.seq > record.seq:
                break
            self._lines.popleft()
            if entry is not None and entry.seq == record.seq:
                if msgspec.json.decode(head) != msgspec.json.decode(line):  # or is it only written otherwise?
                    message = f"its entry in {self._key} is not what the store says"
                    findings.add(ProblemCode.ITEM_DIFFERS, record.item_id, message)
                return
            if entry is not None:
                await self._explain(entry, findings)
        findings.add(ProblemCode.ITEM_NOT_LISTED, record.item_id, f"it is missing from the list {self._name!r}")

    async def end(self, findings: ProblemList) -> None:
        """No entry may be left."""
        while (head := await self._head(findings)) is not None:
            entry = self._decode(head, findings)
            self._lines.popleft()
            if entry is not None:
                await self._explain(entry, findings)

    async def accept_emptied(self, written: int) -> None:
        """Parts behind the `written` ones are fine when they hold nothing: an earlier ending had so many parts, and on
        S3 those are emptied instead of removed."""
        while True:
            written += 1
            key = part_key(self._name, written)
            try:
                part = msgspec.json.decode(await self._storage.get(self._job_id, key), type=_ListPart)
            except (KeyError, msgspec.MsgspecError):
                return
            if part.items or part.list_name != self._name or part.part != written:
                return
            self.read_parts.add(key)

    async def _head(self, findings: ProblemList) -> bytes | None:
        while not self._lines and self._parts:
            number, part = self._parts.popleft()
            self._key = part.artifact.key
            self._lines.extend(await self._read(number, part, findings))
        return self._lines[0] if self._lines else None

    async def _read(self, number: int, part: ManifestPart, findings: ProblemList) -> list[bytes]:
        try:
            document = await self._storage.get(self._job_id, part.artifact.key)
        except KeyError:
            message = f"part {number} of the list {self._name!r} is not there; it held {part.items} items"
            findings.add(ProblemCode.PART_MISSING, part.artifact.key, message)
            return []
        self.read_parts.add(part.artifact.key)
        if hashlib.sha256(document).hexdigest() != part.artifact.sha256:
            message = "its checksum is not the one in the job's metadata"
            findings.add(ProblemCode.PART_CHANGED, part.artifact.key, message)
        try:
            decoded = msgspec.json.decode(document, type=_ListPart)
        except msgspec.MsgspecError as error:
            findings.add(ProblemCode.PART_UNREADABLE, part.artifact.key, f"it is no manifest part: {error}")
            return []
        return [bytes(line) for line in decoded.items]

    def _decode(self, line: bytes, findings: ProblemList) -> _ListEntry | None:
        try:
            return msgspec.json.decode(line, type=_ListEntry)
        except msgspec.MsgspecError as error:
            findings.add(ProblemCode.PART_UNREADABLE, self._key, f"it holds something that is no entry: {error}")
            return None

    async def _explain(self, entry: _ListEntry, findings: ProblemList) -> None:
        """Says why an entry should not stand where it stands."""
        try:
            record = await self._store.item(self._job_id, entry.item_id)
        except UnknownName:
            message = f"{self._key} lists it, and the store does not know it"
            findings.add(ProblemCode.ITEM_LISTED_WRONGLY, entry.item_id, message)
            return
        if self._name not in lists_of(record.state):
            message = f"{self._key} lists it, though it is {record.state}"
            findings.add(ProblemCode.ITEM_LISTED_WRONGLY, entry.item_id, message)
        else:
            message = f"{self._key} lists it again, or out of order"
            findings.add(ProblemCode.ITEM_LISTED_TWICE, entry.item_id, message)

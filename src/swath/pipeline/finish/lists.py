"""Checks one manifest list against the store's rows, both in order of `seq`, with one part in memory at a time.

Called by verify.py for each row as it streams by: what the list has besides, or lacks, is a problem.
"""

from __future__ import annotations

import hashlib
from collections import deque

import msgspec

from swath.domain.errors import UnknownName
from swath.domain.item import ItemRecord
from swath.domain.manifest import ManifestPart
from swath.pipeline.finish.manifests import lists_of, part_key
from swath.pipeline.finish.report import Findings, ProblemCode
from swath.ports.job_store import JobStore
from swath.ports.result_storage import ResultStorage

__all__ = ["ListCheck"]


class _Part(msgspec.Struct, frozen=True):
    job_id: str
    list_name: str = msgspec.field(name="list")
    part: int
    items: list[msgspec.Raw]


class _Entry(msgspec.Struct, frozen=True):
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

    async def expect(self, record: ItemRecord, line: bytes, findings: Findings) -> None:
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

    async def end(self, findings: Findings) -> None:
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
                part = msgspec.json.decode(await self._storage.get(self._job_id, key), type=_Part)
            except (KeyError, msgspec.MsgspecError):
                return
            if part.items or part.list_name != self._name or part.part != written:
                return
            self.read_parts.add(key)

    async def _head(self, findings: Findings) -> bytes | None:
        while not self._lines and self._parts:
            number, part = self._parts.popleft()
            self._key = part.artifact.key
            self._lines.extend(await self._read(number, part, findings))
        return self._lines[0] if self._lines else None

    async def _read(self, number: int, part: ManifestPart, findings: Findings) -> list[bytes]:
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
            decoded = msgspec.json.decode(document, type=_Part)
        except msgspec.MsgspecError as error:
            findings.add(ProblemCode.PART_UNREADABLE, part.artifact.key, f"it is no manifest part: {error}")
            return []
        return [bytes(line) for line in decoded.items]

    def _decode(self, line: bytes, findings: Findings) -> _Entry | None:
        try:
            return msgspec.json.decode(line, type=_Entry)
        except msgspec.MsgspecError as error:
            findings.add(ProblemCode.PART_UNREADABLE, self._key, f"it holds something that is no entry: {error}")
            return None

    async def _explain(self, entry: _Entry, findings: Findings) -> None:
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

"""The documents of a manifest, and the writer that fills them in bounded memory.

The same rows always give the same bytes, so an ending that is repeated, even by two processes at once, changes
nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from swath.domain.item import PART_BYTES, ItemRecord
from swath.domain.job import Job, JobStatus
from swath.domain.manifest import PART_ITEMS, JobMetadata, ManifestPart, ManifestTotals, manifest_entry
from swath.domain.storage_keys import Layout, encode_key
from swath.domain.transitions import ItemState, JobState
from swath.observability.crash_points import reach
from swath.ports.result_storage import ResultStorage

__all__ = [
    "LISTS",
    "METADATA_KEY",
    "ManifestParts",
    "ManifestWriter",
    "entry_line",
    "generation_key",
    "item_key",
    "lists_of",
    "make_job_metadata",
    "metadata_document",
    "part_document",
    "part_key",
    "part_number",
]

METADATA_KEY: Final = "job_metadata.json"
LISTS: Final = ("full", "success", "errors")

ManifestParts = Mapping[str, tuple[ManifestPart, ...]]
"""The parts of each list, in order."""

_encoder: Final = msgspec.json.Encoder(order="deterministic")


def lists_of(state: ItemState) -> tuple[str, str]:
    """The lists that an ended item belongs to. Everything that is no success is to be looked at, so `errors` has it."""
    return ("full", "success" if state is ItemState.SUCCESS else "errors")


def part_key(list_name: str, number: int) -> str:
    """Parts count from 1; a list without items has none."""
    return f"manifests/{list_name}/part-{number}.json"


def part_number(key: str) -> int:
    """The number of a part; 0 for a key that is none."""
    number = key.rpartition("/part-")[2].removesuffix(".json")
    return int(number) if number.isdecimal() else 0


def generation_key(generation: int) -> str:
    """Where the metadata of a former generation is kept."""
    return f"manifests/generations/{generation}.json"


def item_key(item_id: str) -> str:
    """Where one item's entry lies by itself."""
    return f"manifests/items/{encode_key(item_id)}.json"


def entry_line(job: Job, record: ItemRecord) -> bytes:
    """One item's entry, as it stands in every list and by itself."""
    return _encoder.encode(manifest_entry(job, record))


def part_document(job_id: str, list_name: str, number: int, lines: Sequence[bytes], generation: int = 1) -> bytes:
    """A part as a JSON object with one item a line.

    It ends with a newline for each generation, so that no two generations write the same bytes: S3 tells a late writer
    by the hash of what it wants to replace.
    """
    head = _encoder.encode({"job_id": job_id, "list": list_name, "part": number})
    return b'%s,"items":[\n%s\n]}%s' % (head[:-1], b",\n".join(lines), b"\n" * generation)


def make_job_metadata(
    status: JobStatus, state: JobState, tally: ManifestTotals, parts: ManifestParts, missing_items: int = 0
) -> JobMetadata:
    """`job_metadata.json` of a job that ends in `state`. Follows from the store alone: no time of writing is in it."""
    first, last = tally.first_attempt_at, tally.last_attempt_at
    return JobMetadata(
        job_id=status.job.job_id,
        scraper_id=status.job.scraper_id,
        status=state.value,
        generation=status.generation,
        counts=tally.counts(),
        failures=dict(sorted(tally.failures.items())),
        parts=dict(parts),
        first_attempt_at=first,
        last_attempt_at=last,
        duration_seconds=0.0 if first is None or last is None else last - first,
        bytes=tally.bytes,
        requests=tally.requests,
        cache_hits=tally.cache_hits,
        scraper_versions=dict(sorted(tally.scraper_versions.items())),
        cost=round(status.cost, 6),
        created_at=status.job.created_at,
        layout=status.job.layout.value,
        execution_policy=status.job.policy.as_json(),
        circuit_opened=status.circuit_opened,
        missing_items=missing_items or msgspec.UNSET,
    )


def metadata_document(metadata: JobMetadata | Mapping[str, Any]) -> bytes:
    """The same, or what the store kept of it, as indented JSON, since people read it."""
    return msgspec.json.format(_encoder.encode(metadata), indent=2) + b"\n"


class _ListWriter:
    def __init__(self, job_id: str, name: str, part_items: int, generation: int) -> None:
        self._job_id = job_id
        self._name = name
        self._part_items = part_items
        self._generation = generation
        self._lines: list[bytes] = []
        self._bytes = 0
        self._number = 0

    def has_room(self, line: bytes) -> bool:
        """Whether the part that is being filled can hold this too. An entry that is larger than a part has its own."""
        return not self._lines or self._bytes + len(line) <= PART_BYTES

    def add(self, line: bytes) -> bool:
        """Whether a part is full now."""
        self._lines.append(line)
        self._bytes += len(line)
        return len(self._lines) == self._part_items

    def take(self) -> tuple[str, bytes, int] | None:
        """Key, document and number of items of the next part, if there is anything for it."""
        if not self._lines:
            return None
        self._number += 1
        lines, self._lines, self._bytes = self._lines, [], 0
        key = part_key(self._name, self._number)
        document = part_document(self._job_id, self._name, self._number, lines, self._generation)
        return key, document, len(lines)


class ManifestWriter:
    """Takes a job's items in order of `seq` and writes each into its lists and, unless results are packed, into a
    document of its own, under the fence of the lease that ends this generation. Documents of items that did not run
    in this generation stay as they are: writing them would take longer than all the rest of a small retry."""

    def __init__(
        self, job: Job, storage: ResultStorage, part_items: int = PART_ITEMS, *, fence: int, generation: int = 1
    ) -> None:
        self._job = job
        self._fence = fence
        self._generation = generation
        self._storage = storage
        self._lists = {name: _ListWriter(job.job_id, name, part_items, generation) for name in LISTS}
        self._parts: dict[str, list[ManifestPart]] = {name: [] for name in LISTS}
        self.tally = ManifestTotals()

    async def add(self, records: Sequence[ItemRecord]) -> None:
        """Writes the entries of these items, and the parts that are full by them, in one batch."""
        documents: dict[str, bytes] = {}
        unchanged: dict[str, bytes] = {}
        new_parts: dict[str, tuple[str, int]] = {}
        one_by_one = self._job.layout is Layout.FILES
        for record in records:
            self.tally.add(record)
            line = entry_line(self._job, record)
            if one_by_one:
                kept = unchanged if record.generation < self._generation else documents
                kept[item_key(record.item_id)] = line
            for name in lists_of(record.state):
                if not self._lists[name].has_room(line):
                    self._take(name, documents, new_parts)
                if self._lists[name].add(line):
                    self._take(name, documents, new_parts)
        await self._write(documents | await self._absent(unchanged), new_parts)

    async def _absent(self, unchanged: Mapping[str, bytes]) -> dict[str, bytes]:
        """Those documents of former generations that are not there any more."""
        if not unchanged:
            return {}
        sizes = {key: len(line) for key, line in unchanged.items()}
        absent = await self._storage.absent(self._job.job_id, sizes)
        return {key: line for key, line in unchanged.items() if key in absent}

    async def close(self) -> dict[str, tuple[ManifestPart, ...]]:
        """Writes the parts that are not full, and answers with all of them."""
        documents: dict[str, bytes] = {}
        new_parts: dict[str, tuple[str, int]] = {}
        for name in LISTS:
            self._take(name, documents, new_parts)
        await self._write(documents, new_parts)
        return {name: tuple(parts) for name, parts in self._parts.items()}

    def _take(self, name: str, documents: dict[str, bytes], new_parts: dict[str, tuple[str, int]]) -> None:
        taken = self._lists[name].take()
        if taken is not None:
            key, document, items = taken
            documents[key] = document
            new_parts[key] = name, items

    async def _write(self, documents: Mapping[str, bytes], new_parts: Mapping[str, tuple[str, int]]) -> None:
        if not documents:
            return
        for artifact in await self._storage.put_under(self._job.job_id, self._fence, documents):
            if artifact.key in new_parts:
                name, items = new_parts[artifact.key]
                self._parts[name].append(ManifestPart(artifact=artifact, items=items))
        if new_parts:
            reach("after_manifest_part")

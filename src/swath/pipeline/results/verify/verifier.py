"""Verifies a job: whether store rows, counters, manifests and artifacts agree, file by file. Reads only.

A job that has not ended is checked as far as that is possible.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from typing import Any, Final

import msgspec

from swath.domain.item import ItemRecord
from swath.domain.job import JobStatus
from swath.domain.manifest import MISSING_ITEMS_KEY, JobMetadata, ManifestTotals
from swath.domain.result import Artifact
from swath.domain.result_versions import DIFF_KEY, version_of
from swath.domain.storage_keys import PACKS_PREFIX, Layout, PackLocation
from swath.pipeline.formats.manifests import (
    LISTS,
    METADATA_KEY,
    ManifestParts,
    entry_line,
    generation_key,
    item_key,
    lists_of,
    make_job_metadata,
)
from swath.pipeline.results.verify.files import FileCheck, ListCheck, find_strays
from swath.pipeline.results.verify.packs import PackCheck
from swath.pipeline.results.verify.report import Problem, ProblemCode, ProblemList, VerifyReport
from swath.ports.job_store import JobStore
from swath.ports.result_storage import ResultStorage

__all__ = ["Problem", "ProblemCode", "VerifyReport", "verify"]

_READ_ITEMS: Final = 1_000
_UNCOUNTED_STATES: Final = {"pending", "queued", "in_progress"}  # how far a lease is; no counter stands behind them


async def verify(
    store: JobStore, storage: ResultStorage, job_id: str, told: Callable[[int], None] | None = None
) -> VerifyReport:
    """Checks one job in bounded memory; `told` hears of each batch how many items it has.

    Raises UnknownName when there is no such job, StoreDamaged when its rows cannot be read at all.
    """
    status = await store.status(job_id)
    check = _Verification(status, store, storage, told)
    if status.state.terminal:
        return await check.finished_job()
    return await check.unfinished_job()


class _Verification:
    def __init__(
        self, status: JobStatus, store: JobStore, storage: ResultStorage, told: Callable[[int], None] | None
    ) -> None:
        self._status = status
        self._told = told
        self._job_id = status.job.job_id
        self._store = store
        self._storage = storage
        self._findings = ProblemList()
        self._tally = ManifestTotals()
        self._artifacts = FileCheck(self._job_id, storage)
        self._entries = FileCheck(self._job_id, storage)
        self._packs = PackCheck(self._job_id, storage, ended=status.state.terminal)
        self._unpublished = 0
        self._last_seq = 0

    async def finished_job(self) -> VerifyReport:
        """Everything must agree exactly."""
        metadata = await self._read_metadata()
        parts: ManifestParts = {} if metadata is None else metadata.parts
        lists = {name: ListCheck(self._job_id, name, parts.get(name, ()), self._storage, self._store) for name in LISTS}
        async for records in self._batches():
            await self._check_lists(records, lists)
            await self._check_artifacts(records)
        for name, check in lists.items():
            await check.end(self._findings)
            await check.accept_emptied(len(parts.get(name, ())))
        self._check_counters(self._status)
        if metadata is not None:
            self._check_sums(metadata)
        former = await self._check_former()
        await self._check_strays({key for check in lists.values() for key in check.read_parts} | former)
        await self._packs.end(self._findings, retried=self._status.generation > 1)
        for fence in await self._storage.open_leases(self._job_id):
            message = "the files of this lease were neither published nor thrown away"
            self._findings.add(ProblemCode.STAGED_LEFT, f"lease {fence}", message)
        return self._report()

    async def unfinished_job(self) -> VerifyReport:
        """Rows may change while they are read, so counters are compared with what they were before and after."""
        async for records in self._batches():
            await self._check_artifacts(records)
        self._check_counters(await self._store.status(self._job_id))
        return self._report()

    async def _batches(self) -> AsyncIterator[list[ItemRecord]]:
        after = 0
        while records := await self._store.items(self._job_id, after, _READ_ITEMS):
            for record in records:
                self._tally.add(record)
            yield records
            if self._told is not None:
                self._told(len(records))
            self._last_seq = after = records[-1].seq

    async def _read_metadata(self) -> JobMetadata | None:
        """What the store kept at the end; the document must be the same."""
        kept = self._status.manifest
        try:
            document = msgspec.json.decode(await self._storage.get(self._job_id, METADATA_KEY))
        except KeyError:
            self._findings.add(ProblemCode.METADATA_MISSING, METADATA_KEY, "the job has ended and has no metadata")
        except msgspec.MsgspecError as error:
            self._findings.add(ProblemCode.METADATA_WRONG, METADATA_KEY, f"it is no JSON: {error}")
        else:
            if document != kept:
                fields = _differing_fields(document, kept)
                message = f"it is not what the store kept when the job ended; differing: {fields}"
                self._findings.add(ProblemCode.METADATA_WRONG, METADATA_KEY, message)
        try:
            return msgspec.convert(kept, JobMetadata)
        except msgspec.MsgspecError as error:
            message = f"what the store kept of the manifest cannot be read: {error}"
            self._findings.add(ProblemCode.METADATA_WRONG, METADATA_KEY, message)
            return None

    async def _check_former(self) -> set[str]:
        """Every former generation ended, and its metadata was kept; answers with what is there."""
        wanted = {generation_key(number) for number in range(1, self._status.generation)}
        found = {key async for key in self._storage.keys(self._job_id, "manifests/generations/")}
        for key in sorted(wanted - found):
            self._findings.add(ProblemCode.METADATA_MISSING, key, "the metadata of a former generation is not there")
        return wanted & found

    async def _check_lists(self, records: Sequence[ItemRecord], lists: Mapping[str, ListCheck]) -> None:
        entries = []
        for record in records:
            if not record.state.terminal:
                message = f"the job is {self._status.state}, and the item is {record.state}"
                self._findings.add(ProblemCode.ITEM_OPEN, record.item_id, message)
                continue
            line = entry_line(self._status.job, record)
            if self._status.job.layout is Layout.FILES:
                entries.append(Artifact(item_key(record.item_id), len(line), hashlib.sha256(line).hexdigest()))
            for name in lists_of(record.state):
                await lists[name].expect(record, line, self._findings)
        for entry in await self._entries.check(entries, self._findings):
            self._findings.add(ProblemCode.ARTIFACT_MISSING, entry.key, "the item's own manifest entry is not there")

    async def _check_artifacts(self, records: Sequence[ItemRecord]) -> None:
        await self._packs.check(records, self._findings)
        ended = [(record, artifact) for record in records if record.state.terminal for artifact in record.artifacts]
        owners = {artifact.key: record for record, artifact in ended if PackLocation.of(artifact.key) is None}
        wanted = [artifact for _, artifact in ended if artifact.key in owners]
        missing = await self._artifacts.check(wanted, self._findings)
        if missing and not self._status.state.terminal:
            rooms = await self._storage.open_leases(self._job_id)
            staged = {artifact.key for artifact in missing if owners[artifact.key].fence in rooms}
            self._unpublished += len({owners[key].seq for key in staged})
            # A lease that is settled by now has published them since we looked.
            again = [artifact for artifact in missing if artifact.key not in staged]
            missing = await self._artifacts.check(again, self._findings)
        for artifact in missing:
            message = f"a file of item {owners[artifact.key].item_id!r} is not there"
            self._findings.add(ProblemCode.ARTIFACT_MISSING, artifact.key, message)

    def _check_counters(self, after: JobStatus) -> None:
        rows = msgspec.to_builtins(self._tally.counts()) | self._tally.failures
        low, high = ({**msgspec.to_builtins(s.counts), **s.failures} for s in (self._status, after))
        for name in sorted({*rows, *low, *high} - _UNCOUNTED_STATES):
            least, most, found = low.get(name, 0), high.get(name, 0), rows.get(name, 0)
            if not least <= found <= most:
                counted = str(least) if least == most else f"{least} to {most}"
                message = f"the counter says {counted}, the items add up to {found}"
                self._findings.add(ProblemCode.COUNTER_WRONG, name, message)

        if self._last_seq > after.loaded_rows:
            message = f"the counter says {after.loaded_rows}, and there is an item of row {self._last_seq}"
            self._findings.add(ProblemCode.COUNTER_WRONG, "loaded_rows", message)

    def _check_sums(self, kept: JobMetadata) -> None:
        expected = make_job_metadata(self._status, self._status.state, self._tally, kept.parts)
        # The policy may have been changed since: it is what a retry will obey. What is missing was so at the end.
        expected = msgspec.structs.replace(
            expected, execution_policy=kept.execution_policy, missing_items=kept.missing_items
        )
        if kept != expected:
            fields = _differing_fields(msgspec.to_builtins(kept), msgspec.to_builtins(expected))
            message = f"what the store kept of it is not what the rows add up to; differing: {fields}"
            self._findings.add(ProblemCode.METADATA_WRONG, METADATA_KEY, message)

    async def _check_strays(self, parts: Collection[str]) -> None:
        """Whoever is referred to was seen, so strays can be counted before they are looked for one by one."""
        listed = 0
        documents = {METADATA_KEY, MISSING_ITEMS_KEY}
        if version_of(self._status.job) is not None:
            documents.add(DIFF_KEY)
        async for key in self._storage.keys(self._job_id):
            if key.startswith(("items/", "manifests/")):
                listed += 1
            elif key not in documents and not key.startswith(PACKS_PREFIX):
                self._findings.add(ProblemCode.STRAY_KEY, key, "nothing refers to this file")
        if listed != self._artifacts.present + self._entries.present + len(parts):
            await find_strays(self._status.job, parts, self._store, self._storage, self._findings)

    def _report(self) -> VerifyReport:
        return VerifyReport(
            job_id=self._job_id,
            state=self._status.state,
            counts=self._tally.counts(),
            artifacts=self._artifacts.present + self._packs.present,
            bytes=self._artifacts.bytes + self._packs.bytes,
            unpublished=self._unpublished,
            problems=tuple(self._findings.problems),
            found=dict(self._findings.found),
        )


def _differing_fields(one: Any, other: Any) -> str:
    if not isinstance(one, dict) or not isinstance(other, dict):
        return "everything"
    return ", ".join(sorted(name for name in {**one, **other} if one.get(name) != other.get(name)))

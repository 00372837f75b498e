"""Writes the results of a lease to storage, one writer for each layout.

`store` is called before a commit, `publish` with what the commit accepted, `settle` when the lease is empty.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, Final, Protocol, TypeVar

import msgspec

from swath.domain.failure import Failure, FailureKind
from swath.domain.item import EndedItem
from swath.domain.lease import Lease
from swath.domain.result import Artifact
from swath.domain.storage_keys import Layout, PackLocation
from swath.domain.transitions import ItemState
from swath.observability.crash_points import reach
from swath.pipeline.finish.cleanup import PackLedger
from swath.pipeline.formats.artifacts import StoredMetadata, make_item_files
from swath.pipeline.formats.packs import PackedItem, Packer, pack_locations, packed_artifacts
from swath.pipeline.worker.outcome_buffer import Outcome
from swath.ports.result_storage import ResultStorage, StagedItem

__all__ = ["ResultWriter", "result_writer_for"]

T = TypeVar("T")

YIELD_SECONDS: Final = 0.001  # for so long the event loop packs before it does something else
LARGE_BYTES: Final = 256 * 1024  # pages that would take it longer


class RetryWhileAway(Protocol):
    """Repeats a call for as long as the storage is away and the lease is ours."""

    async def __call__(self, call: Callable[[], Awaitable[T]], /) -> T:
        """Raises LeaseLost."""
        ...


class ResultWriter(Protocol):
    """`publish` and `settle` can be repeated. `gather_seconds`: how long outcomes are to be gathered for `store`."""

    gather_seconds: float

    async def open(self) -> None:
        """Makes room in storage for what will come."""
        ...

    async def store(self, outcomes: Sequence[Outcome], patiently: RetryWhileAway) -> list[EndedItem]:
        """Stores the results of a group; each end then names its artifacts. What cannot be written costs its item, not
        the group that it is committed with."""
        ...

    async def publish(self, item_ids: Collection[str]) -> None:
        """The ends of these items were accepted."""
        ...

    async def settle(self) -> None:
        """Nothing more will come: ends the lease in storage."""
        ...


def result_writer_for(lease: Lease, storage: ResultStorage) -> ResultWriter:
    """As the job's layout wants it."""
    return _PackWriter(lease, storage) if lease.job.layout is Layout.WARC else _FileWriter(lease, storage)


class _FileWriter:
    """Every file by itself: staged, then published item by item."""

    gather_seconds = 0.0

    def __init__(self, lease: Lease, storage: ResultStorage) -> None:
        self._lease = lease
        self._job_id = lease.job.job_id
        self._storage = storage
        self._first = {item.item_id for item in lease.items if item.first}
        self._won: list[str] = []

    async def open(self) -> None:
        await self._storage.open_lease(self._job_id, self._lease.fence, self._lease.items)

    async def store(self, outcomes: Sequence[Outcome], patiently: RetryWhileAway) -> list[EndedItem]:
        made = await asyncio.to_thread(lambda: [_build(outcome, self._files) for outcome in outcomes])
        ids = [outcome.item_id for outcome in outcomes]
        staged = [
            StagedItem(item_id, files, first=item_id in self._first)
            for item_id, (_, files) in zip(ids, made, strict=True)
            if files
        ]
        kept = await patiently(lambda: self._storage.stage(self._job_id, self._lease.fence, staged))
        reach("after_stage")
        by_item = {item.item_id: artifacts for item, artifacts in zip(staged, kept, strict=True)}
        return [_with_artifacts(end, by_item.get(item_id, ())) for item_id, (end, _) in zip(ids, made, strict=True)]

    def _files(self, outcome: Outcome, end: EndedItem) -> dict[str, bytes]:
        job = self._lease.job
        return make_item_files(job, outcome.item_id, outcome.result, job.policy.keep, _item_metadata(end))

    async def publish(self, item_ids: Collection[str]) -> None:
        await self._storage.publish(self._job_id, self._lease.fence, item_ids)
        self._won += item_ids

    async def settle(self) -> None:
        await self._storage.settle(self._job_id, self._lease.fence, self._won)


class _PackWriter:
    """All of a group at once, at the end of the lease's packs, which are published when the lease is settled."""

    def __init__(self, lease: Lease, storage: ResultStorage) -> None:
        self.gather_seconds = storage.pack_seconds
        self._lease = lease
        self._storage = storage
        self._stored: dict[str, tuple[list[PackLocation], StoredMetadata]] = {}  # of the group that is being committed
        self._ledger = PackLedger()

    async def open(self) -> None:
        await self._storage.open_lease(self._lease.job.job_id, self._lease.fence)

    async def store(self, outcomes: Sequence[Outcome], patiently: RetryWhileAway) -> list[EndedItem]:
        packer = Packer(self._lease.job)

        def pack(outcome: Outcome, end: EndedItem) -> PackedItem:
            return packer.add(outcome.item_id, outcome.result, _item_metadata(end))

        made = await _build_all(outcomes, pack)
        additions = packer.additions()
        placed = await patiently(lambda: self._storage.append(self._lease.job.job_id, self._lease.fence, additions))
        reach("after_stage")
        ends = []
        self._stored.clear()
        for outcome, (end, item) in zip(outcomes, made, strict=True):
            if item is None:
                ends.append(end)
                continue
            places = pack_locations(item, placed)
            self._stored[outcome.item_id] = places, item.stored
            ends.append(_with_artifacts(end, packed_artifacts(item, places)))
        return ends

    async def publish(self, item_ids: Collection[str]) -> None:
        for item_id in item_ids:
            if item_id in self._stored:
                self._ledger.add(*self._stored.pop(item_id))

    async def settle(self) -> None:
        await self._ledger.settle(self._storage, self._lease.job.job_id, self._lease.fence)


async def _build_all(
    outcomes: Sequence[Outcome], make: Callable[[Outcome, EndedItem], T]
) -> list[tuple[EndedItem, T | None]]:
    """Small ones here, a few at a time: in a thread, each step of each would wait for the interpreter again."""
    made, loop = list[tuple[EndedItem, T | None]](), asyncio.get_running_loop()
    until = loop.time() + YIELD_SECONDS
    for outcome in outcomes:
        if outcome.size > LARGE_BYTES:
            made.append(await asyncio.to_thread(_build, outcome, make))
        else:
            made.append(_build(outcome, make))
        if loop.time() > until:
            await asyncio.sleep(0)
            until = loop.time() + YIELD_SECONDS
    return made


def _build(outcome: Outcome, make: Callable[[Outcome, EndedItem], T]) -> tuple[EndedItem, T | None]:
    """What `make` makes of it, or the item failed because of that."""
    end = outcome.end
    if not isinstance(end, EndedItem):
        raise TypeError("only ends have files")
    try:
        return end, make(outcome, end)
    except Exception as error:  # noqa: BLE001 whatever a scraper's result does to the writers
        failure = Failure.of(FailureKind.INTERNAL, f"the result cannot be stored: {type(error).__name__}: {error}")
        return msgspec.structs.replace(end, state=ItemState.FAILED, finding=None, failure=failure), None


def _with_artifacts(end: EndedItem, artifacts: tuple[Artifact, ...]) -> EndedItem:
    return msgspec.structs.replace(end, artifacts=artifacts)


def _item_metadata(end: EndedItem) -> dict[str, Any]:
    """What metadata.json says beside the pages."""
    return {
        "state": end.state,
        "outcome": end.finding,
        "failure": None if end.failure is None else msgspec.to_builtins(end.failure),
        "scraper_version": end.scraper_version,
        "attempts": len(end.attempts),
    }

"""Keepers: how the results of a lease get into storage, one for each layout (R2). The committer calls them in turn:
`store` before a commit, `publish` with what it accepted, `settle` when the lease is empty.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, Final, Protocol, TypeVar

import msgspec

from swath.domain.attempt import Ended
from swath.domain.failure import Failure, FailureKind
from swath.domain.layout import Layout, PackedAt
from swath.domain.lease import Lease
from swath.domain.result import Artifact
from swath.domain.transitions import ItemState
from swath.observe.crash_points import reach
from swath.pipeline.execute.outbox import Outcome
from swath.pipeline.finish.artifacts import Stored, files_of
from swath.pipeline.finish.packing import PackedItem, Packer, artifacts_of, places_of
from swath.pipeline.finish.settling import PackLedger
from swath.ports.result_storage import ResultStorage, StagedItem

__all__ = ["Keeper", "keeper_of"]

T = TypeVar("T")

TURN_SECONDS: Final = 0.001  # for so long the event loop packs before it does something else
LARGE_BYTES: Final = 256 * 1024  # pages that would take it longer


class Patiently(Protocol):
    """Repeats a call for as long as the storage is away and the lease is ours."""

    async def __call__(self, call: Callable[[], Awaitable[T]], /) -> T:
        """Raises LeaseLost."""
        ...


class Keeper(Protocol):
    """`publish` and `settle` can be repeated. `gather_seconds`: how long outcomes are to be gathered for `store`."""

    gather_seconds: float

    async def open(self) -> None:
        """Makes room in storage for what will come."""
        ...

    async def store(self, outcomes: Sequence[Outcome], patiently: Patiently) -> list[Ended]:
        """Stores the results of a group; each end then names its artifacts. What cannot be written costs its item, not
        the group that it is committed with."""
        ...

    async def publish(self, item_ids: Collection[str]) -> None:
        """The ends of these items were accepted."""
        ...

    async def settle(self) -> None:
        """Nothing more will come: ends the lease in storage."""
        ...


def keeper_of(lease: Lease, storage: ResultStorage) -> Keeper:
    """As the job's layout wants it."""
    return _PackKeeper(lease, storage) if lease.job.layout is Layout.WARC else _FileKeeper(lease, storage)


class _FileKeeper:
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

    async def store(self, outcomes: Sequence[Outcome], patiently: Patiently) -> list[Ended]:
        made = await asyncio.to_thread(lambda: [_made(outcome, self._files) for outcome in outcomes])
        ids = [outcome.item_id for outcome in outcomes]
        staged = [
            StagedItem(item_id, files, first=item_id in self._first)
            for item_id, (_, files) in zip(ids, made, strict=True)
            if files
        ]
        kept = await patiently(lambda: self._storage.stage(self._job_id, self._lease.fence, staged))
        reach("after_stage")
        by_item = {item.item_id: artifacts for item, artifacts in zip(staged, kept, strict=True)}
        return [_naming(end, by_item.get(item_id, ())) for item_id, (end, _) in zip(ids, made, strict=True)]

    def _files(self, outcome: Outcome, end: Ended) -> dict[str, bytes]:
        job = self._lease.job
        return files_of(job, outcome.item_id, outcome.result, job.policy.keep, _about(end))

    async def publish(self, item_ids: Collection[str]) -> None:
        await self._storage.publish(self._job_id, self._lease.fence, item_ids)
        self._won += item_ids

    async def settle(self) -> None:
        await self._storage.settle(self._job_id, self._lease.fence, self._won)


class _PackKeeper:
    """All of a group at once, at the end of the lease's packs, which are published when the lease is settled."""

    def __init__(self, lease: Lease, storage: ResultStorage) -> None:
        self.gather_seconds = storage.pack_seconds
        self._lease = lease
        self._storage = storage
        self._stored: dict[str, tuple[list[PackedAt], Stored]] = {}  # of the group that is being committed
        self._ledger = PackLedger()

    async def open(self) -> None:
        await self._storage.open_lease(self._lease.job.job_id, self._lease.fence)

    async def store(self, outcomes: Sequence[Outcome], patiently: Patiently) -> list[Ended]:
        packer = Packer(self._lease.job)

        def pack(outcome: Outcome, end: Ended) -> PackedItem:
            return packer.add(outcome.item_id, outcome.result, _about(end))

        made = await _all_made(outcomes, pack)
        additions = packer.additions()
        placed = await patiently(lambda: self._storage.append(self._lease.job.job_id, self._lease.fence, additions))
        reach("after_stage")
        ends = []
        self._stored.clear()
        for outcome, (end, item) in zip(outcomes, made, strict=True):
            if item is None:
                ends.append(end)
                continue
            places = places_of(item, placed)
            self._stored[outcome.item_id] = places, item.stored
            ends.append(_naming(end, artifacts_of(item, places)))
        return ends

    async def publish(self, item_ids: Collection[str]) -> None:
        for item_id in item_ids:
            if item_id in self._stored:
                self._ledger.add(*self._stored.pop(item_id))

    async def settle(self) -> None:
        await self._ledger.settle(self._storage, self._lease.job.job_id, self._lease.fence)


async def _all_made(outcomes: Sequence[Outcome], make: Callable[[Outcome, Ended], T]) -> list[tuple[Ended, T | None]]:
    """Small ones here, a few at a time: in a thread, each step of each would wait for the interpreter again."""
    made, loop = list[tuple[Ended, T | None]](), asyncio.get_running_loop()
    until = loop.time() + TURN_SECONDS
    for outcome in outcomes:
        if outcome.size > LARGE_BYTES:
            made.append(await asyncio.to_thread(_made, outcome, make))
        else:
            made.append(_made(outcome, make))
        if loop.time() > until:
            await asyncio.sleep(0)
            until = loop.time() + TURN_SECONDS
    return made


def _made(outcome: Outcome, make: Callable[[Outcome, Ended], T]) -> tuple[Ended, T | None]:
    """What `make` makes of it, or the item failed because of that."""
    end = outcome.end
    if not isinstance(end, Ended):
        raise TypeError("only ends have files")
    try:
        return end, make(outcome, end)
    except Exception as error:  # noqa: BLE001 whatever a scraper's result does to the writers
        failure = Failure.of(FailureKind.INTERNAL, f"the result cannot be stored: {type(error).__name__}: {error}")
        return msgspec.structs.replace(end, state=ItemState.FAILED, finding=None, failure=failure), None


def _naming(end: Ended, artifacts: tuple[Artifact, ...]) -> Ended:
    return msgspec.structs.replace(end, artifacts=artifacts)


def _about(end: Ended) -> dict[str, Any]:
    """What metadata.json says beside the pages."""
    return {
        "state": end.state,
        "outcome": end.finding,
        "failure": None if end.failure is None else msgspec.to_builtins(end.failure),
        "scraper_version": end.scraper_version,
        "attempts": len(end.attempts),
    }

"""Reads jobs: turns job rows, specs and manifests into statuses."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

import msgspec

from swath.backends.aws.dynamo.layout import ACTIVE, DEMAND, JOBS, listed_key, manifest_key
from swath.backends.aws.store.job_row import JobRow, LeasePurpose
from swath.backends.aws.store.job_specs import StaleJobRow
from swath.backends.aws.store.store_context import StoreContext
from swath.domain.errors import StoreUnavailable
from swath.domain.job import EndingProgress, EndingStep, Job, JobEnding, JobStatus, WaitingFor, job_ending
from swath.domain.throughput import average_rate, current_rate
from swath.domain.transitions import JobState

__all__ = ["jobs", "manifest_parts", "status", "status_after", "status_of"]

_TRIES: Final = 20
_MANIFEST_BYTES: Final = 300_000
_LOOKED_AT_ONCE: Final = 100  # jobs, as many as one request reads
_MOST_LOOKED: Final = 1_000


async def status(ledger: StoreContext, job_id: str) -> JobStatus:
    """See JobStore.status."""
    for _ in range(_TRIES):
        head = await ledger.heads.look(job_id)
        try:
            return await status_of(ledger, head)
        except StaleJobRow:
            continue  # the policy was changed between two readings
    raise StoreUnavailable(f"job {job_id!r} changes too fast to be read", WaitingFor.STORE)


async def jobs(
    ledger: StoreContext, after: str | None, limit: int, states: Collection[JobState], on_demand: bool
) -> list[JobStatus]:
    """See JobStore.jobs. Those that have not ended are in a short list of their own."""
    below = None if after is None else (await ledger.heads.look(after)).number
    lists = (JOBS, DEMAND) if on_demand else (JOBS,)
    if states and not any(state.terminal for state in states):
        lists = (ACTIVE,)
    most = max(limit, _LOOKED_AT_ONCE) if states else max(limit, 1)
    heads: list[JobRow] = []
    for _ in range(max(1, _MOST_LOOKED // most)):
        numbers = await _listed(ledger, lists, below, most)
        heads += [
            head
            for head in reversed(await ledger.heads.look_at(numbers))
            if (not states or head.state in states) and (on_demand or not head.on_demand)
        ]
        if len(heads) >= limit or len(numbers) < most:
            break
        below = numbers[-1]
    return await _statuses(ledger, heads[:limit])


async def _listed(ledger: StoreContext, lists: Collection[str], below: int | None, most: int) -> list[int]:
    """The next numbers of these lists, the highest first."""
    last = "~" if below is None else listed_key(JOBS, below - 1).s
    numbers = [
        int(row.key.s)
        for partition in lists
        async for row in ledger.table.query(partition, "0", last, reverse=True, limit=most)
    ]
    return sorted(numbers, reverse=True)[:most]


async def _statuses(ledger: StoreContext, newest_first: list[JobRow]) -> list[JobStatus]:
    orders = await ledger.orders.of_many(newest_first)
    manifests = await _manifests(ledger, newest_first)
    return [
        _status(ledger, head, orders[head.number], manifests.get(head.number))
        if head.number in orders
        else await status(ledger, head.job_id)
        for head in newest_first
    ]


async def status_of(ledger: StoreContext, head: JobRow) -> JobStatus:
    """The job as others see it. Raises StaleHead."""
    order = await ledger.orders.of(head)
    return _status(ledger, head, order, (await _manifests(ledger, [head])).get(head.number))


async def status_after(ledger: StoreContext, head: JobRow) -> JobStatus:
    """The job as a change of it has left it."""
    try:
        return await status_of(ledger, head)
    except StaleJobRow:  # and somebody has changed it since
        return await status(ledger, head.job_id)


def manifest_parts(manifest: bytes) -> list[bytes]:
    """In pieces that rows can hold."""
    return [manifest[at : at + _MANIFEST_BYTES] for at in range(0, max(1, len(manifest)), _MANIFEST_BYTES)]


async def _manifests(ledger: StoreContext, heads: list[JobRow]) -> dict[int, dict[str, Any]]:
    keys = {
        head.number: [manifest_key(head.number, head.manifest, part) for part in range(head.manifest_parts)]
        for head in heads
        if head.manifest
    }
    rows = await ledger.table.get(*(key for parts in keys.values() for key in parts))
    whole = {number: b"".join(rows[key].body for key in parts if key in rows) for number, parts in keys.items()}
    return {
        number: msgspec.json.decode(whole[number])
        for number, parts in keys.items()
        if all(key in rows for key in parts)
    }


def _status(ledger: StoreContext, head: JobRow, order: Job, manifest: dict[str, Any] | None) -> JobStatus:
    if head.state.terminal and head.ended_at is not None:
        pace = average_rate(head.ran - head.ran_before, head.started_at, head.ended_at)
    else:
        at = max(ledger.times().shared, head.pace.at)
        pace = current_rate(head.pace, at, order.policy.throttling.max_concurrent_workers)
    return JobStatus(
        job=order,
        state=head.state,
        generation=head.generation,
        counts=head.counts,
        failures=dict(sorted(head.failures.items())),
        items_per_second=pace,
        started_at=head.started_at,
        ended_at=head.ended_at,
        loaded_rows=head.loaded_rows,
        loaded_batches=head.batches,
        stopping=head.stopping,
        circuit_opened=head.circuit.opened,
        waiting_for=None if head.state.terminal else ledger.waiting_for(head),
        ending=None if head.state.terminal else _ending(head, ledger.times().shared),
        deleting=head.deleting,
        cost=head.cost,
        manifest=manifest,
        versions=head.versions,
        current_version=head.current_version,
        scraper_versions=tuple(head.scraper_versions),
    )


def _ending(head: JobRow, shared: float) -> JobEnding | None:
    right = next((lease for lease in head.leases if lease.right is LeasePurpose.END and not lease.rescued), None)
    progress = None if right is None else right.progress or EndingProgress(EndingStep.STARTING)
    return job_ending(progress, head.ending_deaths, head.ending_due - shared)

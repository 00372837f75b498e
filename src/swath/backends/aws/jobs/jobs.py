"""Jobs as people see them: heads, orders and manifests turned into statuses.

Before: loading.py writes them, control.py changes them. Beside: items.py, which shows what is in them.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

import msgspec

from swath.backends.aws.jobs.head import Head, Right
from swath.backends.aws.jobs.ledger import Ledger
from swath.backends.aws.jobs.orders import StaleHead
from swath.backends.aws.table.layout import ACTIVE, DEMAND, JOBS, listed_key, manifest_key
from swath.domain.ending import Ending, EndingProgress, EndingStep, ending_of
from swath.domain.errors import StoreUnavailable
from swath.domain.job import Job, JobStatus, WaitingFor
from swath.domain.pace import overall, per_second
from swath.domain.transitions import JobState

__all__ = ["jobs", "manifest_parts", "status", "status_after", "status_of"]

_TRIES: Final = 20
_MANIFEST_BYTES: Final = 300_000
_LOOKED_AT_ONCE: Final = 100  # jobs, as many as one request reads
_MOST_LOOKED: Final = 1_000


async def status(ledger: Ledger, job_id: str) -> JobStatus:
    """See JobStore.status."""
    for _ in range(_TRIES):
        head = await ledger.heads.look(job_id)
        try:
            return await status_of(ledger, head)
        except StaleHead:
            continue  # the policy was changed between two readings
    raise StoreUnavailable(f"job {job_id!r} changes too fast to be read", WaitingFor.STORE)


async def jobs(
    ledger: Ledger, after: str | None, limit: int, states: Collection[JobState], on_demand: bool
) -> list[JobStatus]:
    """See JobStore.jobs. Those that have not ended are in a short list of their own."""
    below = None if after is None else (await ledger.heads.look(after)).number
    lists = (JOBS, DEMAND) if on_demand else (JOBS,)
    if states and not any(state.terminal for state in states):
        lists = (ACTIVE,)
    most = max(limit, _LOOKED_AT_ONCE) if states else max(limit, 1)
    heads: list[Head] = []
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


async def _listed(ledger: Ledger, lists: Collection[str], below: int | None, most: int) -> list[int]:
    """The next numbers of these lists, the highest first."""
    last = "~" if below is None else listed_key(JOBS, below - 1).s
    numbers = [
        int(row.key.s)
        for partition in lists
        async for row in ledger.table.query(partition, "0", last, reverse=True, limit=most)
    ]
    return sorted(numbers, reverse=True)[:most]


async def _statuses(ledger: Ledger, newest_first: list[Head]) -> list[JobStatus]:
    orders = await ledger.orders.of_many(newest_first)
    manifests = await _manifests(ledger, newest_first)
    return [
        _status(ledger, head, orders[head.number], manifests.get(head.number))
        if head.number in orders
        else await status(ledger, head.job_id)
        for head in newest_first
    ]


async def status_of(ledger: Ledger, head: Head) -> JobStatus:
    """The job as others see it. Raises StaleHead."""
    order = await ledger.orders.of(head)
    return _status(ledger, head, order, (await _manifests(ledger, [head])).get(head.number))


async def status_after(ledger: Ledger, head: Head) -> JobStatus:
    """The job as a change of it has left it."""
    try:
        return await status_of(ledger, head)
    except StaleHead:  # and somebody has changed it since
        return await status(ledger, head.job_id)


def manifest_parts(manifest: bytes) -> list[bytes]:
    """In pieces that rows can hold."""
    return [manifest[at : at + _MANIFEST_BYTES] for at in range(0, max(1, len(manifest)), _MANIFEST_BYTES)]


async def _manifests(ledger: Ledger, heads: list[Head]) -> dict[int, dict[str, Any]]:
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


def _status(ledger: Ledger, head: Head, order: Job, manifest: dict[str, Any] | None) -> JobStatus:
    if head.state.terminal and head.ended_at is not None:
        pace = overall(head.ran - head.ran_before, head.started_at, head.ended_at)
    else:
        at = max(ledger.times().shared, head.pace.at)
        pace = per_second(head.pace, at, order.policy.throttling.max_concurrent_workers)
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


def _ending(head: Head, shared: float) -> Ending | None:
    right = next((lease for lease in head.leases if lease.right is Right.END and not lease.rescued), None)
    progress = None if right is None else right.progress or EndingProgress(EndingStep.STARTING)
    return ending_of(progress, head.ending_deaths, head.ending_due - shared)

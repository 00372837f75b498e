"""Jobs as people see them: heads, orders and manifests turned into statuses.

Before: loading.py writes them, control.py changes them. Beside: items.py, which shows what is in them.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from swath.backends.aws.head import Head
from swath.backends.aws.layout import JOBS, listed_key, manifest_key
from swath.backends.aws.ledger import Ledger
from swath.backends.aws.orders import StaleHead
from swath.domain.errors import StoreUnavailable
from swath.domain.job import Job, JobStatus, WaitingFor
from swath.domain.pace import overall, per_second

__all__ = ["jobs", "manifest_parts", "status", "status_after", "status_of"]

_TRIES: Final = 20
_MANIFEST_BYTES: Final = 300_000


async def status(ledger: Ledger, job_id: str) -> JobStatus:
    """See JobStore.status."""
    for _ in range(_TRIES):
        head = await ledger.heads.look(job_id)
        try:
            return await status_of(ledger, head)
        except StaleHead:
            continue  # the policy was changed between two readings
    raise StoreUnavailable(f"job {job_id!r} changes too fast to be read", WaitingFor.STORE)


async def jobs(ledger: Ledger, after: str | None, limit: int) -> list[JobStatus]:
    """See JobStore.jobs."""
    last = "~"
    if after is not None:
        last = listed_key(JOBS, (await ledger.heads.look(after)).number - 1).s
    rows = ledger.table.query(JOBS, last=last, reverse=True, limit=limit)
    heads = await ledger.heads.look_at([int(row.key.s) async for row in rows])
    orders = await ledger.orders.of_many(heads)
    manifests = await _manifests(ledger, heads)
    newest_first = sorted(heads, key=lambda head: -head.number)
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
        stopping=head.stopping,
        circuit_opened=head.circuit.opened,
        waiting_for=None if head.state.terminal else ledger.presence.waiting_for(),
        deleting=head.deleting,
        cost=head.cost,
        manifest=manifest,
    )

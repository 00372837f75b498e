"""Renews and releases leases, and records what their workers wait for."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import suppress

import msgspec

from swath.backends.aws.client.rows import Delete, Put
from swath.backends.aws.dynamo.layout import held_key
from swath.backends.aws.store import slot_shares
from swath.backends.aws.store.job_row import JobRow
from swath.backends.aws.store.job_rows import JobChange, no_change
from swath.backends.aws.store.returned_items import ReturnedItem, add_returned, read_carried
from swath.backends.aws.store.store_context import StoreContext, directive_for
from swath.domain.errors import UnknownName
from swath.domain.lease import LeaseDirective

__all__ = ["release", "renew", "tell_waiting"]


async def renew(ledger: StoreContext, worker_id: str, fences: Collection[int]) -> dict[int, LeaseDirective]:
    """See LeaseBook.renew. Leases of one job are renewed by one write of its head."""
    answers = dict.fromkeys(fences, LeaseDirective.LOST)
    by_job: dict[str, list[int]] = {}
    for fence, job_id in (await ledger.jobs_with(fences)).items():
        by_job.setdefault(job_id, []).append(fence)
    told = await asyncio.gather(*(_renew(ledger, worker_id, job_id, mine) for job_id, mine in by_job.items()))
    for each in told:
        answers.update(each)
    return answers


async def _renew(ledger: StoreContext, worker_id: str, job_id: str, fences: list[int]) -> dict[int, LeaseDirective]:
    async def decide(head: JobRow) -> JobChange[dict[int, LeaseDirective]]:
        leases = [lease for fence in fences if (lease := head.lease(fence)) is not None]
        mine = [lease for lease in leases if lease.worker == worker_id and not lease.rescued]
        if not mine:
            return no_change({})
        for lease in mine:
            ledger.extend(lease)
        return JobChange({lease.fence: directive_for(head, lease) for lease in mine})

    try:
        return await ledger.heads.change(job_id, decide)
    except UnknownName:
        return {}


async def tell_waiting(ledger: StoreContext, worker_id: str) -> None:
    """Writes what the worker waits for into the jobs that it works on. It is no sign of life: the worker knows best
    which of its leases are to live."""

    async def decide(head: JobRow) -> JobChange[None]:
        what = ledger.waits.get(worker_id)
        told = [lease for lease in head.leases if lease.worker == worker_id and lease.waiting is not what]
        for lease in told:
            lease.waiting = what
        return JobChange(None) if told else no_change(None)

    for job_id in set(ledger.jobs_of_fences.values()):
        with suppress(UnknownName):
            await ledger.heads.change(job_id, decide)


async def release(ledger: StoreContext, worker_id: str, fence: int) -> None:
    """See LeaseBook.release."""

    async def decide(head: JobRow) -> JobChange[bool]:
        lease = head.lease(fence)
        if lease is None or lease.worker != worker_id:
            return no_change(False)
        seqs = lease.seqs
        known = await read_carried(ledger.table, head.number, [fence]) if lease.carries and seqs else {}
        rows: list[Put | Delete] = [
            *add_returned(head, [_at_once(known.get((fence, seq), ReturnedItem(seq))) for seq in seqs])
        ]
        if lease.carries:
            rows.append(Delete(held_key(head.number, fence)))
        head.drop(lease)
        slot_shares.leave(head, worker_id, seqs)
        ledger.doubts.pop(fence, None)
        ledger.jobs_of_fences.pop(fence, None)  # who asks again finds it in the table, or not
        return JobChange(bool(seqs), rows)

    job_id = (await ledger.jobs_with([fence])).get(fence)
    if job_id is not None:
        with suppress(UnknownName):
            if await ledger.heads.change(job_id, decide):
                ledger.changed()


def _at_once(item: ReturnedItem) -> ReturnedItem:
    """It may be handed out now, whatever it waited for before."""
    return msgspec.structs.replace(item, due=0.0)

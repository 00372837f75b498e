"""How leases are kept and given up in the AWS store. Before: claims.py. Beside: rescue.py, which takes them away."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import suppress

import msgspec

from swath.backends.aws.calls.rows import Delete, Put
from swath.backends.aws.jobs import shares
from swath.backends.aws.jobs.back import Back, add_back, carried
from swath.backends.aws.jobs.head import Head
from swath.backends.aws.jobs.heads import Change, unchanged
from swath.backends.aws.jobs.ledger import Ledger, directive_for
from swath.backends.aws.table.layout import held_key
from swath.domain.errors import UnknownName
from swath.domain.lease import Directive

__all__ = ["release", "renew", "tell_waiting"]


async def renew(ledger: Ledger, worker_id: str, fences: Collection[int]) -> dict[int, Directive]:
    """See LeaseBook.renew. Leases of one job are renewed by one write of its head."""
    answers = dict.fromkeys(fences, Directive.LOST)
    by_job: dict[str, list[int]] = {}
    for fence, job_id in (await ledger.jobs_with(fences)).items():
        by_job.setdefault(job_id, []).append(fence)
    told = await asyncio.gather(*(_renew(ledger, worker_id, job_id, mine) for job_id, mine in by_job.items()))
    for each in told:
        answers.update(each)
    return answers


async def _renew(ledger: Ledger, worker_id: str, job_id: str, fences: list[int]) -> dict[int, Directive]:
    async def decide(head: Head) -> Change[dict[int, Directive]]:
        leases = [lease for fence in fences if (lease := head.lease(fence)) is not None]
        mine = [lease for lease in leases if lease.worker == worker_id and not lease.rescued]
        if not mine:
            return unchanged({})
        for lease in mine:
            ledger.extend(lease)
        return Change({lease.fence: directive_for(head, lease) for lease in mine})

    try:
        return await ledger.heads.change(job_id, decide)
    except UnknownName:
        return {}


async def tell_waiting(ledger: Ledger, worker_id: str) -> None:
    """Writes what the worker waits for into the jobs that it works on. It is no sign of life: the worker knows best
    which of its leases are to live."""

    async def decide(head: Head) -> Change[None]:
        what = ledger.waits.get(worker_id)
        told = [lease for lease in head.leases if lease.worker == worker_id and lease.waiting is not what]
        for lease in told:
            lease.waiting = what
        return Change(None) if told else unchanged(None)

    for job_id in set(ledger.jobs_of_fences.values()):
        with suppress(UnknownName):
            await ledger.heads.change(job_id, decide)


async def release(ledger: Ledger, worker_id: str, fence: int) -> None:
    """See LeaseBook.release."""

    async def decide(head: Head) -> Change[bool]:
        lease = head.lease(fence)
        if lease is None or lease.worker != worker_id:
            return unchanged(False)
        seqs = lease.seqs
        known = await carried(ledger.table, head.number, [fence]) if lease.carries and seqs else {}
        rows: list[Put | Delete] = [*add_back(head, [_at_once(known.get((fence, seq), Back(seq))) for seq in seqs])]
        if lease.carries:
            rows.append(Delete(held_key(head.number, fence)))
        head.drop(lease)
        shares.leave(head, worker_id, seqs)
        ledger.doubts.pop(fence, None)
        ledger.jobs_of_fences.pop(fence, None)  # who asks again finds it in the table, or not
        return Change(bool(seqs), rows)

    job_id = (await ledger.jobs_with([fence])).get(fence)
    if job_id is not None:
        with suppress(UnknownName):
            if await ledger.heads.change(job_id, decide):
                ledger.changed()


def _at_once(item: Back) -> Back:
    """It may be handed out now, whatever it waited for before."""
    return msgspec.structs.replace(item, due=0.0)

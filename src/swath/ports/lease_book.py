"""LeaseBook: who works on what. The worker claims, reports and finishes; anybody rescues what the dead left behind.

The other half of the store (ports/job_store.py). Outcomes and counters change in one commit, and only under the fence.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from swath.domain.attempt import Ended, HandedBack
from swath.domain.job import JobStatus
from swath.domain.lease import Directive, Grant, Lease, Report, RescuedLease
from swath.domain.transitions import JobState

__all__ = ["LeaseBook"]


class LeaseBook(Protocol):
    """Durable and shared: any number of workers may use it at once, each under an id of its own.

    Lengths of time are measured on a clock that does not jump. A lease whose time is over still holds until `rescue`
    has taken it away: the book decides, not the time.
    """

    async def claim(self, worker_id: str, job_id: str | None = None, without: Collection[str] = ()) -> Lease | None:
        """Hands out the next items of the most urgent job that has some, with a fence no lease had before.

        `job_id` asks for that job only; `without` names jobs this worker cannot run. Returns None when there is nothing
        to do now: no item is due, or every slot of the job belongs to other workers that can use it. An item is held by
        one lease at most. The first claim of a job makes it `running`. Higher priority first, then fewer items, then
        age. A worker's first lease of a job brings its slots; a further one leaves them as they are.
        """
        ...

    async def finish(
        self, lease: Lease, ended: Sequence[Ended], handed_back: Sequence[HandedBack], report: Report
    ) -> Grant:
        """Writes outcomes, counters and the report in one commit and grants slots anew; extends the lease.

        An item counts only if this lease holds it and it has not ended; `accepted` says which did, and says the same
        nothing-changed answer (absent from `accepted`) when the call is repeated. An item handed back is held by nobody
        and claimable after its delay. If the lease was taken away: directive `lost`, nothing changed.
        The slots of all workers on a job never add up to more than its `max_concurrent_workers`.
        """
        ...

    async def renew(self, worker_id: str, fences: Collection[int]) -> Mapping[int, Directive]:
        """Extends these leases of the worker and says for each whether to go on. May be called from another thread.

        A rescued lease is lost, to its cleaner too, who has one length of a lease for the clean-up. The right to end a
        job goes on even if the job was cancelled.
        """
        ...

    async def release(self, worker_id: str, fence: int) -> None:
        """Ends a lease of this worker, claimed or rescued; a fence that it does not hold is ignored.

        Items that the lease still holds go back as by `rescue`, but without blame. With its last lease of a job a
        worker gives up its slots there, and items that it lost no longer count as running, here as by `rescue`.
        """
        ...

    async def rescue(self, worker_id: str) -> list[RescuedLease]:
        """Takes leases away from workers that died or fell silent, and hands them to the caller to clean up.

        Their unfinished items become claimable at once; those that had begun count a crash. Each such lease is given to
        one caller until it is released; if the caller dies too, to the next. The job cannot end before.
        """
        ...

    async def claim_ending(
        self, worker_id: str, job_id: str | None = None, without: Collection[str] = ()
    ) -> Lease | None:
        """Hands out the right to end a job: one whose items have all ended, or which was cancelled, and that has no
        other lease. `cancelling` says whether there may be items to sweep. One holder at a time.

        `job_id` asks for that job only; `without` names jobs that this worker could not end just now.
        """
        ...

    async def sweep(self, lease: Lease, limit: int) -> int:
        """Turns up to `limit` unfinished items of a cancelled job into `cancelled`; answers how many were left before.

        Zero means done. Raises LeaseLost when the right to end was taken away."""
        ...

    async def end(self, lease: Lease, state: JobState, manifest: Mapping[str, Any]) -> JobStatus:
        """Makes the job terminal and releases the lease, in one commit.

        Raises LeaseLost when the right to end was taken away, ValueError when items are unfinished."""
        ...

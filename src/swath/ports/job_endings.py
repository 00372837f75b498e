"""JobEndings: the last steps of a job, and its deletion, by one holder at a time.

The right to end a job is a lease without items: it is renewed, released and rescued like any other.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

from swath.domain.job import EndingProgress, JobStatus
from swath.domain.lease import Lease, LeaseDirective
from swath.domain.transitions import JobState
from swath.domain.webhook import Webhook

__all__ = ["JobEndings"]


class JobEndings(Protocol):
    """Durable, like the lease book. The holder of a right that was taken away changes nothing any more."""

    async def claim_ending(
        self, worker_id: str, job_id: str | None = None, without: Collection[str] = ()
    ) -> Lease | None:
        """Hands out the right to end a job: one whose items have all ended (paused or not), or which is stopping, and
        that has no other lease and is not being deleted. `stopping` says why there may be items to sweep.

        `job_id` asks for that job only; `without` names jobs that this worker could not end just now. A job whose
        ending has killed its workers is put off, for longer each time (domain/ending.py), until somebody resumes it.
        """
        ...

    async def renew_ending(self, lease: Lease, progress: EndingProgress) -> LeaseDirective:
        """Extends the right to end a job, as `renew` does, and shows its progress in the job's status, in one commit.

        `lost` when the right was taken away; nothing is changed then."""
        ...

    async def sweep(self, lease: Lease, limit: int) -> int:
        """Turns up to `limit` unfinished items of a stopping job into `cancelled`, with what made it stop as their
        reason and their attempts kept; answers how many were left before. They are no outcomes to the circuit.

        Zero means done. Raises LeaseLost when the right to end was taken away."""
        ...

    async def end(
        self, lease: Lease, state: JobState, manifest: Mapping[str, Any], webhook: Webhook | None = None
    ) -> JobStatus:
        """Makes the job terminal and releases the lease, in one commit, which also puts the webhook into the outbox
        (ports/webhook_outbox.py). From now its `retention_days` run.

        Raises LeaseLost when the right to end was taken away, ValueError when items are unfinished."""
        ...

    async def claim_deletion(
        self, worker_id: str, job_id: str | None = None, without: Collection[str] = ()
    ) -> Lease | None:
        """Hands out the right to delete a job that was marked for it, or whose retention has been over for an hour of
        the boot clock, over which the wall clock advanced alike, and that has no other lease. `job_id` and `without` as
        for `claim_ending`.

        A job whose retention is over is marked by this, and the lease says since when. Each call is a look at both
        clocks; the store remembers what it needs of them, so that short runs, and short starts of the machine, add up
        to the hour. It begins anew when the wall clock jumps (domain/clock_watch.py)."""
        ...

    async def purge(self, lease: Lease, limit: int) -> int:
        """Removes up to `limit` items of a job that is being deleted; answers how many were left before.

        Zero means that the job is gone, with every trace and the lease. Raises LeaseLost when the right was taken
        away."""
        ...

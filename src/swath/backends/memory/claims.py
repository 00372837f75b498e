"""How the memory store hands out work: whose turn it is, which items, how many slots. After: finishing.py.

An item is held by the lease whose fence it carries. Nothing here waits, so every method is one commit.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from swath.backends.memory.records import Right, StoredItem, StoredJob, StoredShare
from swath.backends.memory.shelves import Shelves
from swath.domain.backlog import Backlog
from swath.domain.lease import Lease, fair_share, grant_slots, largest_lease, lease_size, target_slots
from swath.domain.portion import LEASE_BYTES, Portion, item_bytes
from swath.domain.transitions import JobState, check_job
from swath.domain.turns import Candidate, next_in_turn

__all__ = ["MemoryClaims"]


class MemoryClaims:
    """The part of ports/lease_book.py that hands out items and slots."""

    _shelves: Shelves

    async def claim(self, worker_id: str, job_id: str | None = None, without: Collection[str] = ()) -> Lease | None:
        with self._shelves.open():
            claimable = {
                job.number: (job, items)
                for name, job in self._shelves.jobs.items()
                if name not in without and job_id in (None, name) and (items := self._claimable(job, worker_id))
            }
            turn = next_in_turn([_candidate(job) for job, _ in claimable.values()], self._shelves.granted)
            if turn is None:
                return None
            job, items = claimable[turn.number]
            return self._lease(worker_id, job, self._slice(job, worker_id, items))

    async def backlog(self) -> list[Backlog]:
        with self._shelves.open():
            return [self._backlog(job) for job in self._shelves.jobs.values() if job.may_start]

    def _backlog(self, job: StoredJob) -> Backlog:
        since = job.order.created_at if job.generation == 1 else job.started_at
        now, pending = self._shelves.clock.now(), self._shelves.status(job).counts.pending
        return Backlog(
            job_id=job.order.job_id,
            priority=job.order.priority,
            items=job.total,
            pending=pending,
            claimable=len(job.claimable(self._shelves.clock.boot())),
            worker_ids=frozenset(worker_id for worker_id, share in job.shares.items() if share.demand > 0),
            limit=job.limit,
            on_demand=job.order.on_demand,
            oldest_seconds=max(0.0, now - (now if since is None else since)) if pending else None,
        )

    def _claimable(self, job: StoredJob, worker_id: str) -> list[StoredItem]:
        # With every slot in others' use this worker would hold items without one to run them.
        if not job.may_start or self._busy_others(job, worker_id) >= job.limit:
            return []
        return job.claimable(self._shelves.clock.boot())

    def _busy_others(self, job: StoredJob, worker_id: str) -> int:
        return sum(share.demand > 0 for worker, share in job.shares.items() if worker != worker_id)

    def _slice(self, job: StoredJob, worker_id: str, items: Sequence[StoredItem]) -> Sequence[StoredItem]:
        """A suspect goes alone."""
        if items[0].suspect:
            return items[:1]
        workers = self._busy_others(job, worker_id) + 1
        most = lease_size(len(items), workers, job.limit, largest_lease(job.order))
        return list(Portion(LEASE_BYTES).take(items[:most], lambda stored: item_bytes(stored.item)))

    def _lease(self, worker_id: str, job: StoredJob, items: Sequence[StoredItem]) -> Lease:
        if job.state is JobState.PENDING:
            check_job(job.state, JobState.RUNNING)
            job.state, job.started_at = JobState.RUNNING, self._shelves.clock.now()
            job.mark(self._shelves.clock.boot())
        self._shelves.granted += 1
        job.served = self._shelves.granted
        job.release(sum(stored.never_began for stored in items))
        lease = self._shelves.new_lease(worker_id, job, Right.RUN)
        lease.seqs, lease.alone = tuple(stored.item.seq for stored in items), items[0].suspect
        for stored in items:
            stored.fence, stored.due = lease.fence, 0.0
        slots, target = self._enter(job, worker_id, len(items))
        return Lease(
            fence=lease.fence,
            job=job.order,
            worker_id=worker_id,
            items=tuple(stored.leased() for stored in items),
            slots=slots,
            target=target,
            lease_seconds=self._shelves.lease_seconds,
            revision=lease.revision,
            alone=lease.alone,
        )

    def _enter(self, job: StoredJob, worker_id: str, items: int) -> tuple[int, int]:
        """Gives a worker with a new lease its first slots; one that has some already keeps them and only wants more."""
        if worker_id not in job.shares:
            job.shares[worker_id] = StoredShare(demand=items)
            return self._grant(job, worker_id, ceiling=0)
        share = job.shares[worker_id]
        share.demand += items
        return share.slots, self._target(job, worker_id, share.slots)

    def _grant(self, job: StoredJob, worker_id: str, ceiling: int) -> tuple[int, int]:
        """Gives a worker its share of the slots as things stand now; answers with slots and target."""
        target = self._target(job, worker_id, ceiling)
        slots = grant_slots(job.limit, ceiling, target, _slots_of_others(job, worker_id))
        job.shares[worker_id].slots = slots
        return slots, target

    def _target(self, job: StoredJob, worker_id: str, ceiling: int) -> int:
        workers = sorted(job.shares)
        fair = fair_share(job.limit, [job.shares[worker].demand for worker in workers])[workers.index(worker_id)]
        return target_slots(job.limit, ceiling, fair, _slots_of_others(job, worker_id))


def _slots_of_others(job: StoredJob, worker_id: str) -> int:
    return sum(share.slots for worker, share in job.shares.items() if worker != worker_id)


def _candidate(job: StoredJob) -> Candidate:
    return Candidate(job.order.priority, job.total, job.number, job.served)

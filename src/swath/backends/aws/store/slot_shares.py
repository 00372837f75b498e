"""How the concurrency of a job is divided into slots among the workers that have leases of it.

Pure; changes the job row. The sum over all shares never exceeds the job's limit.
"""

from __future__ import annotations

from collections.abc import Collection

from swath.backends.aws.store.job_row import JobRow, WorkerShare
from swath.domain.lease import SlotReport, fair_share, grant_slots, target_slots

__all__ = ["join", "leave", "regrant"]


def join(head: JobRow, worker: str, limit: int, items: int) -> tuple[int, int]:
    """Gives a worker with a new lease its first slots; one that has some already keeps them and only wants more.

    Answers with slots and target.
    """
    if worker not in head.shares:
        head.shares[worker] = WorkerShare(demand=items)
        return _grant(head, worker, limit, 0)
    share = head.shares[worker]
    share.demand += items
    return share.slots, _target(head, worker, limit, share.slots)


def regrant(head: JobRow, worker: str, limit: int, report: SlotReport) -> tuple[int, int]:
    """Takes a worker's report and gives it its share as things stand now."""
    share = head.shares.setdefault(worker, WorkerShare())
    share.demand, share.queued, share.begun = report.demand, list(report.queued), list(report.begun)
    return _grant(head, worker, limit, min(report.ceiling, share.slots))  # a worker cannot raise itself


def leave(head: JobRow, worker: str, lost: Collection[int]) -> None:
    """Items that a worker lost do not run any more; with its last lease of the job it loses its slots there."""
    if worker in head.shares:
        head.shares[worker].forget(lost)
        if not any(lease.worker == worker and lease.runs for lease in head.leases):
            del head.shares[worker]


def _grant(head: JobRow, worker: str, limit: int, ceiling: int) -> tuple[int, int]:
    target = _target(head, worker, limit, ceiling)
    slots = grant_slots(limit, ceiling, target, _slots_of_others(head, worker))
    head.shares[worker].slots = slots
    return slots, target


def _target(head: JobRow, worker: str, limit: int, ceiling: int) -> int:
    workers = sorted(head.shares)
    fair = fair_share(limit, [head.shares[each].demand for each in workers])[workers.index(worker)]
    return target_slots(limit, ceiling, fair, _slots_of_others(head, worker))


def _slots_of_others(head: JobRow, worker: str) -> int:
    return sum(share.slots for other, share in head.shares.items() if other != worker)

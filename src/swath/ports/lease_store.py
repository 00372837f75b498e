"""LeaseStore: claims, renewals, commits and rescues of leases.

Outcomes, counters and the job's circuit change in one commit, and only under the fence.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from swath.domain.fair_scheduling import JobBacklog
from swath.domain.item import EndedItem, HandedBackItem
from swath.domain.job import WaitingFor
from swath.domain.lease import Lease, LeaseDirective, RescuedLease, SlotGrant, SlotReport

__all__ = ["LeaseStore"]


class LeaseStore(Protocol):
    """Durable and shared: any number of workers may use it at once, each under an id of its own.

    Lengths of time are measured on a clock that does not jump. A lease whose time is over still holds until `rescue`
    has taken it away: the book decides, not the time.
    """

    async def claim(self, worker_id: str, job_id: str | None = None, without: Collection[str] = ()) -> Lease | None:
        """Hands out the next items of the job whose turn it is (domain/turns.py), with a fence no lease had before.

        Candidates are jobs that are `pending` or `running`, neither stopping nor being deleted, with an item that may
        be handed out now, and of whose slots other workers that can use them do not have all. `job_id` asks for that
        job only; `without` names jobs this worker cannot run. None when there is no candidate. The first claim of a job
        makes it `running`. An item is held by one lease at most.

        Items that came back are handed out before fresh ones. A suspect (see `rescue`) comes before all others, in a
        lease of its own, marked `alone`. Of items that never began no more are handed out than the job's circuit has
        not yet released (domain/circuit.py). A worker's first lease of a job brings its slots; a further one leaves
        them as they are.
        """
        ...

    def begin(self, lease: Lease, *seqs: int) -> bool:
        """Whether these items of the lease may start now; if so, notes that they run, so that a death finds them.

        Called on the event loop before each attempt, or before those at a handful, so it neither waits nor fails. False
        once the job is paused, is stopping, or has another policy than the lease, or the lease was taken away, as far
        as can be told without a word over the network; and when nothing can be told. Then nothing is noted.
        """
        ...

    def leave(self, lease: Lease, *seqs: int) -> None:
        """The attempts are over, whatever came of them: a death no longer finds them running."""
        ...

    def tell_waiting(self, worker_id: str, what: WaitingFor | None) -> None:
        """Lets everybody who looks at a status know what this worker waits for. Neither waits nor fails."""
        ...

    async def finish(
        self, lease: Lease, ended: Sequence[EndedItem], handed_back: Sequence[HandedBackItem], report: SlotReport
    ) -> SlotGrant:
        """Writes outcomes, counters and the report in one commit and grants slots anew; extends the lease.

        An item counts only if this lease holds it and it has not ended; `accepted` says which did, and says the same
        nothing-changed answer (absent from `accepted`) when the call is repeated. An item handed back is held by nobody
        and claimable after its delay; a suspect stays one unless it was tried. If the lease was taken away: directive
        `lost`, nothing changed. Ends are recorded in the job's circuit; if it opens, the job stops or is paused in the
        same commit, as its policy says. Directive `stop` when the job is paused, stops, or has another policy than the
        lease. The slots of all workers on a job never add up to more than its `max_concurrent_workers`, or, after that
        was lowered, to more than before.
        """
        ...

    async def open_circuit(self, job_id: str, why: str, most_left: int | None = None) -> None:
        """Opens the job's circuit for a reason that its outcomes do not show: the only site it needs is gone (D3).

        With `most_left` only if no more items than that have not ended.

        What its policy says then happens, as by `finish`. A job that does not run, stops, or whose circuit is open
        already stays as it is. Raises UnknownName.
        """
        ...

    async def renew(self, worker_id: str, fences: Collection[int]) -> Mapping[int, LeaseDirective]:
        """Extends these leases of the worker and says for each whether to go on. May be called from another thread.

        A rescued lease is lost, to its cleaner too, who has one length of a lease for the clean-up. Directives as by
        `finish`; the right to end or to delete a job always goes on.
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

        Their unfinished items become claimable at once. Those that ran when they were last heard of are suspects from
        now on. One that ran in a lease marked `alone`, and whose begin had been committed, counts a crash; with
        POISON_CRASHES of them it ends here as `failed`, kind `poison`, an outcome like any other, but no winner: its
        files are never published. A worker that is known to have died with the right to end a job counts against that
        ending, which is then put off. Each such lease is given to one caller until it is released; if the caller dies
        too, to the next. The job cannot end before.
        """
        ...

    async def backlog(self) -> list[JobBacklog]:
        """What waits in each job that is `pending` or `running` and neither stopping nor being deleted, the oldest job
        first.

        `pending` are its items in that state, as its status counts them. `claimable` are those that `claim` could hand
        out now to workers enough: held by nobody and due, and of those that never began no more than the circuit has
        not yet released. `workers` are those with a lease of its items that can use slots, as `claim` counts them;
        `limit` is its `max_concurrent_workers`. `oldest_seconds` is the age of its oldest pending item by the wall
        clock, never negative: since the job was ordered, or in a later generation since that was first claimed from (0
        before); None when nothing is pending.

        One small reading for each such job: every few seconds one process of a fleet asks.
        """
        ...

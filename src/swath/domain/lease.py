"""Lease: a slice of a job's items handed to one worker. Slots: the worker's share of the job's concurrency.

How shares are kept exact without a word per item: the store knows for every worker on a job a ceiling (`slots`) that
the worker never exceeds, over all its leases of that job. A worker reports its ceiling with each commit; the store
raises it as far as the others leave room, or answers with a lower `target`, to which the worker shrinks as its items
end. So all ceilings together never exceed the limit, and a worker goes on with its next lease without asking for slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import msgspec

from swath.domain.attempt import Attempt, Tries
from swath.domain.job import Job, Stopping

__all__ = [
    "MAX_LEASE_ITEMS",
    "MAX_REREAD_ITEMS",
    "POISON_CRASHES",
    "Directive",
    "Grant",
    "Lease",
    "LeasedItem",
    "Report",
    "RescuedLease",
    "fair_share",
    "first_demand",
    "grant_slots",
    "has_room",
    "largest_lease",
    "lease_size",
    "target_slots",
]

MAX_LEASE_ITEMS = 100
MAX_REREAD_ITEMS = 500  # of a job that reads stored pages: each is done in less than a thousandth of a second
MIN_LEASE_ITEMS = 8
LEASE_ROUNDS = 13  # times that a worker may fill all its slots from one lease
CROWD = 50  # workers on a job, from which on what each of them says to the store is felt by the others
CROWD_ROUNDS = 39
WORKERS_A_ROUND = 20  # of a crowd: for each so many of them the smallest lease has one round more
POISON_CRASHES = 3  # deaths of a worker that ran nothing but this item


class LeasedItem(msgspec.Struct, frozen=True):
    """An item as its worker gets it, with what earlier leases did to it.

    `first`: it is certain that no lease of any generation ever held it, so nothing can have been stored for it.
    """

    seq: int
    item_id: str
    input: dict[str, Any]
    tries: Tries = Tries()
    attempts: tuple[Attempt, ...] = ()
    first: bool = False


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """What a claim returns. Without its `fence` no outcome is accepted.

    `slots` and `target` are the worker's on the job. `alone`: its one item is suspected of having killed a worker, so
    nothing else may run beside it, and that it has begun is committed first. A lease with no items is the right to end
    a job (sweep what is left if it is `stopping`, write the manifest, close) or to delete one; `due_since` says since
    when its retention is over, in Unix seconds, to the worker that gets this right first and for this reason.
    """

    fence: int
    job: Job
    worker_id: str
    items: tuple[LeasedItem, ...] = ()
    slots: int = 0
    target: int = 0
    lease_seconds: float = 15.0
    revision: int = 0  # of the job's policy
    alone: bool = False
    stopping: Stopping | None = None
    due_since: float | None = None


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker says of a job with each commit, over all its leases of that job; one report at a time.

    `ceiling`: it never runs more items than this until the answer says otherwise. `demand`: items it could run now
    (running or ready). `queued` and `begun`: sequence numbers of running items that have not, and that have, sent their
    first request.
    """

    ceiling: int
    demand: int
    queued: tuple[int, ...] = ()
    begun: tuple[int, ...] = ()


class Directive(StrEnum):
    """What a worker is to do with a lease."""

    GO_ON = "go_on"
    STOP = "stop"  # finish what runs, hand back the rest
    LOST = "lost"  # nothing counts any more: abandon it


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """The store's answer to a commit. `accepted` are the sequence numbers whose end or hand-back counted."""

    directive: Directive
    slots: int = 0
    target: int = 0
    accepted: frozenset[int] = frozenset()


class RescuedLease(msgspec.Struct, frozen=True, kw_only=True):
    """A lease taken from a worker that is `dead`, or silent. `winners` are the items that had ended under it.

    The caller publishes the winners' files, throws away the rest, and then releases the lease. `ending_deaths`: it was
    the right to end the job, and so many workers have died of that by now.
    """

    fence: int
    job_id: str
    worker_id: str
    winners: tuple[str, ...]
    returned: int
    silent_seconds: float
    dead: bool = False
    ending_deaths: int = 0


def fair_share(limit: int, demands: Sequence[int]) -> list[int]:
    """Shares `limit` slots so that nobody gets more than it can use and the smallest share is as large as possible."""
    shares = [0] * len(demands)
    left, hungry = limit, [i for i, demand in enumerate(demands) if demand > 0]
    while left and hungry:
        each = max(1, left // len(hungry))
        for i in hungry:
            more = min(demands[i] - shares[i], each, left)
            shares[i] += more
            left -= more
        hungry = [i for i in hungry if demands[i] > shares[i]]
    return shares


def grant_slots(limit: int, ceiling: int, target: int, slots_of_others: int) -> int:
    """The new ceiling: up to the target as far as there is room, never below what the worker still uses."""
    if target <= ceiling:
        return ceiling
    return max(ceiling, min(target, limit - slots_of_others))


def target_slots(limit: int, ceiling: int, fair: int, slots_of_others: int) -> int:
    """What a worker is to come to: its fair share, or less after the limit was lowered.

    While all together have more than the limit, nobody starts anything that others would have to make room for first.
    """
    if ceiling + slots_of_others > limit:
        return min(fair, max(0, limit - slots_of_others))
    return fair


def has_room(limit: int, workers: int, slots: int) -> bool:
    """Whether one more worker may have a lease, where `workers` others can use slots and have `slots` together.

    With every slot in others' use it would hold items without one to run them. Few make room for it as their items
    end; a crowd need not: where slots go from hand to hand all the time, all wait for the store.
    """
    return workers < limit and (workers < CROWD or slots < limit)


def largest_lease(job: Job) -> int:
    """How many items a lease of the job may have, where the store has no bound of its own."""
    return MAX_LEASE_ITEMS if job.extracts is None else MAX_REREAD_ITEMS


def lease_size(claimable: int, workers: int, limit: int, most: int = MAX_LEASE_ITEMS) -> int:
    """How many items to hand out at once: enough to spare round trips, few enough to leave work for others.

    Halving what is left among the workers on the job keeps the last leases small, down to what a worker's share of the
    `limit` lets it run at once, so no straggler holds up the end. A small share makes for small leases at any time, so
    that a worker is soon free to look who is more urgent; less so in a crowd, of which somebody is always free.
    """
    workers = max(1, workers)
    fair, share = -(-claimable // (2 * workers)), -(-limit // workers)
    smallest, rounds = min(MIN_LEASE_ITEMS, share), LEASE_ROUNDS
    if workers >= CROWD:
        smallest, rounds = max(smallest, min(share * (workers // WORKERS_A_ROUND), -(-claimable // 2))), CROWD_ROUNDS
    largest = min(most, rounds * share)
    return min(claimable, max(smallest, min(largest, fair)))


def first_demand(items: int, workers: int, limit: int) -> int:
    """What a worker with its first lease of a job is taken to want, before its first report, with `workers` in all.

    As many as it got items; but in a crowd no more than all others have, or all free slots would be its own until then.
    """
    return items if workers < CROWD else min(items, -(-limit // workers))

"""Leases of a job's items, slots (a worker's share of the job's concurrency), and items whose worker was lost. Pure.

A worker never exceeds its ceiling (`slots`). The store raises it as far as the other workers leave room, or answers
with a lower `target`, to which the worker shrinks, so all ceilings together never exceed the job's limit. Only a
proven
death counts as a crash: the item of a silent worker runs alone again after a growing delay, and fails at a limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Final

import msgspec

from swath.domain.failure import Failure, FailureKind
from swath.domain.item import Attempt, EndedItem, TryCounts
from swath.domain.job import Job, StopReason
from swath.domain.transitions import ItemState

__all__ = [
    "MAX_LEASE_ITEMS",
    "MAX_REREAD_ITEMS",
    "MAX_SILENCES",
    "MAX_SILENCE_DELAY_SECONDS",
    "POISON_CRASHES",
    "WORKER_SILENT",
    "Lease",
    "LeaseDirective",
    "LeasedItem",
    "RescuedLease",
    "SlotGrant",
    "SlotReport",
    "admits_another_worker",
    "delay_after_silence",
    "end_after_worker_loss",
    "fair_share",
    "first_demand",
    "grant_slots",
    "is_worker_loss_end",
    "lease_size",
    "max_lease_items",
    "target_slots",
]

MAX_LEASE_ITEMS = 100
MAX_REREAD_ITEMS = 500  # of a job that reads stored pages: each is done in less than a thousandth of a second
MIN_LEASE_ITEMS = 8
LEASE_ROUNDS = 13  # times that a worker may fill all its slots from one lease
CROWD_WORKERS = 50  # workers on a job, from which on what each of them says to the store is felt by the others
CROWD_ROUNDS = 39
WORKERS_PER_EXTRA_ROUND = 20  # of a crowd: for each so many of them the smallest lease has one round more
POISON_CRASHES = 3  # deaths of a worker that ran nothing but this item


class LeasedItem(msgspec.Struct, frozen=True):
    """An item as its worker gets it, with what earlier leases did to it.

    `first`: it is certain that no lease of any generation ever held it, so nothing can have been stored for it.
    """

    seq: int
    item_id: str
    input: dict[str, Any]
    tries: TryCounts = TryCounts()
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
    stopping: StopReason | None = None
    due_since: float | None = None


class SlotReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker says of a job with each commit, over all its leases of that job; one report at a time.

    `ceiling`: it never runs more items than this until the answer says otherwise. `demand`: items it could run now
    (running or ready). `queued` and `begun`: sequence numbers of running items that have not, and that have, sent their
    first request.
    """

    ceiling: int
    demand: int
    queued: tuple[int, ...] = ()
    begun: tuple[int, ...] = ()


class LeaseDirective(StrEnum):
    """What a worker is to do with a lease."""

    GO_ON = "go_on"
    STOP = "stop"  # finish what runs, hand back the rest
    LOST = "lost"  # nothing counts any more: abandon it


class SlotGrant(msgspec.Struct, frozen=True, kw_only=True):
    """The store's answer to a commit. `accepted` are the sequence numbers whose end or hand-back counted."""

    directive: LeaseDirective
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


def admits_another_worker(limit: int, workers: int, slots: int) -> bool:
    """Whether one more worker may have a lease, where `workers` others can use slots and have `slots` together.

    With every slot in others' use it would hold items without one to run them. Few make room for it as their items
    end; a crowd need not: where slots go from hand to hand all the time, all wait for the store.
    """
    return workers < limit and (workers < CROWD_WORKERS or slots < limit)


def max_lease_items(job: Job) -> int:
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
    if workers >= CROWD_WORKERS:
        smallest, rounds = (
            max(smallest, min(share * (workers // WORKERS_PER_EXTRA_ROUND), -(-claimable // 2))),
            CROWD_ROUNDS,
        )
    largest = min(most, rounds * share)
    return min(claimable, max(smallest, min(largest, fair)))


def first_demand(items: int, workers: int, limit: int) -> int:
    """What a worker with its first lease of a job is taken to want, before its first report, with `workers` in all.

    As many as it got items; but in a crowd no more than all others have, or all free slots would be its own until then.
    """
    return items if workers < CROWD_WORKERS else min(items, -(-limit // workers))


MAX_SILENCES: Final = 10  # with leases of 15 s and the waits between them that takes three quarters of an hour
MAX_SILENCE_DELAY_SECONDS: Final = 600.0
WORKER_SILENT: Final = "worker_silent"  # the reason of an item that was failed for it


def delay_after_silence(silences: int, lease_seconds: float) -> float:
    """How long an item waits whose worker fell silent for the n-th time while it ran alone: 0, 1, 3, 7, … leases."""
    doublings = min(max(0, silences - 1), MAX_SILENCES)
    return min(lease_seconds * (2.0**doublings - 1), MAX_SILENCE_DELAY_SECONDS)


def end_after_worker_loss(seq: int, tries: TryCounts, attempts: Sequence[Attempt], silences: int) -> EndedItem | None:
    """How the item ends now that its worker is lost; None if it runs again. An outcome like any other."""
    if tries.crashes >= POISON_CRASHES:
        reason, kind = None, FailureKind.POISON
        told = f"its worker died {tries.crashes} times while it ran alone"
    elif silences >= MAX_SILENCES:
        reason, kind = WORKER_SILENT, FailureKind.INTERNAL
        told = (
            f"its worker fell silent {silences} times while it ran alone; whether the item is the cause, a frozen "
            "process or a lost host is not known"
        )
    else:
        return None
    return EndedItem(
        seq=seq,
        state=ItemState.FAILED,
        failure=Failure.of(kind, told),
        reason=reason,
        attempts=tuple(attempts),
        tries=tries,
    )


def is_worker_loss_end(end: EndedItem) -> bool:
    """Whether `end_without_worker` made this end: then no worker finished it, and its files are nobody's result."""
    poison = end.failure is not None and end.failure.kind is FailureKind.POISON
    return poison or end.reason == WORKER_SILENT

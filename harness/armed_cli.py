"""Runs the real command line in a process that a test has armed: `python -m harness.armed_cli -- run … --items …`.

`SWATH_CRASH_AT=point:N` kills it the N-th time that it reaches the crash point. Other variables freeze it, or switch
off
one rule of the product.
"""

from __future__ import annotations

import os
import runpy
import signal
import sqlite3
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from harness.broken_builds import BROKEN, BROKEN_BROWSERS, BROKEN_EXPORT, BROKEN_FENCE, replace_function
from swath.backends.sqlite.database import Database
from swath.backends.sqlite.results.staging import LeasePacks, StagingFolders
from swath.backends.sqlite.store import leases, outcomes
from swath.backends.sqlite.store.leases import LeaseClock
from swath.domain.lease import Lease, LeaseDirective, SlotGrant, SlotReport
from swath.domain.result import Artifact
from swath.observability import crash_points
from swath.ports.result_storage import PackAppend, StagedItem

__all__ = ["KILLED", "arm", "main"]

KILLED = 137  # what a shell reports for kill -9

_transaction = threading.Lock()


def main(arguments: Sequence[str]) -> None:
    """Arms this process and becomes `swath` with these arguments."""
    arm(os.environ)
    sys.argv = ["swath", *arguments[arguments[:1] == ["--"] :]]
    runpy.run_module("swath.entrypoints.cli.main", run_name="__main__", alter_sys=True)


def arm(environment: Mapping[str, str]) -> None:
    """Does what the variables ask for; a word that is not understood ends the process, or a test would show nothing."""
    for variable, act in (("SWATH_CRASH_AT", _die), ("SWATH_FREEZE_AT", _freeze)):
        if where := environment.get(variable):
            crash_points.install(_at([_place(variable, place) for place in where.split(",")], act))
            _mark_transactions()
    if broken := environment.get("SWATH_BROKEN"):
        ways = {"fence": _break_fence, **BROKEN, **BROKEN_EXPORT, **BROKEN_FENCE, **BROKEN_BROWSERS}
        if broken not in ways:
            sys.exit(f"SWATH_BROKEN={broken}: give one of {', '.join(ways)}")
        ways[broken]()


def _place(variable: str, where: str) -> tuple[str, int]:
    point, _, hit = where.partition(":")
    beyond = (
        *crash_points.PIECE_POINTS,
        *crash_points.PACK_POINTS,
        *crash_points.WEBHOOK_POINTS,
        *crash_points.EXPORT_POINTS,
        *crash_points.REMOVAL_POINTS,
    )
    known = tuple(dict.fromkeys((*crash_points.POINTS, *crash_points.ENDING_POINTS, *beyond)))
    if point not in known or not hit.isdecimal() or int(hit) < 1:
        sys.exit(f"{variable}={where}: give one of {', '.join(known)}, then :N")
    return point, int(hit)


def _at(places: Collection[tuple[str, int]], act: Callable[[], None]) -> Callable[[str], None]:
    """Acts once, at the place that is reached first."""
    hits: Counter[str] = Counter()
    waiting = set(places)

    def reached(name: str) -> None:
        hits[name] += 1
        if (name, hits[name]) in waiting:
            waiting.clear()
            act()

    return reached


def _die() -> None:
    os._exit(KILLED)


def _freeze() -> None:
    """Not while another thread is inside a transaction: the store would stay locked, and nobody could go on."""
    with _transaction:
        os.kill(os.getpid(), signal.SIGSTOP)
        time.sleep(0.1)  # another thread may hear of it first, and this one must not let go of the lock meanwhile


def _mark_transactions() -> None:
    transact = Database._transact  # noqa: SLF001 there is no other place that sees all of them

    def marked(*args: Any, **kwargs: Any) -> Any:
        with _transaction:
            return transact(*args, **kwargs)

    replace_function(Database, "_transact", marked)


def _break_fence() -> None:
    """Every guard against a worker that has lost its lease: the lease row, the item row, the renewal, the room."""
    # Neither whose an item is nor whether it ended.
    replace_function(outcomes, "HELD", "job_no = ? AND seq = ? AND ? > 0")
    replace_function(outcomes, "ALL_HELD", "job_no = ? AND seq IN (SELECT value FROM json_each(?) AS listed) AND ? > 0")
    replace_function(outcomes, "_job_of_live_lease", _job_of_any_lease)
    replace_function(outcomes, "_regrant", _regrant_also_the_lost)
    replace_function(leases, "renew", _renew_also_the_lost)
    replace_function(StagingFolders, "stage", _stage_without_a_room)
    replace_function(LeasePacks, "append", _append_without_a_room)


_regrant = outcomes._regrant  # noqa: SLF001 breaking it is the purpose
_renew = leases.renew
_stage = StagingFolders.stage
_append = LeasePacks.append


def _job_of_any_lease(db: sqlite3.Connection, lease: Lease) -> int:
    return int(db.execute("SELECT job_no FROM jobs WHERE job_id = ?", (lease.job.job_id,)).fetchone()[0])


def _regrant_also_the_lost(
    db: sqlite3.Connection, times: LeaseClock, job_no: int, lease: Lease, report: SlotReport, accepted: frozenset[int]
) -> SlotGrant:
    if db.execute("SELECT 1 FROM leases WHERE fence = ? AND rescued = 0", (lease.fence,)).fetchone():
        return _regrant(db, times, job_no, lease, report, accepted)
    return SlotGrant(directive=LeaseDirective.GO_ON, slots=report.ceiling, target=report.ceiling, accepted=accepted)


def _renew_also_the_lost(
    db: sqlite3.Connection, times: LeaseClock, worker_id: str, fences: Collection[int]
) -> dict[int, LeaseDirective]:
    answers = _renew(db, times, worker_id, fences)
    return {fence: LeaseDirective.GO_ON if said is LeaseDirective.LOST else said for fence, said in answers.items()}


def _stage_without_a_room(
    rooms: StagingFolders, job: int, fence: int, items: Sequence[StagedItem]
) -> list[tuple[Artifact, ...]]:
    rooms.make(job, fence)
    return _stage(rooms, job, fence, items)


def _append_without_a_room(
    packs: LeasePacks, job: int, job_id: str, fence: int, additions: Mapping[str, PackAppend]
) -> dict[str, tuple[str, int]]:
    StagingFolders(fsync=False).make(job, fence)
    packs.forget(job_id, fence)
    return _append(packs, job, job_id, fence, additions)


if __name__ == "__main__":
    main(sys.argv[1:])

"""A simulated worker of the state machine: what it does with a lease between two commits, and what it believes after.

It keeps to the rules of domain/lease.py: over all its leases of a job it never runs more items than its ceiling, and it
obeys every answer that it hears.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import msgspec
from hypothesis import strategies as st

from swath.domain.attempt import Ended, Finding, HandedBack
from swath.domain.lease import Directive, Grant, Report
from swath.domain.transitions import ItemState
from swath.ports.clock import Clock
from swath.testing.contracts.model import Model
from swath.testing.contracts.model_records import ModelItem, ModelLease, ModelShare
from swath.testing.contracts.orders import Store, failed, success

__all__ = ["Shift", "commit", "shifts"]

RETRY_SECONDS = 20.0


class Fate(Enum):
    """What becomes of an item."""

    GOES_ON = "goes on"
    SUCCESS = "success"
    NOT_FOUND = "not found"
    FAILED = "failed"
    SKIPPED = "skipped"
    BACK = "back"
    BACK_LATER = "back later"


@dataclass(frozen=True)
class Shift:
    """What happens until the next commit: to the first items one by one, to all others, and to the worker."""

    fates: tuple[Fate, ...]
    others: Fate
    starts: int
    sends: int
    unready: int
    shrinks: bool
    answer_lost: bool
    meddles: bool


shifts = st.builds(
    Shift,
    fates=st.lists(st.sampled_from(Fate), max_size=12).map(tuple),
    others=st.sampled_from([Fate.GOES_ON, Fate.GOES_ON, *Fate]),
    starts=st.integers(0, 4),
    sends=st.integers(0, 4),
    unready=st.integers(0, 4),
    shrinks=st.booleans(),
    answer_lost=st.booleans(),
    meddles=st.booleans(),
)


async def commit(store: Store, clock: Clock, model: Model, lease: ModelLease, shift: Shift) -> None:
    """One commit under a lease that its worker still has."""
    ended, handed_back = _outcomes(model, lease, shift)
    report = _report(model, lease, shift, {end.seq for end in ended} | {back.seq for back in handed_back})
    if shift.meddles:
        _meddle(model, lease, ended, handed_back)
    expected = model.commit(lease, ended, handed_back, clock.boot())
    grant = await store.finish(lease.lease, ended, handed_back, report)
    assert grant.accepted == expected
    if shift.answer_lost:  # the worker heard nothing, so it says the same again
        grant = await store.finish(lease.lease, ended, handed_back, report)
        assert grant.accepted == frozenset(), "a repeated commit counted again"
    _obey(model, lease, report, grant)
    lease.expires = clock.boot() + model.lease_seconds


def _outcomes(model: Model, lease: ModelLease, shift: Shift) -> tuple[list[Ended], list[HandedBack]]:
    ended: list[Ended] = []
    handed_back: list[HandedBack] = []
    share = model.jobs[lease.job_id].shares[lease.owner]
    held = model.held(lease)
    for item, fate in zip(held, (*shift.fates, *[shift.others] * len(held)), strict=False):
        if fate in (Fate.BACK, Fate.BACK_LATER):
            tries = msgspec.structs.replace(item.tries, own=item.tries.own + 1)
            delay = RETRY_SECONDS if fate is Fate.BACK_LATER else 0.0
            handed_back.append(HandedBack(seq=item.seq, delay_seconds=delay, tries=tries))
        elif fate is not Fate.GOES_ON and share.ceiling:  # without a slot nothing runs, so nothing ends
            ended.append(_end(item, fate))
    return ended, handed_back


def _end(item: ModelItem, fate: Fate) -> Ended:
    if fate is Fate.FAILED:
        return failed(item.seq)
    if fate is Fate.SKIPPED:
        return Ended(seq=item.seq, state=ItemState.SKIPPED, reason="robots")
    return success(item.seq, Finding.NOT_FOUND if fate is Fate.NOT_FOUND else Finding.FOUND)


def _report(model: Model, lease: ModelLease, shift: Shift, gone: set[int]) -> Report:
    job = model.jobs[lease.job_id]
    share = job.shares[lease.owner]
    left = [i.seq for mine in model.live(job, lease.owner) for i in model.held(mine) if i.seq not in gone]
    running = [seq for seq in (*share.begun, *share.queued) if seq not in gone]
    shrunk = max(len(running), min(share.ceiling, share.target))
    ceiling = shrunk if shift.shrinks else share.ceiling
    ready = [seq for seq in left if seq not in running]
    running += ready[: min(shift.starts, ceiling - len(running))]
    sent = [seq for n, seq in enumerate(running) if seq in share.begun or n < shift.sends]
    return Report(
        ceiling=ceiling,
        demand=max(len(running), len(left) - shift.unready),
        queued=tuple(seq for seq in running if seq not in sent),
        begun=tuple(sent),
    )


def _meddle(model: Model, lease: ModelLease, ended: list[Ended], handed_back: list[HandedBack]) -> None:
    """Adds what must not count: an item that another lease holds or that has ended, and an item named twice."""
    not_mine = [item.seq for item in model.jobs[lease.job_id].items.values() if item.holder != lease.fence]
    handed_back += [HandedBack(seq=seq, delay_seconds=RETRY_SECONDS) for seq in not_mine[:2]]
    handed_back += [HandedBack(seq=end.seq) for end in ended[:1]]
    ended += [success(seq) for seq in not_mine[-2:]] + [failed(end.seq) for end in ended[:1]]


def _obey(model: Model, lease: ModelLease, report: Report, grant: Grant) -> None:
    job = model.jobs[lease.job_id]
    assert grant.directive is (Directive.STOP if job.cancelling else Directive.GO_ON)
    assert report.ceiling <= grant.slots <= max(report.ceiling, grant.target), "a worker lost slots that it still uses"
    assert grant.target <= min(job.limit, report.demand)
    job.shares[lease.owner] = ModelShare(grant.slots, grant.target, report.demand, report.queued, report.begun)

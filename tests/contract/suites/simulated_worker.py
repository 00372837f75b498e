"""A worker of the state machine: what it does with a lease between two commits, and what it knows afterwards."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum

import msgspec
from hypothesis import strategies as st

from swath.domain.failure import FailureKind
from swath.domain.item import Attempt, EndedItem, HandedBackItem, SuccessOutcome
from swath.domain.lease import LeaseDirective, SlotGrant, SlotReport
from swath.domain.transitions import ItemState
from tests.contract.suites.builders import Store, failed, success
from tests.contract.suites.model import Model
from tests.contract.suites.model_records import ModelItem, ModelLease, ModelShare

__all__ = ["PlannedOutcome", "SimulatedWorker", "WorkingLease", "shifts"]

RETRY_SECONDS = 20.0


class PlannedOutcome(Enum):
    """What becomes of an item."""

    GOES_ON = "goes on"
    SUCCESS = "success"
    NOT_FOUND = "not found"
    FAILED = "failed"
    PROXY_DEAD = "proxy dead"  # a failure that no circuit counts
    SKIPPED = "skipped"
    UNTOUCHED = "untouched"
    RETRY = "retry"
    RETRY_LATER = "retry later"


@dataclass(frozen=True)
class WorkingLease:
    """What happens until the next commit: to the first items one by one, to all others, and to the worker."""

    fates: tuple[PlannedOutcome, ...]
    others: PlannedOutcome
    starts: int
    sends: int
    unready: int
    shrinks: bool
    answer_lost: bool
    meddles: bool


shifts = st.builds(
    WorkingLease,
    fates=st.lists(
        st.sampled_from([PlannedOutcome.FAILED, PlannedOutcome.FAILED, PlannedOutcome.SUCCESS, *PlannedOutcome]),
        max_size=12,
    ).map(tuple),
    others=st.sampled_from(
        [
            PlannedOutcome.GOES_ON,
            PlannedOutcome.GOES_ON,
            PlannedOutcome.SUCCESS,
            PlannedOutcome.FAILED,
            PlannedOutcome.FAILED,
            *PlannedOutcome,
        ]
    ),
    starts=st.integers(0, 4),
    sends=st.integers(0, 4),
    unready=st.integers(0, 4),
    shrinks=st.booleans(),
    answer_lost=st.booleans(),
    meddles=st.booleans(),
)


class SimulatedWorker:
    """The owner of one lease, with the store it talks to and the model that knows what must come of it."""

    def __init__(self, store: Store, model: Model, lease: ModelLease) -> None:
        self.store, self.model, self.lease = store, model, lease
        self.job = model.jobs[lease.job_id]
        self.dead = lease.owner in model.dead  # what it had sent may still arrive, but it begins and leaves nothing

    @property
    def share(self) -> ModelShare:
        """What it has of the job's concurrency."""
        return self.job.shares[self.lease.owner]

    @property
    def running(self) -> list[int]:
        """Over all its leases of the job."""
        return [seq for lease in self.model.live(self.job, self.lease.owner) for seq in sorted(lease.running)]

    def begin(self, lease: ModelLease, seq: int) -> bool:
        """Starts an item if it may; must be told the truth about that."""
        if self.dead:
            return False
        allowed = self.store.begin(lease.lease, seq)
        assert allowed == self.model.may_begin(lease), "an item may begin that must not, or the reverse"
        if allowed:
            lease.running.add(seq)
        return allowed

    def leave(self, seq: int) -> None:
        """An attempt is over; of the dead nobody hears that."""
        if not self.dead:
            self.store.leave(self.lease.lease, seq)
            self.lease.running.discard(seq)

    def begin_some(self, most: int, but: Collection[int] = ()) -> None:
        """As many items as it has slots for."""
        for lease in self.model.live(self.job, self.lease.owner):
            for item in self.model.held(lease):
                rests = item.seq not in lease.running and item.seq not in but
                if rests and most > 0 and len(self.running) < self.share.ceiling and self.begin(lease, item.seq):
                    most -= 1

    async def commit(self, shift: WorkingLease) -> None:
        """One commit under a lease that the worker still has."""
        ended, handed_back = self._outcomes(shift)
        report = self._report(shift, {end.seq for end in ended} | {back.seq for back in handed_back})
        if shift.meddles:
            self._meddle(ended, handed_back)
        expected = self.model.commit(self.lease, ended, handed_back)
        grant = await self.store.finish(self.lease.lease, ended, handed_back, report)
        assert grant.accepted == expected
        if shift.answer_lost:  # the worker heard nothing, so it says the same again
            grant = await self.store.finish(self.lease.lease, ended, handed_back, report)
            assert grant.accepted == frozenset(), "a repeated commit counted again"
        self._obey(report, grant)

    def _outcomes(self, shift: WorkingLease) -> tuple[list[EndedItem], list[HandedBackItem]]:
        ended: list[EndedItem] = []
        handed_back: list[HandedBackItem] = []
        held = self.model.held(self.lease)
        for item, fate in zip(held, (*shift.fates, *[shift.others] * len(held)), strict=False):
            if fate is PlannedOutcome.UNTOUCHED:
                self.leave(item.seq)
                handed_back.append(HandedBackItem(seq=item.seq, tries=item.tries, attempts=item.attempts))
            elif fate is not PlannedOutcome.GOES_ON and self._run(item):
                if fate in (PlannedOutcome.RETRY, PlannedOutcome.RETRY_LATER):
                    handed_back.append(self._retry(item, RETRY_SECONDS if fate is PlannedOutcome.RETRY_LATER else 0.0))
                else:
                    ended.append(self._end(item, fate))
        return ended, handed_back

    def _run(self, item: ModelItem) -> bool:
        """One whole attempt, or the end of one. Without a slot nothing runs, so nothing ends."""
        ran = item.seq in self.lease.running or (self.share.ceiling > 0 and self.begin(self.lease, item.seq))
        if ran:
            self.leave(item.seq)
        return ran

    def _retry(self, item: ModelItem, delay_seconds: float) -> HandedBackItem:
        tries = msgspec.structs.replace(item.tries, own=item.tries.own + 1)
        return HandedBackItem(seq=item.seq, delay_seconds=delay_seconds, tries=tries, attempts=self._attempts(item))

    def _attempts(self, item: ModelItem) -> tuple[Attempt, ...]:
        now = self.model.clock.now()
        return (*item.attempts, Attempt(now, now, self.lease.owner))

    def _end(self, item: ModelItem, fate: PlannedOutcome) -> EndedItem:
        if fate in (PlannedOutcome.FAILED, PlannedOutcome.PROXY_DEAD):
            end = failed(item.seq, FailureKind.TIMEOUT if fate is PlannedOutcome.FAILED else FailureKind.PROXY)
        elif fate is PlannedOutcome.SKIPPED:
            end = EndedItem(seq=item.seq, state=ItemState.SKIPPED, reason="robots")
        else:
            end = success(
                item.seq, SuccessOutcome.NOT_FOUND if fate is PlannedOutcome.NOT_FOUND else SuccessOutcome.FOUND
            )
        return msgspec.structs.replace(end, attempts=self._attempts(item), tries=item.tries)

    def _report(self, shift: WorkingLease, gone: set[int]) -> SlotReport:
        self.begin_some(shift.starts, but=gone)
        running = [seq for seq in self.running if seq not in gone]
        mine = self.model.live(self.job, self.lease.owner)
        left = [item.seq for lease in mine for item in self.model.held(lease) if item.seq not in gone]
        shrunk = max(len(running), min(self.share.ceiling, self.share.target))
        sent = [seq for n, seq in enumerate(running) if seq in self.share.begun or n < shift.sends]
        return SlotReport(
            ceiling=shrunk if shift.shrinks else self.share.ceiling,
            demand=max(len(running), len(left) - shift.unready),
            queued=tuple(seq for seq in running if seq not in sent),
            begun=tuple(sent),
        )

    def _meddle(self, ended: list[EndedItem], handed_back: list[HandedBackItem]) -> None:
        """Adds what must not count: an item that another lease holds or that has ended, and an item named twice."""
        not_mine = [item.seq for item in self.job.items.values() if item.holder != self.lease.fence]
        handed_back += [HandedBackItem(seq=seq, delay_seconds=RETRY_SECONDS) for seq in not_mine[:2]]
        handed_back += [HandedBackItem(seq=end.seq) for end in ended[:1]]
        ended += [success(seq) for seq in not_mine[-2:]] + [failed(end.seq) for end in ended[:1]]

    def _obey(self, report: SlotReport, grant: SlotGrant) -> None:
        go_on = self.model.may_begin(self.lease)
        assert grant.directive is (LeaseDirective.GO_ON if go_on else LeaseDirective.STOP)
        low, high = report.ceiling, max(report.ceiling, grant.target)
        assert low <= grant.slots <= high, "a worker lost slots that it still uses, or got more than its share"
        assert grant.target <= min(self.job.limit, report.demand)
        share = ModelShare(grant.slots, grant.target, report.demand, report.queued, report.begun)
        self.job.shares[self.lease.owner] = share
        self.lease.expires = self.model.clock.boot() + self.model.lease_seconds

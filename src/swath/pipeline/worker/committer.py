"""Commits a lease's outcomes in groups: files under the fence, one commit, then publication of the accepted files."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import TypeVar

from swath.domain.errors import FolderUnusable, LeaseLost, StoreUnavailable
from swath.domain.item import EndedItem, HandedBackItem
from swath.domain.job import WaitingFor
from swath.domain.lease import LeaseDirective, SlotGrant, SlotReport
from swath.observability.counters import FIGURES, NO_KIND
from swath.observability.crash_points import reach
from swath.observability.task_context import span
from swath.pipeline.worker.lease_runner import LeaseRunner
from swath.pipeline.worker.outcome_buffer import GROUP_SECONDS, Outcome
from swath.pipeline.worker.result_writer import result_writer_for
from swath.ports.clock import Clock
from swath.ports.result_storage import ResultStorage

__all__ = ["Committer"]

T = TypeVar("T")


class _ResultsUnusable(Exception):
    """The results of the job cannot be stored now, and the lease is given up for it."""

    def __init__(self, reason: StoreUnavailable) -> None:
        super().__init__(str(reason))
        self.reason = reason


class Committer:
    """Runs beside one LeaseRunner until the lease is empty or lost."""

    def __init__(
        self,
        runner: LeaseRunner,
        storage: ResultStorage,
        clock: Clock,
        report_seconds: float,
        group_seconds: float = GROUP_SECONDS,
    ) -> None:
        self._runner = runner
        self._book = runner.floor.book
        self._storage = storage
        self._clock = clock
        self._report_seconds = report_seconds
        self._group_seconds = group_seconds
        self._keeper = result_writer_for(runner.lease, storage)
        self._told: SlotReport | None = None  # the last that was answered
        self._uncertain = False
        self._may_have_won = False

    async def run(self) -> None:
        """Commits until nothing is left, then settles and releases the lease."""
        try:
            await self._run()
        except _ResultsUnusable as unusable:
            await self._leave_job(unusable.reason)

    async def _run(self) -> None:
        runner, lease = self._runner, self._runner.lease
        try:
            await self._stored(self._keeper.open, opens=True)
            runner.floor.holds.usable(lease.job.job_id)
            if lease.alone:
                await self._begin_alone()
            runner.start_ready()
            if runner.slots.idle or (runner.ready and runner.slots.owed):
                runner.outbox.hurry()  # slots that others could use, or were given up before this lease came
            while not runner.lost and not (runner.drained and not runner.outbox):
                group = await self._group()
                if self._is_news(group):
                    await self._commit(group)
        except LeaseLost:
            runner.abandon()
        finally:
            runner.floor.line.leave(runner)
        if runner.lost and not self._may_have_won:
            await self._clear_room()
        if runner.lost or self._uncertain:
            return  # whoever rescues the lease cleans up; we no longer know what is ours
        reach("before_release")
        await self._stored(self._keeper.settle)
        await self._patiently(WaitingFor.STORE, lambda: self._book.release(lease.worker_id, lease.fence))

    async def _leave_job(self, reason: StoreUnavailable) -> None:
        """Gives up the lease of a job whose results cannot be stored. A lease under which items may have ended is
        rescued when its time is over, and the rescuer publishes their results once that is possible."""
        runner = self._runner
        is_over = runner.lost or self._clock.boot() >= runner.deadline
        runner.floor.holds.leave(runner.lease.job.job_id, reason)
        runner.abandon()
        if self._may_have_won:
            return
        with contextlib.suppress(StoreUnavailable):  # then it is rescued when its time is over
            await self._book.release(runner.lease.worker_id, runner.lease.fence)
        if is_over:
            await self._clear_room()

    async def _group(self) -> list[Outcome]:
        """What is to be written next. The longer the store takes, the more is gathered for it."""
        runner, lease_seconds = self._runner, self._runner.lease.lease_seconds
        tempo, group_seconds = runner.slots.tempo, self._group_seconds
        if runner.ready and (runner.slots.owed or runner.lease.alone):
            patience = tempo.hungry_seconds(group_seconds, lease_seconds)
        else:
            patience = tempo.gather_seconds(self._report_seconds, lease_seconds)
        asked = max(self._keeper.gather_seconds, runner.gather_seconds)
        longest = max(tempo.gather_seconds(group_seconds, lease_seconds), asked)
        return await runner.outbox.group(patience, group_seconds, longest)

    def _is_news(self, group: list[Outcome]) -> bool:
        """Whether the store would hear something, or could tell us something: else a renewal says as much."""
        runner, slots = self._runner, self._runner.slots
        if runner.lost:
            return False
        return bool(group or runner.ready) or slots.in_doubt or slots.report() != self._told

    async def _begin_alone(self) -> None:
        """Waits until nothing else runs; then the first commit says that the suspect has begun."""
        runner = self._runner
        while runner.floor.is_closed_to(runner.lease) and not runner.stopping:
            await runner.floor.change()
        if not runner.stopping:
            await self._commit([])

    async def _clear_room(self) -> None:
        """Somebody frozen between claim and room makes it after the rescue, which then had nothing to clear away."""
        with contextlib.suppress(StoreUnavailable):
            await self._storage.settle(self._runner.lease.job.job_id, self._runner.lease.fence, ())

    async def _commit(self, group: list[Outcome]) -> None:
        ends = [outcome for outcome in group if isinstance(outcome.end, EndedItem)]
        ended = await self._keeper.store(ends, self._stored) if ends else []
        back = [outcome.end for outcome in group if isinstance(outcome.end, HandedBackItem)]
        reach("before_state_commit")
        async with self._runner.slots.turn:
            with span("commit", items=len(group)):
                grant = await self._patiently(WaitingFor.STORE, lambda: self._finish(ended, back))
            if grant.directive is not LeaseDirective.LOST:
                self._runner.slots.apply(grant)
        reach("after_state_commit")
        self._runner.obey(grant.directive)
        self._runner.start_ready()
        if group and not self._runner.ready:
            self._runner.floor.stir()  # these ends may be what the job waited for before it hands out more
        if grant.directive is not LeaseDirective.LOST:
            await self._publish(group, grant)

    async def _finish(self, ended: list[EndedItem], back: list[HandedBackItem]) -> SlotGrant:
        runner, sent_at = self._runner, self._clock.boot()
        won_before, self._may_have_won = self._may_have_won, self._may_have_won or bool(ended)
        runner.announce()
        report = runner.slots.report()
        grant = await self._book.finish(runner.lease, ended, back, report)
        self._told = report
        if grant.directive is LeaseDirective.LOST:
            self._may_have_won = won_before
        runner.deadline = sent_at + runner.lease.lease_seconds
        runner.slots.tempo.took(self._clock.boot() - sent_at)
        FIGURES.committed(self._clock.boot() - sent_at, len(ended))
        _count_accepted(ended, grant)
        return grant

    async def _publish(self, group: list[Outcome], grant: SlotGrant) -> None:
        winners = [o.item_id for o in group if isinstance(o.end, EndedItem) and o.end.seq in grant.accepted]
        # A live lease is refused only what an earlier call, whose answer we did not get, has already done.
        self._uncertain |= any(outcome.end.seq not in grant.accepted for outcome in group)
        if winners:
            await self._stored(lambda: self._keeper.publish(winners))
            reach("after_publish")

    async def _stored(self, call: Callable[[], Awaitable[T]], *, opens: bool = False) -> T:
        """Repeats the call while the results cannot be stored. No item of the lease starts meanwhile: the site is not
        asked for what cannot be kept.

        Raises _JobUnusable instead when the lease has nothing to lose: it `opens`, and the job's folder is damaged.
        The same goes for a suspect, because nothing else of this worker may run while that waits."""

        async def asked() -> T:
            try:
                return await call()
            except StoreUnavailable as error:
                self._runner.can_store = False
                damaged = isinstance(error, FolderUnusable)
                if (damaged and opens) or (self._runner.lease.alone and (damaged or opens)):
                    raise _ResultsUnusable(error) from error
                raise

        done = await self._patiently(WaitingFor.DISK, asked)
        if not self._runner.can_store:
            self._runner.can_store = True
            self._runner.start_ready()
        return done

    async def _patiently(self, asked: WaitingFor, call: Callable[[], Awaitable[T]]) -> T:
        """Asks again for as long as the store or the disk is not there; the lease's own clock sets the end."""
        lease = self._runner.lease
        return await self._runner.floor.waits.patiently(f"lease {lease.fence}", asked, call, lambda: self._runner.lost)


def _count_accepted(ended: list[EndedItem], grant: SlotGrant) -> None:
    for end in ended:
        if end.seq in grant.accepted:
            FIGURES.item_ended(end.state, NO_KIND if end.failure is None else end.failure.kind)

"""Runs the items of a lease whose pages are stored: one after the other, without the network and without tasks.

`extract` is a plain function, so an item is seen begun or ended, never in between.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from itertools import islice, takewhile
from typing import Final

from swath.domain.errors import LeaseLost
from swath.domain.item import Attempt, SuccessOutcome
from swath.domain.lease import Lease
from swath.domain.result import Page, Result
from swath.observability.task_context import serve_item, span
from swath.pipeline.extract.extraction import extract_record
from swath.pipeline.extract.stored_pages import StoredPages
from swath.pipeline.worker.attempt import AttemptResult, ScraperOutcome, WorkerContext, WorkItem, outcome_of_error
from swath.pipeline.worker.lease_runner import LeaseRunner
from swath.pipeline.worker.outcome_buffer import GROUP_ITEMS, OutcomeBuffer
from swath.pipeline.worker.slots import JobSlots
from swath.pipeline.worker.suspect_isolation import SuspectIsolation

__all__ = ["ReextractRunner"]

_log = logging.getLogger("swath.worker")

YIELD_SECONDS: Final = (
    0.005  # for so long items run before the event loop does something else; one item may take longer
)
ITEMS_BEGUN_TOGETHER: Final = (
    16  # items that are begun together: what was done for one a moment ago is quick for the next
)
LAST_ITEMS: Final = 20  # of a lease: while they run the next one is claimed


class ReextractRunner(LeaseRunner):
    """A runner that has one slot for as long as it goes through its items. Nobody waits for one of their ends."""

    gather_seconds = 0.25

    def __init__(
        self,
        lease: Lease,
        bench: WorkerContext,
        deadline: float,
        slots: JobSlots,
        floor: SuspectIsolation,
        stored: StoredPages,
    ) -> None:
        super().__init__(lease, bench, deadline, slots, floor)
        # The circuit of a version never opens, and a large lease is done so soon that one commit is enough for it.
        self.outbox = OutcomeBuffer(heeds_failures=False, group_items=max(GROUP_ITEMS, len(lease.items)))
        self._stored = stored
        self._going: asyncio.Task[None] | None = None

    @property
    def ready(self) -> int:
        """The last ones are as good as begun, once the others are."""
        ready = super().ready
        return ready if self._going is None else max(0, ready - LAST_ITEMS)

    def start_next(self) -> bool:
        """Begins to go through what is ready, unless that is under way; nothing more is to be started then."""
        if self._going is not None or not self._can_start():
            return False
        if self._committed if self.lease.alone else self.slots.free > 0:
            place = self._ready[0].item.seq
            self.slots.take(place)
            self.slots.begin(place)
            self._going = asyncio.create_task(self._go_through())
            self._going.add_done_callback(functools.partial(self._gone_through, place))
        return False

    async def _go_through(self) -> None:
        """Stops when nothing may start; whoever changes that calls `start_next`."""
        clock = asyncio.get_running_loop().time
        until = clock() + YIELD_SECONDS
        while self._can_start():
            if not self._stored.has(self._ready[0].item):
                await self._stored.bring(self._ready[0].item)
                continue  # anything may have happened meanwhile
            ready, begun = len(self._ready), self._begin_some()
            if not begun:
                self.stop()  # the job is paused, stops or has another policy; the rest goes back
                return
            self._read_some(begun, until)
            if ready > LAST_ITEMS >= len(self._ready):
                self.floor.stir()
            if clock() > until:
                await asyncio.sleep(0)
                until = clock() + YIELD_SECONDS

    def _begin_some(self) -> list[WorkItem]:
        """A handful of items whose pages are at hand, off those that are ready; none when they may not start."""
        has = self._stored.has
        some = list(takewhile(lambda work: has(work.item), islice(self._ready, ITEMS_BEGUN_TOGETHER)))
        if not self.floor.book.begin(self.lease, *[work.item.seq for work in some]):
            return []
        for _ in some:
            self._ready.popleft()
        return some

    def _read_some(self, begun: list[WorkItem], until: float) -> None:
        """One attempt at each. Those that the time does not allow go back to the others, as they are unpacked."""
        clock, tried = asyncio.get_running_loop().time, list[AttemptResult]()
        for work in begun:
            self._stored.unpack(work.item)
        for work in begun:
            tried.append(_reextract(self._bench, work, self._stored))
            if clock() > until:
                break
        self.floor.book.leave(self.lease, *[work.item.seq for work in begun])
        self._ready.extendleft(reversed(begun[len(tried) :]))
        for work, one in zip(begun, tried, strict=False):
            self._go_on(work, one)

    def _gone_through(self, place: int, task: asyncio.Task[None]) -> None:
        self._going = None
        self._announced = self._committed = False
        self.slots.give(place)
        if task.cancelled():  # by a scraper, which has taken it for its own
            self.start_next()
        elif (error := task.exception()) is not None:
            if not isinstance(error, LeaseLost):
                _log.error("a lease broke off; it will be rescued when its time is over", exc_info=error)
            self.abandon()
        self.floor.stir()


def _reextract(bench: WorkerContext, work: WorkItem, stored: StoredPages) -> AttemptResult:
    """One attempt, asked for nowhere else than in these pages."""
    job, number, started_at = bench.job, len(work.attempts) + 1, bench.clock.now()
    serve_item(job.request_id, job.job_id, work.item.item_id, number)
    pages: tuple[Page, ...] = ()
    try:
        pages = tuple(stored.take(work.item))
        told: dict[str, str | int] = {"job_id": job.job_id, "item_id": work.item.item_id, "attempt": number}
        with span("attempt", job.request_id, **told), span("extract"):
            came = ScraperOutcome(SuccessOutcome.FOUND, extract_record(bench.scraper, pages))
    except BaseException as error:  # noqa: BLE001 whatever a scraper does, SystemExit too, costs its item
        came = outcome_of_error(job, error)
    ended = Attempt(started_at, bench.clock.now(), bench.worker_id, came.failure)
    # Nothing of the pages is stored again: the next one is read into memory that is at hand.
    result = Result(pages=tuple([page.without_body() for page in pages]), data=came.data)
    return AttemptResult(attempt=ended, finding=came.finding, failure=came.failure, held=came.held, result=result)

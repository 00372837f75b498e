"""Worker: claims leases and runs them, beside the periodic tasks that any worker may do. All workers are equal.

Also sets malloc to keep freed memory: page trees are built and freed for every item.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from swath.domain.errors import BadInput, StoreDamaged, StoreReplaced, StoreUnavailable, SwathError, UserError
from swath.domain.job import WaitingFor
from swath.domain.lease import Lease, LeaseDirective
from swath.observability.crash_points import reach
from swath.observability.task_context import span
from swath.pipeline.extract.stored_pages import StoredPages
from swath.pipeline.retrying import WaitingStatus
from swath.pipeline.worker.admission import JobHolds
from swath.pipeline.worker.attempt import WorkerContext
from swath.pipeline.worker.browser_placement import WorkerBrowsers
from swath.pipeline.worker.committer import Committer
from swath.pipeline.worker.heartbeat import CHECK_SECONDS, EventLoopWatchdog, Heartbeat, WorkerStateLog
from swath.pipeline.worker.idle import IdleWait
from swath.pipeline.worker.lease_runner import LeaseRunner
from swath.pipeline.worker.maintenance import Maintenance, PeriodicTask, run_periodically
from swath.pipeline.worker.outcome_buffer import GROUP_SECONDS, MAX_BUFFERED_BYTES
from swath.pipeline.worker.parts import WorkerOptions, WorkerParts
from swath.pipeline.worker.reextract_runner import ReextractRunner
from swath.pipeline.worker.slots import JobSlots
from swath.pipeline.worker.suspect_isolation import SuspectIsolation
from swath.sdk.scraper import Scraper

__all__ = ["Worker", "keep_freed_memory"]

_TRIM_THRESHOLD: Final = -1  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD: see mallopt(3)
_MMAP_THRESHOLD: Final = -3
KEPT_BYTES: Final = 32 << 20  # free at the top of the heap before any is handed back
LARGE_BYTES: Final = 4 << 20  # blocks from this size on are the system's own, and go back to it at once


def keep_freed_memory() -> None:
    """For the rest of the process."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # musl, macOS, Windows
        return
    mallopt(_TRIM_THRESHOLD, KEPT_BYTES)
    mallopt(_MMAP_THRESHOLD, LARGE_BYTES)


_log = logging.getLogger("swath.worker")

RECENT_COMMIT_FRACTION = (
    0.5  # of the time between heartbeats: a lease that the store has heard of so lately is not renewed
)
INTERRUPT_SECONDS = 5.0  # for the last commit, when what outlasted the grace period goes back


class Worker:
    """`run` returns after `stop` is set and what could be finished in the grace period is finished.

    `on_standstill` is called, in a thread of the worker, when a scraper has blocked the event loop for longer than an
    item may take: the caller may then end the process.
    """

    def __init__(
        self, parts: WorkerParts, options: WorkerOptions, on_standstill: Callable[[], None] = lambda: None
    ) -> None:
        self._parts = parts
        self._options = options
        self._on_standstill = on_standstill
        self._runners: dict[int, LeaseRunner] = {}
        self._slots: dict[str, JobSlots] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._cannot_run: set[str] = set()
        look_seconds = min(CHECK_SECONDS, options.standstill_seconds / 4)
        self._standstill = EventLoopWatchdog(parts.clock, look_seconds, self._longest_block, self._stands_still)
        self._waits = WaitingStatus(parts.book, parts.clock, options.worker_id)
        self._pulse = WorkerStateLog(parts.clock, options.worker_id, lambda: len(self._runners), self._running)
        self._holds = JobHolds(parts.book, parts.network, parts.clock)
        self._floor = SuspectIsolation(parts.book, self._waits, self._holds, self._running, self._changed.set)
        self._house = Maintenance(parts, options, lambda: bool(self._tasks), self._changed.set)
        self._rest = IdleWait(parts.queue, self._waits, options.busy_seconds, self._house.told)

    async def run(self, stop: asyncio.Event) -> None:
        """Works until told to stop."""
        keep_freed_memory()
        with self._standstill.watched():
            await self._work(stop)

    async def _work(self, stop: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        parts, options = self._parts, self._options
        heartbeat = Heartbeat(
            parts.book,
            parts.clock,
            self._waits,
            options.worker_id,
            self._to_renew,
            lambda answers, asked_at: self._heard(loop, answers, asked_at),
        )
        heartbeat.start(options.heartbeat_seconds)
        services = [asyncio.create_task(self._claim_until(stop))]
        chores = [
            *self._house.chores(),
            PeriodicTask("hints", self._rest.tend, lambda: options.heartbeat_seconds, breaks_off=True),
        ]
        services += [asyncio.create_task(run_periodically(chore, self._waits, stop)) for chore in chores]
        try:
            await asyncio.wait(services, return_when=asyncio.FIRST_COMPLETED)
            if not stop.is_set():  # one of them broke off, and the others do not know
                for service in services:
                    service.cancel()
            if any(_found_replaced_store(service) for service in services):
                self._drop_all()
            await self._drain(services)
        finally:
            for service in services:
                service.cancel()
            ends = await asyncio.gather(*services, return_exceptions=True)
            await heartbeat.stop()
            await self._house.resign()
        for end in sorted(ends, key=lambda end: not isinstance(end, StoreReplaced)):
            if isinstance(end, Exception):
                raise end

    # -- claiming ------------------------------------------------------------------------------------------------------

    async def _claim_until(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            self._changed.clear()
            for runner in list(self._runners.values()):
                runner.start_ready()  # another lease may have left slots free
            asked_at = self._parts.clock.boot()
            lease = await self._claim() if self._wants_more() else None
            if lease is None or not lease.alone:
                self._let_others_start()
            if lease is not None and stop.is_set():
                with contextlib.suppress(StoreUnavailable):  # then it is rescued when this process is gone
                    await self._parts.book.release(lease.worker_id, lease.fence)
            elif lease is not None:
                self._rest.over()
                self._begin(lease, asked_at + lease.lease_seconds)
                continue
            self._rest.spend({runner.lease.job.job_id for runner in self._runners.values()})
            # Who works for one job only must not take hints that others could make use of.
            await self._rest.take(stop, self._changed, busy=bool(self._tasks or self._options.job_id))

    def _wants_more(self) -> bool:
        """The next lease is claimed while the last items of the present ones still run, unless too much of what they
        have brought is still in memory, because storage is slow."""
        if len(self._tasks) >= self._options.max_leases or self._room() <= 0 or self._floor.has_suspects:
            return False
        return sum(runner.outbox.unstored_bytes for runner in self._runners.values()) < MAX_BUFFERED_BYTES

    def _running(self) -> int:
        return sum(slots.running for slots in tuple(self._slots.values()))  # the heartbeat's thread asks, too

    def _room(self, browsers: WorkerBrowsers | None = None) -> int:
        """For so many more items; of a job in the browsers, as far as there is room in them too."""
        room = self._options.max_items - self._running()
        return room if browsers is None else min(room, browsers.free)

    async def _claim(self) -> Lease | None:
        options = self._options
        # A job of which items are ready here needs more slots, not another lease.
        enough = {runner.lease.job.job_id for runner in self._runners.values() if runner.ready}
        without = self._cannot_run | enough | self._holds.jobs
        if options.job_id in without:  # then the store would look for nothing at all
            return None
        lease = None
        try:
            with contextlib.suppress(StoreUnavailable), self._waits.noticing("claim", WaitingFor.STORE), span("claim"):
                lease = await self._parts.book.claim(options.worker_id, options.job_id, without)
        except StoreDamaged as damage:
            if damage.job_id is None:
                raise
            _log.error("job %s is left out by this worker: %s", damage.job_id, damage)
            self._cannot_run.add(damage.job_id)
            self._changed.set()  # others may be ready
        if lease is not None:
            reach("after_claim")
        return lease

    def _let_others_start(self) -> None:
        """No further suspect came with the last claim. Slots were given up meanwhile: ask for them at once."""
        if self._floor.open_up():
            for runner in self._runners.values():
                runner.outbox.hurry()

    def _begin(self, lease: Lease, deadline: float) -> None:
        """Puts the lease on the floor at once, so that the next claim knows of it."""
        if lease.alone:
            self._floor.admit(lease.fence)
        try:
            scraper = self._parts.registry.get(lease.job.scraper_id, lease.job.scraper_source)
            browsers = self._browsers(scraper, lease)
        except UserError as error:
            _log.error("job %s is left to other workers: %s", lease.job.job_id, error)
            self._cannot_run.add(lease.job.job_id)
            work = self._parts.book.release(lease.worker_id, lease.fence)
        else:
            bench = WorkerContext(
                lease.job, scraper, self._parts.network, self._parts.clock, self._options.worker_id, browsers
            )
            runner = self._runner(lease, bench, deadline)
            runner.slots.users.add(runner)
            self._runners[lease.fence] = runner
            options = self._options
            work = Committer(
                runner, self._parts.storage, self._parts.clock, options.report_seconds, options.group_seconds
            ).run()
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(functools.partial(self._ended, lease))

    def _browsers(self, scraper: Scraper, lease: Lease) -> WorkerBrowsers | None:
        """Those that the job needs, if it does. Raises UserError when there are none."""
        if not scraper.needs_browser or lease.job.extracts is not None:
            return None
        if self._parts.browsers is None:
            raise BadInput(f"scraper {scraper.id!r} needs a browser, and this worker has none")
        return self._parts.browsers(self._browser_freed)

    def _browser_freed(self) -> None:
        """A session is free again, which may be later than the end of the item in it."""
        self._floor.line.fill()
        self._changed.set()

    def _runner(self, lease: Lease, bench: WorkerContext, deadline: float) -> LeaseRunner:
        far = self._options.group_seconds > GROUP_SECONDS
        room = functools.partial(self._room, bench.browsers)
        new = JobSlots(lease.slots, lease.target, room, lease.revision, far=far)
        slots = self._slots.setdefault(lease.job.job_id, new)
        slots.hope_for(lease.target, lease.revision)
        if lease.job.extracts is None:
            return LeaseRunner(lease, bench, deadline, slots, self._floor)
        parts, is_over = self._parts, lambda: lease.fence not in self._runners
        stored = StoredPages(parts.book, parts.storage, lease, self._waits, is_over)
        return ReextractRunner(lease, bench, deadline, slots, self._floor, stored)

    def _ended(self, lease: Lease, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, StoreReplaced):  # that is said once, when the worker ends
            _log_error(error)
        if (runner := self._runners.pop(lease.fence, None)) is not None:
            if error is not None:
                runner.abandon()  # nobody writes down any more what becomes of its items
            runner.slots.users.discard(runner)
            if not runner.slots.users:
                del self._slots[lease.job.job_id]
        if lease.alone:
            self._floor.dismiss(lease.fence)
        self._changed.set()
        if lease.job.job_id not in self._slots:  # else we have items of the job, so it goes on
            self._house.lease_ended.set()

    # -- keeping -------------------------------------------------------------------------------------------------------

    def _to_renew(self) -> list[int]:
        """Our leases of which the store has not just heard by a commit, but none when the event loop is blocked for
        longer than an item may take: a scraper that never gives it back would hold its items for ever.

        Runs in the heartbeat's thread.
        """
        self._pulse.tell()
        if self._standstill.found:
            return []
        long_ago = self._parts.clock.boot() - RECENT_COMMIT_FRACTION * self._options.heartbeat_seconds
        return [runner.lease.fence for runner in list(self._runners.values()) if runner.heard_at <= long_ago]

    def _longest_block(self) -> float:
        """For so many seconds the event loop may be blocked, which is asked in another thread."""
        runners = list(self._runners.values())
        longest = max((runner.lease.job.policy.timeouts.item_seconds for runner in runners), default=0.0)
        return longest + self._options.standstill_seconds

    def _stands_still(self) -> None:
        _log.error("an item blocks the event loop; the leases of this worker are left to others")
        self._on_standstill()

    def _heard(self, loop: asyncio.AbstractEventLoop, answers: Mapping[int, LeaseDirective], asked_at: float) -> None:
        """Runs in the heartbeat's thread: only the deadline may be touched there."""
        for fence, directive in answers.items():
            runner = self._runners.get(fence)
            if runner is None:
                continue
            if directive is not LeaseDirective.LOST:
                runner.deadline = asked_at + runner.lease.lease_seconds
            if directive is not LeaseDirective.GO_ON:
                act = runner.abandon if directive is LeaseDirective.LOST else runner.stop
                with contextlib.suppress(RuntimeError):  # the loop is closed: there is nothing left to tell
                    loop.call_soon_threadsafe(act)

    # -- stopping ------------------------------------------------------------------------------------------------------

    def _drop_all(self) -> None:
        """Lets go of everything at once, and tidies nothing up: the folders may belong to another store by now."""
        for task in self._tasks:
            task.cancel()
        for runner in list(self._runners.values()):
            runner.abandon()

    async def _drain(self, services: Sequence[asyncio.Task[None]]) -> None:
        """Hands back what has not begun, waits for the rest, and interrupts it when the grace period is over."""
        for runner in list(self._runners.values()):
            runner.stop()
        await asyncio.wait({*services, *self._tasks}, timeout=self._options.grace_seconds)
        for runner in list(self._runners.values()):
            await runner.interrupt()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=INTERRUPT_SECONDS)


def _found_replaced_store(service: asyncio.Task[None]) -> bool:
    return service.done() and not service.cancelled() and isinstance(service.exception(), StoreReplaced)


def _log_error(error: BaseException) -> None:
    """What Swath raises on purpose says all there is to say; where anything else came from, only its traceback does."""
    told = "a lease broke off; it will be rescued when its time is over"
    if isinstance(error, SwathError):
        _log.error("%s: %s", told, error)
    else:
        _log.error(told, exc_info=error)

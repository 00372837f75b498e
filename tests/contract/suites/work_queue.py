"""The contract of the WorkQueue port: what all queues do, and what those do that pass hints between workers."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Final

import pytest

from swath.domain.errors import StoreUnavailable
from swath.domain.job import WaitingFor
from swath.ports.work_queue import WorkHint, WorkQueue

__all__ = ["HINT_LEASE_SECONDS", "HintedQueueContract", "OpenQueue", "WorkQueueContract"]

HINT_LEASE_SECONDS: Final = 2.0  # how long a hint stays with a worker that says nothing
_SOON_SECONDS: Final = 60.0  # against hanging; a busy machine may take its time
_MOMENT_SECONDS: Final = 0.3
_TRIES: Final = 8

OpenQueue = Callable[[], WorkQueue]
"""The end of one more worker, closed after the test."""


class WorkQueueContract:
    """Fixtures to give: `open_queue`, an OpenQueue; the clock is a real one."""

    async def test_a_wait_ends_after_its_time_without_a_hint(self, open_queue: OpenQueue) -> None:
        queue = open_queue()
        assert await asyncio.wait_for(queue.wait(0.05), _SOON_SECONDS) is None

    @pytest.mark.req("W2")
    async def test_a_wait_can_be_broken_off_at_once(self, open_queue: OpenQueue) -> None:
        waiting = asyncio.create_task(open_queue().wait(600))
        await asyncio.sleep(_MOMENT_SECONDS)
        waiting.cancel()
        await asyncio.wait_for(asyncio.gather(waiting, return_exceptions=True), _SOON_SECONDS)

    async def test_signs_of_life_and_settling_are_no_trouble_without_a_hint(self, open_queue: OpenQueue) -> None:
        queue = open_queue()
        await queue.keep()
        await queue.settle("nobody told us of it")

    async def test_it_can_be_closed_again_and_while_somebody_waits(self, open_queue: OpenQueue) -> None:
        queue = open_queue()
        waiting = asyncio.create_task(queue.wait(0.1))
        await asyncio.sleep(0)
        await queue.close()
        await queue.close()
        await asyncio.wait({waiting}, timeout=_SOON_SECONDS)
        assert waiting.done()

    def test_it_says_how_long_a_worker_may_rely_on_it(self, open_queue: OpenQueue) -> None:
        assert open_queue().patience_seconds > 0


class HintedQueueContract(WorkQueueContract):
    """In addition: a hint that nobody keeps comes back after HINT_LEASE_SECONDS."""

    async def _given(self, queue: WorkQueue, seconds: float = _SOON_SECONDS) -> WorkHint:
        hint = await queue.wait(seconds)
        assert hint is not None
        return hint

    @pytest.mark.req("Q1")
    async def test_a_hint_arrives_as_it_was_announced(self, open_queue: OpenQueue) -> None:
        told = WorkHint(job_id="a job/with ünicode", chunk=7, epoch=1_750_000_000)
        await open_queue().announce([told])
        assert await self._given(open_queue()) == told

    async def test_who_waits_is_woken_at_once(self, open_queue: OpenQueue) -> None:
        waiting = asyncio.create_task(open_queue().wait(600))
        await asyncio.sleep(_MOMENT_SECONDS)
        await open_queue().announce([WorkHint(job_id="j")])
        assert await asyncio.wait_for(waiting, _SOON_SECONDS) == WorkHint(job_id="j")

    async def test_as_many_workers_are_told_as_there_are_hints(self, open_queue: OpenQueue) -> None:
        await open_queue().announce([WorkHint(job_id="j", epoch=1)] * 12)
        workers, told = [open_queue() for _ in range(14)], 0
        for _ in range(8):  # a busy machine may take its time over some of them
            hints = await asyncio.gather(*(worker.wait(1.5) for worker in workers))
            happy = [worker for worker, hint in zip(workers, hints, strict=True) if hint is not None]
            await asyncio.gather(*(worker.settle("j") for worker in happy))
            workers, told = [worker for worker in workers if worker not in happy], told + len(happy)
            if not happy and told:
                break
        assert told == 12

    @pytest.mark.req("S3")
    async def test_an_express_hint_comes_before_those_that_were_there_first(self, open_queue: OpenQueue) -> None:
        queue = open_queue()
        await queue.announce([WorkHint(job_id="bulk"), WorkHint(job_id="urgent", express=True)])
        assert await self._given(queue) == WorkHint(job_id="urgent", express=True)
        assert (await self._given(queue)).job_id == "bulk"

    @pytest.mark.req("Z1")
    async def test_the_hint_of_a_worker_that_fell_silent_goes_to_another(self, open_queue: OpenQueue) -> None:
        silent, other = open_queue(), open_queue()
        await silent.announce([WorkHint(job_id="j")])
        await self._given(silent)
        assert await other.wait(HINT_LEASE_SECONDS / 4) is None
        assert await self._given(other, HINT_LEASE_SECONDS + _SOON_SECONDS) == WorkHint(job_id="j")
        await silent.keep()  # too late
        await silent.settle("j")

    async def test_signs_of_life_keep_a_hint(self, open_queue: OpenQueue) -> None:
        alive, other = open_queue(), open_queue()
        await alive.announce([WorkHint(job_id="j")])
        await self._given(alive)
        waiting = asyncio.create_task(other.wait(1.75 * HINT_LEASE_SECONDS))
        while not waiting.done():
            await alive.keep()
            await asyncio.wait({waiting}, timeout=HINT_LEASE_SECONDS / 4)
        assert waiting.result() is None

    async def test_a_sign_of_life_may_come_from_another_thread(self, open_queue: OpenQueue) -> None:
        alive, other = open_queue(), open_queue()
        await alive.announce([WorkHint(job_id="j")])
        await self._given(alive)
        for _ in range(6):
            thread = threading.Thread(target=lambda: asyncio.run(alive.keep()))
            thread.start()
            await asyncio.to_thread(thread.join)
            assert await other.wait(HINT_LEASE_SECONDS / 4) is None

    async def test_a_settled_hint_is_used_up(self, open_queue: OpenQueue) -> None:
        queue, other = open_queue(), open_queue()
        await queue.announce([WorkHint(job_id="j"), WorkHint(job_id="j"), WorkHint(job_id="k")])
        given = [await self._given(queue) for _ in range(3)]
        assert sorted(hint.job_id for hint in given) == ["j", "j", "k"]
        await queue.settle("j")
        assert await self._given(other, HINT_LEASE_SECONDS + _SOON_SECONDS) == WorkHint(job_id="k")
        assert await other.wait(HINT_LEASE_SECONDS / 2) is None

    @pytest.mark.req("W2")
    async def test_who_leaves_gives_back_what_was_not_settled(self, open_queue: OpenQueue) -> None:
        took: list[float] = []
        while not took or (took[-1] >= HINT_LEASE_SECONDS and len(took) < _TRIES):  # a busy machine may be slow
            leaving, other = open_queue(), open_queue()
            await leaving.announce([WorkHint(job_id="j")])
            await self._given(leaving)
            begun = time.monotonic()
            await leaving.close()
            assert await self._given(other) == WorkHint(job_id="j")
            took.append(time.monotonic() - begun)
            await other.settle("j")
        assert min(took) < HINT_LEASE_SECONDS, "sooner than a hint that nobody gives back"

    async def test_a_hint_is_not_lost_when_nobody_waits_for_it_any_more(self, open_queue: OpenQueue) -> None:
        first, second = open_queue(), open_queue()
        waiting = asyncio.create_task(first.wait(20))
        await asyncio.sleep(_MOMENT_SECONDS)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await second.announce([WorkHint(job_id="j")])
        assert await self._given(second, HINT_LEASE_SECONDS + _SOON_SECONDS) == WorkHint(job_id="j")

    async def test_it_knows_about_how_many_hints_wait(self, open_queue: OpenQueue) -> None:
        queue = open_queue()
        assert await queue.waiting() == 0
        await queue.announce([WorkHint(job_id="j"), WorkHint(job_id="k", express=True), WorkHint(job_id="j")])
        assert await queue.waiting() == 3
        await self._given(queue)
        await asyncio.sleep(_MOMENT_SECONDS)
        assert await queue.waiting() <= 2

    async def test_after_its_end_it_does_not_answer(self, open_queue: OpenQueue) -> None:
        queue = open_queue()
        await queue.close()
        with pytest.raises(StoreUnavailable) as caught:
            await queue.wait(0.1)
        assert caught.value.waiting_for is WaitingFor.QUEUE

"""How fast a job is, according to its status: the part of JobStoreContract that needs time to pass."""

from __future__ import annotations

import itertools

import pytest

from swath.domain.item import RetrySelection
from swath.domain.job import WaitingFor
from swath.domain.transitions import JobState
from tests.contract.suites.builders import Store, claim_all, end_job, failed, finished, ready, success
from tests.support.clock import FakeClock

__all__ = ["JobRateContract"]


class Runner:
    """A worker that ends the items of a job one by one."""

    def __init__(self, store: Store, clock: FakeClock) -> None:
        self._store, self._clock = store, clock

    async def begin(self, items: int = 400, limit: int = 8) -> None:
        """Orders the job and leases all of it."""
        await ready(self._store, items=items, limit=limit)
        self.leases = await claim_all(self._store)
        self._left = [(lease, item.seq) for lease in self.leases for item in lease.items]

    async def end(self, items: int, every: float, *, well: bool = True) -> list[float]:
        """Ends some more, each after so many seconds; answers with the pace after each."""
        seen = []
        for _ in range(items):
            self._clock.advance(every)
            lease, seq = self._left.pop(0)
            await finished(self._store, lease, [success(seq) if well else failed(seq)])
            seen.append(await self.pace())
        return seen

    async def release(self) -> None:
        """Gives up all leases."""
        for lease in self.leases:
            await self._store.release(lease.worker_id, lease.fence)

    async def pace(self) -> float:
        """What the status says now, which the list of jobs must say too."""
        status = await self._store.status("job")
        assert (await self._store.jobs())[0].items_per_second == status.items_per_second
        return status.items_per_second

    async def eta(self) -> float | None:
        """What the status says now."""
        return (await self._store.status("job")).eta_seconds


class JobRateContract:
    """Fixtures to give: `store` (a Store, closed afterwards) on `clock` (a FakeClock)."""

    @pytest.fixture
    def runner(self, store: Store, clock: FakeClock) -> Runner:
        return Runner(store, clock)

    async def test_the_pace_is_that_of_the_last_seconds(self, runner: Runner) -> None:
        await runner.begin()
        assert (await runner.pace(), await runner.eta()) == (0.0, None)
        assert await runner.end(20, every=1) == pytest.approx([1] * 20)
        assert await runner.eta() == pytest.approx(380)
        seen = await runner.end(60, every=0.25)
        assert seen == sorted(seen)
        assert seen[-1] == pytest.approx(4, rel=0.1)

    async def test_the_pace_does_not_swing_between_one_end_and_the_next(self, runner: Runner, clock: FakeClock) -> None:
        await runner.begin()
        for seconds in (0.1, 1, 20):
            *_, last = await runner.end(60, every=seconds)
            assert last == pytest.approx(1 / seconds, rel=0.1)
            clock.advance(seconds * 0.9)
            assert await runner.pace() == last

    async def test_items_that_run_side_by_side_and_end_together_have_one_pace(
        self, runner: Runner, clock: FakeClock
    ) -> None:
        await runner.begin(limit=100)
        clock.advance(30)
        for _ in range(3):
            await runner.end(100, every=0)
            for _ in range(3):
                assert 1 < await runner.pace() < 4
                clock.advance(10)

    async def test_the_pace_falls_when_nothing_ends(self, runner: Runner, clock: FakeClock) -> None:
        await runner.begin()
        await runner.end(200, every=0.1)
        seen, etas = [await runner.pace()], [await runner.eta()]
        for _ in range(9):
            clock.advance(1)
            seen.append(await runner.pace())
            etas.append(await runner.eta())
        assert seen[0] == seen[1] == pytest.approx(10, rel=0.05)  # workers gather ends for about a second
        assert all(later < earlier for earlier, later in itertools.pairwise(seen[1:]))
        assert 0 < seen[-1] < 2.5
        assert None not in etas
        clock.advance(2)
        assert (await runner.pace(), await runner.eta()) == (0.0, None)

    async def test_a_slow_job_has_longer_to_prove_that_it_goes_on(self, runner: Runner, clock: FakeClock) -> None:
        await runner.begin(limit=1, items=40)
        await runner.end(10, every=30)
        clock.advance(60)
        assert 1 / 60 < await runner.pace() < 1 / 30
        clock.advance(200)
        assert (await runner.pace(), await runner.eta()) == (0.0, None)

    async def test_a_standstill_is_no_part_of_the_pace_after_it(self, runner: Runner, clock: FakeClock) -> None:
        await runner.begin()
        await runner.end(100, every=0.1)
        clock.advance(28)
        assert await runner.end(1, every=0) == [0.0]
        assert (await runner.end(20, every=0.2))[-1] == pytest.approx(5, rel=0.25)

    async def test_a_paused_job_has_no_eta_and_is_measured_anew(
        self, store: Store, runner: Runner, clock: FakeClock
    ) -> None:
        await runner.begin()
        await runner.end(100, every=0.1)
        assert await runner.eta() is not None
        paused = await store.pause("job")
        assert paused.items_per_second == pytest.approx(10, rel=0.05)
        assert paused.eta_seconds is None
        clock.advance(4)
        assert 0 < await runner.pace() < 10
        resumed = await store.resume("job")
        assert (resumed.items_per_second, resumed.eta_seconds) == (0.0, None)
        assert (await runner.end(8, every=1))[-1] == pytest.approx(1)
        assert await runner.eta() is not None

    async def test_a_job_that_waits_for_something_has_no_eta(self, store: Store, runner: Runner) -> None:
        await runner.begin()
        await runner.end(20, every=1)
        store.tell_waiting("worker", WaitingFor.DISK)
        assert await runner.eta() is None
        store.tell_waiting("worker", None)
        assert await runner.eta() == pytest.approx(380)

    async def test_an_ended_job_keeps_the_pace_of_its_generation(
        self, store: Store, runner: Runner, clock: FakeClock
    ) -> None:
        await runner.begin(items=30)
        await runner.end(5, every=1)
        await runner.end(10, every=1, well=False)
        await runner.release()
        await store.cancel("job")
        clock.advance(5)
        assert (await end_job(store)).items_per_second == pytest.approx(15 / 20)  # those that were cancelled never ran
        clock.advance(1_000)
        assert await runner.pace() == pytest.approx(15 / 20)
        assert (await store.retry("job", RetrySelection(failed=True))).items_per_second == 0.0
        clock.advance(1_000)
        leases = await claim_all(store)
        assert await runner.pace() == 0.0
        clock.advance(4)
        for lease in leases:
            await finished(store, lease, [success(item.seq) for item in lease.items])
            await store.release(lease.worker_id, lease.fence)
        ended = await end_job(store)
        assert (ended.state, ended.generation) == (JobState.PARTIALLY_COMPLETED, 2)
        assert ended.items_per_second == pytest.approx(10 / 4)
        assert ended.eta_seconds is None

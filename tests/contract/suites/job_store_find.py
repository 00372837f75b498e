"""What JobStore promises of filters: all matching items and no others, page by page. Part of JobStoreContract."""

from __future__ import annotations

import pytest

from swath.domain.errors import UnknownName
from swath.domain.failure import FailureKind
from swath.domain.item import EndedItem, ItemFilter, ItemRecord, RetrySelection, SuccessOutcome
from swath.domain.lease import Lease, SlotReport
from swath.domain.transitions import ItemState, JobState
from tests.contract.suites.builders import (
    Store,
    batch,
    claim_all,
    claimed,
    end_job,
    failed,
    finished,
    listing,
    new_job,
    ready,
    run_all,
    success,
)

__all__ = ["FindContract", "every_filter", "found"]

MOST_PAGES = 1_000


def every_filter() -> list[ItemFilter]:
    """All states and the kinds that the suites use, alone and together."""
    kinds = [None, "not_found", "found", "timeout", "blocked", "poison", "no_such_kind"]
    return [ItemFilter(state, kind) for state in (None, *ItemState) for kind in kinds]


async def found(store: Store, wanted: ItemFilter, job_id: str = "job", limit: int = 3) -> list[ItemRecord]:
    """All that fit, from as many pages as it takes; each must be in order and no longer than was asked for."""
    records: list[ItemRecord] = []
    after = 0
    for _ in range(MOST_PAGES):
        page = await store.find_items(job_id, wanted, after, limit)
        assert len(page.items) <= limit
        seqs = [after, *(record.seq for record in page.items)]
        assert seqs == sorted(set(seqs))
        records += page.items
        if page.next_after is None:
            return records
        assert page.next_after >= seqs[-1]
        assert page.next_after > after, "a page goes on where it began"
        after = page.next_after
    raise AssertionError("there is no end of pages")


async def _in_every_state(store: Store) -> Lease:
    """Items 1 to 40, some of them in each state, and the lease of what runs."""
    await ready(store, items=40)
    lease = await claimed(store)
    ends = [
        success(1),
        success(2, SuccessOutcome.NOT_FOUND),
        failed(3),
        failed(4, FailureKind.BLOCKED),
        EndedItem(seq=5, state=ItemState.SKIPPED, reason="robots"),
        failed(6, FailureKind.BLOCKED),
        success(7, SuccessOutcome.NOT_FOUND),
        success(8),
    ]
    assert len(lease.items) > len(ends) + 3
    await finished(store, lease, ends, report=SlotReport(ceiling=3, demand=5, queued=(9,), begun=(10, 11)))
    return lease


class FindContract:
    """See JobStoreContract."""

    @pytest.mark.req("I2", "J7")
    async def test_a_filter_finds_all_that_fits_and_nothing_else(self, store: Store) -> None:
        await _in_every_state(store)
        records = list((await listing(store)).values())
        assert {record.state for record in records} == set(ItemState) - {ItemState.CANCELLED}
        for wanted in every_filter():
            assert await found(store, wanted) == [record for record in records if wanted.takes(record)], wanted

    @pytest.mark.req("I2")
    async def test_filters_mean_what_they_say(self, store: Store) -> None:
        await _in_every_state(store)
        expected = {
            ItemFilter(ItemState.FAILED): [3, 4, 6],
            ItemFilter(kind="blocked"): [4, 6],
            ItemFilter(kind="not_found"): [2, 7],
            ItemFilter(ItemState.SUCCESS): [1, 2, 7, 8],
            ItemFilter(ItemState.SUCCESS, "not_found"): [2, 7],
            ItemFilter(ItemState.FAILED, "not_found"): [],
            ItemFilter(ItemState.SKIPPED): [5],
            ItemFilter(ItemState.QUEUED): [9],
            ItemFilter(ItemState.IN_PROGRESS): [10, 11],
            ItemFilter(ItemState.IN_PROGRESS, "blocked"): [],
            ItemFilter(ItemState.PENDING): list(range(12, 41)),
        }
        for wanted, seqs in expected.items():
            assert [record.seq for record in await found(store, wanted, limit=2)] == seqs, wanted

    @pytest.mark.req("I2")
    async def test_a_page_goes_on_behind_where_it_was_told(self, store: Store) -> None:
        await _in_every_state(store)
        page = await store.find_items("job", ItemFilter(ItemState.FAILED), after=3, limit=1)
        assert [record.seq for record in page.items] == [4]
        page = await store.find_items("job", ItemFilter(), after=38, limit=5)
        assert ([record.seq for record in page.items], page.next_after) == ([39, 40], None)
        assert (await store.find_items("job", ItemFilter(), after=40)).items == []

    @pytest.mark.req("I2")
    async def test_an_empty_job_and_an_unknown_one(self, store: Store) -> None:
        await store.submit(new_job())
        for wanted in every_filter():
            assert await found(store, wanted) == []
        with pytest.raises(UnknownName):
            await store.find_items("other", ItemFilter())

    @pytest.mark.req("I2", "J5")
    async def test_only_the_last_end_of_an_item_counts(self, store: Store) -> None:
        await ready(store, items=12)
        for number, kind in enumerate((FailureKind.TIMEOUT, FailureKind.BLOCKED, FailureKind.TIMEOUT)):
            for lease in await claim_all(store):
                ended = [
                    failed(item.seq, kind) if item.seq % 3 != number else success(item.seq) for item in lease.items
                ]
                await finished(store, lease, ended, report=SlotReport(ceiling=0, demand=0))
                await store.release("worker", lease.fence)
            await end_job(store)
            await self._agrees(store)
            if number < 2:
                await store.retry("job", RetrySelection(failed=True))
                await self._agrees(store)

    async def _agrees(self, store: Store) -> None:
        records = list((await listing(store)).values())
        for wanted in every_filter():
            assert await found(store, wanted) == [record for record in records if wanted.takes(record)], wanted

    @pytest.mark.req("I2", "J5")
    async def test_what_a_stop_has_cancelled_is_found(self, store: Store) -> None:
        lease = await _in_every_state(store)
        await store.cancel("job")
        await store.release("worker", lease.fence)
        await end_job(store)
        cancelled = await found(store, ItemFilter(ItemState.CANCELLED), limit=7)
        assert [record.seq for record in cancelled] == list(range(9, 41))

    @pytest.mark.req("I2")
    async def test_rows_that_were_refused_are_passed_over(self, store: Store) -> None:
        await store.submit(new_job())
        await store.load("job", batch(0, 1, {3: "a"}, rows=1_000))
        await store.load("job", batch(1, 1_001, {1_500: "b"}, rows=1_000))
        assert [record.seq for record in await found(store, ItemFilter(ItemState.PENDING))] == [3, 1_500]

    @pytest.mark.req("I2")
    async def test_jobs_are_listed_by_state_and_without_those_on_demand(self, store: Store) -> None:
        for number in range(6):
            await ready(store, f"job-{number}", items=1, on_demand=number % 2 == 1)
        await run_all(store)
        for number in (0, 1, 2):
            await end_job(store, job_id=f"job-{number}")
        await store.submit(new_job("loading"))

        async def ids(after: str | None = None, limit: int = 100, *, on_demand: bool = True, states: str = "") -> str:
            wanted = [JobState(state) for state in states.split()]
            listed = await store.jobs(after, limit, states=wanted, on_demand=on_demand)
            return " ".join(status.job.job_id for status in listed)

        assert await ids() == "loading job-5 job-4 job-3 job-2 job-1 job-0"
        assert await ids(on_demand=False) == "loading job-4 job-2 job-0"
        assert await ids(states="completed") == "job-2 job-1 job-0"
        assert await ids(states="completed", on_demand=False) == "job-2 job-0"
        assert await ids(states="running loading") == "loading job-5 job-4 job-3"
        assert await ids("job-4", states="running completed") == "job-3 job-2 job-1 job-0"
        assert await ids("job-4", 1, on_demand=False) == "job-2"
        assert await ids(states="paused") == ""

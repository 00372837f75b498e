"""What JobControl promises of versions of results (R6). Part of JobControlContract."""

from __future__ import annotations

import asyncio

import pytest

from swath.domain.errors import BadInput, Conflict, LeaseLost, UnknownName
from swath.domain.item import RetrySelection
from tests.contract.suites.builders import Store, end_job, new_job, ready, run_all

__all__ = ["VersionsContract"]


async def _ended(store: Store) -> None:
    await ready(store)
    await run_all(store)
    await end_job(store)


@pytest.mark.req("R6")
class VersionsContract:
    """See JobControlContract."""

    async def test_a_job_begins_with_its_own_results(self, store: Store) -> None:
        status = await store.submit(new_job())
        assert (status.versions, status.current_version) == (1, 1)

    async def test_versions_are_counted_and_the_pointer_stays(self, store: Store) -> None:
        await _ended(store)
        assert [await store.add_version("job"), await store.add_version("job")] == [2, 3]
        status = await store.status("job")
        assert (status.versions, status.current_version) == (3, 1)
        assert [(one.versions, one.current_version) for one in await store.jobs()] == [(3, 1)]

    async def test_no_two_who_ask_at_once_get_the_same_number(self, store: Store) -> None:
        await _ended(store)
        numbers = await asyncio.gather(*(store.add_version("job") for _ in range(5)))
        assert sorted(numbers) == [2, 3, 4, 5, 6]

    async def test_a_version_of_a_job_that_has_not_ended_is_not_made(self, store: Store) -> None:
        await ready(store)
        with pytest.raises(Conflict, match="'job' is pending"):
            await store.add_version("job")
        assert (await store.status("job")).versions == 1

    async def test_the_pointer_moves_there_and_back(self, store: Store) -> None:
        await _ended(store)
        before = await store.status("job")
        await store.add_version("job")
        assert (await store.set_current("job", 2)).current_version == 2
        assert (await store.status("job")).current_version == 2
        assert (await store.set_current("job", 2)).current_version == 2
        back = await store.set_current("job", 1)
        assert (back.current_version, back.counts, back.state) == (1, before.counts, before.state)

    async def test_who_has_lost_the_right_to_end_a_version_does_not_move_the_pointer(self, store: Store) -> None:
        await _ended(store)
        await store.add_version("job")
        await ready(store, "version")
        await run_all(store)
        right = await store.claim_ending("finisher", "version")
        assert right is not None
        assert (await store.set_current("job", 2, under=right)).current_version == 2
        await store.release("finisher", right.fence)
        with pytest.raises(LeaseLost):
            await store.set_current("job", 1, under=right)
        assert (await store.status("job")).current_version == 2

    @pytest.mark.parametrize("version", [-1, 0, 3])
    async def test_a_version_that_never_was_cannot_be_current(self, store: Store, version: int) -> None:
        await _ended(store)
        await store.add_version("job")
        with pytest.raises(BadInput, match=f"no version {version} .*versions 1 to 2"):
            await store.set_current("job", version)
        assert (await store.status("job")).current_version == 1

    async def test_they_outlast_another_generation(self, store: Store) -> None:
        await _ended(store)
        await store.add_version("job")
        await store.set_current("job", 2)
        status = await store.retry("job", RetrySelection(since=0.0))
        assert (status.versions, status.current_version) == (2, 2)

    async def test_a_job_on_its_way_out_or_not_there_has_none(self, store: Store) -> None:
        await _ended(store)
        for job_id, error in (("job", Conflict), ("jab", UnknownName)):
            await store.delete("job")
            with pytest.raises(error):
                await store.add_version(job_id)
            with pytest.raises(error):
                await store.set_current(job_id, 1)

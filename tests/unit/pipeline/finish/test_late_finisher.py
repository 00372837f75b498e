"""A finisher in a process of its own is frozen, or killed, at every step of an ending; another one ends the job, which
runs again and ends again, and then the frozen one goes on."""

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from swath.backends.sqlite.results.results import FolderResults
from swath.backends.sqlite.store.store import SqliteStore
from swath.domain.storage_keys import Layout
from swath.pipeline.results.verify.verifier import verify
from tests.support.clock import FakeClock
from tests.unit.pipeline.finish.late import (
    EVERYTHING,
    LEASE_SECONDS,
    LateFinisher,
    all_files,
    end,
    make_second_generation,
    make_version,
    near_clock,
    run_again,
)
from tests.unit.pipeline.finish.running import document

Start = Callable[..., LateFinisher]

STEPS = (
    "after_ending_claim:1",
    "after_ending_room:1",
    "before_settling_others:1",
    "before_manifest:1",
    "before_document:1",  # of an item
    "after_manifest_part:1",
    "before_leftovers:1",
    "before_withdrawal:1",
    "before_former_metadata:1",
    "before_job_metadata:1",
    "before_document:26",  # the same: 12 items, 12 parts, and the metadata of two generations
    "after_job_metadata:1",
    "before_end:1",
    "after_end:1",
)
OF_FILES = ("before_former_files:1", "before_former_removal:1")
OF_PACKS = ("before_pack_removal:1", "before_document:1", "before_withdrawal:1", "before_job_metadata:1")
KILLED_AT = [
    *((Layout.FILES, step) for step in ("after_ending_room:1", "before_former_removal:1", "before_document:1")),
    *((Layout.FILES, step) for step in ("before_withdrawal:1", "before_job_metadata:1", "before_end:1")),
    (Layout.WARC, "before_pack_removal:1"),
]
CASES = [(Layout.FILES, step) for step in STEPS + OF_FILES] + [(Layout.WARC, step) for step in OF_PACKS]


@pytest.fixture
def clock() -> FakeClock:
    return near_clock()


@pytest.fixture
async def store(tmp_path: Path, clock: FakeClock) -> AsyncIterator[SqliteStore]:
    made = SqliteStore.open(tmp_path, clock, LEASE_SECONDS)
    yield made
    await made.close()


@pytest.fixture
async def storage(tmp_path: Path) -> AsyncIterator[FolderResults]:
    made = FolderResults(tmp_path / "results")
    yield made
    await made.close()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a finisher; at the end of the test it is gone."""
    started: list[LateFinisher] = []

    def start(**variables: str) -> LateFinisher:
        started.append(LateFinisher({"SWATH_DATA": str(tmp_path), **variables}))
        return started[-1]

    yield start
    for one in started:
        one.close()


@pytest.mark.req("Z10", "Z2", "R3")
@pytest.mark.parametrize(("layout", "step"), CASES)
async def test_a_finisher_that_wakes_up_after_a_retry_changes_nothing(
    store: SqliteStore, storage: FolderResults, clock: FakeClock, start: Start, layout: Layout, step: str
) -> None:
    await make_second_generation(store, storage, clock, layout)
    late = start(SWATH_FREEZE_AT=step)
    await late.frozen()
    if step != "after_end:1":
        await end(store, storage, clock)
    await store.retry("job", EVERYTHING)
    await run_again(store, storage)
    await end(store, storage, clock)
    before = await all_files(storage)
    await late.wake()
    assert await all_files(storage) == before
    assert await storage.open_leases("job") == []
    assert (await document(storage, "job_metadata.json"))["generation"] == 3
    assert (await verify(store, storage, "job")).problems == ()


@pytest.mark.req("Z10", "Z2")
@pytest.mark.parametrize("step", ["before_document:1", "before_job_metadata:1", "before_settling_others:1"])
async def test_a_finisher_that_wakes_up_amid_a_retry_disturbs_nobody(
    store: SqliteStore, storage: FolderResults, clock: FakeClock, start: Start, step: str
) -> None:
    await make_second_generation(store, storage, clock)
    late = start(SWATH_FREEZE_AT=step)
    await late.frozen()
    await end(store, storage, clock)
    await store.retry("job", EVERYTHING)
    lease = await store.claim("worker", "job")
    assert lease is not None
    await storage.open_lease("job", lease.fence)
    before = await all_files(storage)
    await late.wake()
    assert await all_files(storage) == before
    assert await storage.open_leases("job") == [lease.fence]


@pytest.mark.req("Z10", "Z1", "R3")
@pytest.mark.parametrize(("layout", "step"), KILLED_AT)
async def test_what_a_killed_finisher_left_out_is_done_by_the_next(
    store: SqliteStore, storage: FolderResults, clock: FakeClock, start: Start, layout: Layout, step: str
) -> None:
    await make_second_generation(store, storage, clock, layout)
    await start(SWATH_CRASH_AT=step).killed()
    await end(store, storage, clock)
    assert await storage.open_leases("job") == []
    assert (await document(storage, "job_metadata.json"))["generation"] == 2
    assert (await verify(store, storage, "job")).problems == ()


@pytest.mark.req("Z10", "Z2")
async def test_a_build_whose_manifests_are_not_fenced_is_found_out(
    store: SqliteStore, storage: FolderResults, clock: FakeClock, start: Start
) -> None:
    await make_second_generation(store, storage, clock)
    late = start(SWATH_FREEZE_AT="before_job_metadata:1", SWATH_BROKEN="manifest_fence")
    await late.frozen()
    await end(store, storage, clock)
    await store.retry("job", EVERYTHING)
    await run_again(store, storage)
    await end(store, storage, clock)
    await late.wake()
    assert (await document(storage, "job_metadata.json"))["generation"] == 2
    assert (await verify(store, storage, "job")).found == {"metadata_wrong": 1}


@pytest.mark.req("Z10", "R6")
@pytest.mark.parametrize("step", ["before_diff:1", "before_current_version:1"])
async def test_a_finisher_of_a_version_that_wakes_up_late_does_not_decide_what_readers_get(
    store: SqliteStore, storage: FolderResults, clock: FakeClock, start: Start, step: str
) -> None:
    version = await make_version(store, storage, clock)
    late = start(SWATH_FREEZE_AT=step)
    await late.frozen()
    await end(store, storage, clock)
    assert (await store.status("job")).current_version == 2
    await store.set_current("job", 1)  # somebody wants the former one after all
    before = await all_files(storage, version)
    await late.wake()
    assert (await store.status("job")).current_version == 1
    assert await all_files(storage, version) == before
    assert (await verify(store, storage, version)).problems == ()

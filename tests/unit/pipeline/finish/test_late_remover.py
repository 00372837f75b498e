"""A remover in a process of its own is frozen at every step of a deletion; another one deletes the job, which is then
ordered anew under its id, and then the frozen one goes on."""

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from swath.backends.sqlite.results.results import FolderResults
from swath.backends.sqlite.store.store import SqliteStore
from swath.domain.storage_keys import Layout
from swath.pipeline.results.verify.verifier import verify
from tests.support.clock import FakeClock
from tests.unit.pipeline.finish.late import (
    ITEMS,
    LEASE_SECONDS,
    LateFinisher,
    all_files,
    delete,
    end,
    near_clock,
    run_again,
)
from tests.unit.pipeline.making import load

Start = Callable[..., LateFinisher]


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
    """Starts a remover; at the end of the test it is gone."""
    started: list[LateFinisher] = []

    def start(**variables: str) -> LateFinisher:
        started.append(LateFinisher({"SWATH_DATA": str(tmp_path), **variables}, deletes=True))
        return started[-1]

    yield start
    for one in started:
        one.close()


@pytest.mark.req("Z10", "J5")
@pytest.mark.parametrize("step", ["before_clearing:1", "before_removal:1"])
@pytest.mark.parametrize("layout", [Layout.FILES, Layout.WARC])
async def test_a_remover_that_wakes_up_late_removes_nothing_of_a_job_ordered_anew_under_the_id(
    store: SqliteStore, storage: FolderResults, clock: FakeClock, start: Start, layout: Layout, step: str
) -> None:
    await load(store, list(ITEMS), "job", layout)
    await run_again(store, storage)
    await end(store, storage, clock)
    await store.delete("job")
    late = start(SWATH_FREEZE_AT=step)
    await late.frozen()
    await delete(store, storage, clock)
    await load(store, list(ITEMS), "job", layout)
    await run_again(store, storage)
    await end(store, storage, clock)
    before = await all_files(storage)
    await late.wake()
    assert await all_files(storage) == before
    assert (await verify(store, storage, "job")).problems == ()

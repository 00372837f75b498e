"""A finisher in a process of its own is frozen while it writes to S3; another one ends the job, which runs again and
ends again, and then the frozen one goes on. So is a remover. The same in a folder:
tests/unit/pipeline/finish/test_late_finisher.py, test_late_remover.py."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.fakes.aws import Endpoints
from swath.backends.aws.s3.results import S3Results
from swath.backends.aws.store.store import AwsStore
from swath.domain.storage_keys import Layout
from swath.pipeline.results.verify.verifier import verify
from tests.integration.aws.storages import results
from tests.integration.aws.stores import Stores
from tests.support.clock import FakeClock
from tests.unit.pipeline.finish.late import (
    EVERYTHING,
    ITEMS,
    LEASE_SECONDS,
    LateFinisher,
    all_files,
    delete,
    end,
    make_second_generation,
    near_clock,
    run_again,
)
from tests.unit.pipeline.finish.running import document
from tests.unit.pipeline.making import load

Start = Callable[..., LateFinisher]

CASES = [
    (Layout.FILES, "after_ending_room:1"),
    (Layout.FILES, "before_former_removal:1"),
    (Layout.FILES, "before_document:2"),  # between a look at an object and its replacement
    (Layout.FILES, "before_withdrawal:1"),
    (Layout.FILES, "before_document:28"),  # the same, of job_metadata.json
    (Layout.FILES, "before_end:1"),
    (Layout.WARC, "before_pack_removal:1"),
    (Layout.WARC, "before_job_metadata:1"),
]


@pytest.fixture
def clock() -> FakeClock:
    return near_clock()


@pytest.fixture
def store(stores: Stores, clock: FakeClock, tmp_path: Path) -> AwsStore:
    return stores.open(tmp_path / "host", clock, lease_seconds=LEASE_SECONDS)


@pytest.fixture
def storage(aws: Endpoints, aws_name: str) -> S3Results:
    return results(aws, aws_name)


@pytest.fixture
def start(aws: Endpoints, aws_name: str, tmp_path: Path) -> Iterator[Start]:
    """Starts a finisher; at the end of the test it is gone."""
    started: list[LateFinisher] = []
    environment = {
        **aws.environment,
        "SWATH_DATA": str(tmp_path / "host"),
        "SWATH_STORE": f"dynamodb://{aws_name}",
        "SWATH_RESULTS": f"s3://{aws.bucket}/{aws_name}",
    }

    def start(*, deletes: bool = False, **variables: str) -> LateFinisher:
        started.append(LateFinisher(environment | variables, deletes=deletes))
        return started[-1]

    yield start
    for one in started:
        one.close()


async def stopped_while_others_went_on(
    store: AwsStore, storage: S3Results, clock: FakeClock, start: Start, layout: Layout, **variables: str
) -> LateFinisher:
    await make_second_generation(store, storage, clock, layout)
    late = start(**variables)
    await late.frozen()
    await end(store, storage, clock)
    await store.retry("job", EVERYTHING)
    await run_again(store, storage)
    await end(store, storage, clock)
    return late


@pytest.mark.req("Z10", "Z2", "R3")
@pytest.mark.parametrize(("layout", "step"), CASES)
async def test_a_finisher_that_wakes_up_after_a_retry_changes_nothing(
    store: AwsStore, storage: S3Results, clock: FakeClock, start: Start, layout: Layout, step: str
) -> None:
    late = await stopped_while_others_went_on(store, storage, clock, start, layout, SWATH_FREEZE_AT=step)
    before = await all_files(storage)
    await late.wake()
    assert await all_files(storage) == before
    assert await storage.open_leases("job") == []
    assert (await document(storage, "job_metadata.json"))["generation"] == 3
    assert (await verify(store, storage, "job")).problems == ()


@pytest.mark.req("Z10", "Z2")
async def test_a_build_whose_manifests_are_not_fenced_is_found_out(
    store: AwsStore, storage: S3Results, clock: FakeClock, start: Start
) -> None:
    armed = {"SWATH_FREEZE_AT": "before_job_metadata:1", "SWATH_BROKEN": "manifest_fence"}
    late = await stopped_while_others_went_on(store, storage, clock, start, Layout.FILES, **armed)
    await late.wake()
    assert (await document(storage, "job_metadata.json"))["generation"] == 2
    assert (await verify(store, storage, "job")).found == {"metadata_wrong": 1}


@pytest.mark.req("Z10", "Z1", "R3")
@pytest.mark.parametrize("step", ["before_document:2", "before_withdrawal:1", "before_end:1"])
async def test_what_a_killed_finisher_left_out_is_done_by_the_next(
    store: AwsStore, storage: S3Results, clock: FakeClock, start: Start, step: str
) -> None:
    await make_second_generation(store, storage, clock)
    await start(SWATH_CRASH_AT=step).killed()
    await end(store, storage, clock)
    assert await storage.open_leases("job") == []
    assert (await document(storage, "job_metadata.json"))["generation"] == 2
    assert (await verify(store, storage, "job")).problems == ()


@pytest.mark.req("Z10", "J5")
async def test_a_remover_that_wakes_up_late_removes_nothing_of_a_job_ordered_anew_under_the_id(
    store: AwsStore, storage: S3Results, clock: FakeClock, start: Start
) -> None:
    await load(store, list(ITEMS), "job", Layout.FILES)
    await run_again(store, storage)
    await end(store, storage, clock)
    await store.delete("job")
    late = start(deletes=True, SWATH_FREEZE_AT="before_clearing:1")
    await late.frozen()
    await delete(store, storage, clock)
    await load(store, list(ITEMS), "job", Layout.FILES)
    await run_again(store, storage)
    await end(store, storage, clock)
    before = await all_files(storage)
    await late.wake()
    assert await all_files(storage) == before
    assert (await verify(store, storage, "job")).problems == ()

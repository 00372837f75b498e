"""Much at once: many leases lost together, long histories, and commits of more than one transaction takes."""

import itertools
import random
import secrets
from pathlib import Path
from typing import Any

import pytest

from swath.backends.aws.client.client import Answer, Send
from swath.backends.aws.client.rows import Put, Row
from swath.backends.aws.store import claims, outcomes, rescue
from swath.backends.aws.store.job_row import JobRow
from swath.backends.aws.store.returned_items import ReturnedBuckets, ReturnedItem, add_returned
from swath.backends.aws.store.store import AwsStore
from swath.domain.errors import BadInput, LeaseLost, StoreDamaged, StoreUnavailable
from swath.domain.failure import Failure, FailureKind
from swath.domain.item import Attempt, HandedBackItem, TryCounts
from swath.domain.lease import Lease, LeaseDirective, SlotGrant, SlotReport
from tests.contract.suites.builders import claim_all, claimed, finished, listing, policy, ready, success
from tests.integration.aws.stores import Stores
from tests.support.clock import FakeClock

LEASE_SECONDS = 30.0


@pytest.fixture
def here(stores: Stores, clock: FakeClock, tmp_path: Path) -> AwsStore:
    return stores.open(tmp_path / "here", clock, lease_seconds=LEASE_SECONDS)


@pytest.fixture
def there(stores: Stores, clock: FakeClock, tmp_path: Path) -> AwsStore:
    return stores.open(tmp_path / "there", clock, lease_seconds=LEASE_SECONDS)


def history(luck: random.Random, attempts: int) -> tuple[Attempt, ...]:
    """Such as cannot be compressed well."""
    return tuple(
        Attempt(
            luck.random() * 1e9,
            luck.random() * 1e9,
            "host-3-worker-2",
            Failure.of(FailureKind.PROXY, f"the proxy answered 502, session {luck.randrange(10**6)}"),
            bytes=luck.randrange(10**5),
        )
        for _ in range(attempts)
    )


async def give_back(store: AwsStore, lease: Lease, attempts: int) -> dict[int, tuple[Attempt, ...]]:
    """All items of a lease, with long histories."""
    luck = random.Random(lease.fence)
    histories = {item.seq: history(luck, attempts) for item in lease.items}
    handed = [HandedBackItem(seq=seq, attempts=past, tries=TryCounts(own=len(past))) for seq, past in histories.items()]
    grant = await finished(store, lease, (), handed)
    assert grant.accepted == histories.keys()
    await store.release(lease.worker_id, lease.fence)
    return histories


@pytest.mark.req("S6", "Z1", "Q3")
@pytest.mark.parametrize("at_once", [25, 1])
async def test_every_suspect_of_many_lost_leases_is_handed_out(
    here: AwsStore, there: AwsStore, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(rescue, "_AT_ONCE", at_once)
    await ready(here, items=1_200, limit=1_200)
    for number in range(46):
        lease = await claimed(there, f"worker-{number}")
        report = SlotReport(ceiling=lease.slots, demand=len(lease.items), begun=(lease.items[0].seq,))
        await finished(there, lease, report=report)
    assert await here.rescue("cleaner") == []  # the first look at the leases
    clock.advance(LEASE_SECONDS)
    for lost in await here.rescue("cleaner"):
        await here.release("cleaner", lost.fence)
    alone = 0
    while (lease := await claimed(here)).alone:
        alone += len(lease.items)
        await finished(here, lease, [success(item.seq) for item in lease.items])
        await here.release("worker", lease.fence)
    assert alone == 46


@pytest.mark.req("S4", "Q3")
async def test_what_was_tried_is_not_hidden_by_rows_of_what_the_circuit_holds_back(
    here: AwsStore, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = itertools.count()
    monkeypatch.setattr(
        secrets, "token_hex", lambda nbytes: f"{next(numbers):0{2 * nbytes}x}"
    )  # the last row comes last
    breaker = {"min_requests": 60, "consecutive_failures": 60}
    await ready(here, items=200, policy=policy(1_000, breaker))
    leased = [(lease, item.seq) for lease in await claim_all(here) for item in lease.items]
    for lease, seq in leased[:45]:
        await finished(here, lease, (), [HandedBackItem(seq=seq, delay_seconds=10.0)])
    later = await claim_all(here)
    assert sum(len(lease.items) for lease in later) == 45
    tried = later[0].items[0].seq
    await finished(here, later[0], (), [HandedBackItem(seq=tried, delay_seconds=10.0, tries=TryCounts(own=1))])
    clock.advance(20.0)
    assert [item.seq for item in (await claimed(here)).items] == [tried]


@pytest.mark.req("W5", "Q3")
def test_small_rows_become_one_when_items_are_taken_from_them() -> None:
    head, taken = JobRow(1, "job"), ReturnedBuckets()
    for seq in range(1, 10):
        (put,) = add_returned(head, [ReturnedItem(seq), ReturnedItem(seq + 10)])
        taken.add(Row(put.key, put.body))
    changes = taken.take(head, [item for item in taken.items if item.seq < 10])
    (rest,) = [change for change in changes if isinstance(change, Put)]
    left = ReturnedBuckets()
    left.add(Row(rest.key, rest.body))
    assert [item.seq for item in left.items] == list(range(11, 20))
    assert len({change.key for change in changes}) == len(changes) == 9
    assert head.waiting[0].untried == 9


@pytest.mark.req("W5", "Q3")
async def test_long_histories_are_handed_out_in_smaller_leases(stores: Stores, here: AwsStore) -> None:
    await ready(here, items=60, limit=60)
    lease = await claimed(here)
    histories = await give_back(here, lease, 600)
    seen: dict[int, tuple[Attempt, ...]] = {}
    leases = await claim_all(here)
    for each in leases:
        seen.update({item.seq: item.attempts for item in each.items if item.attempts})
    assert seen == histories
    for each in leases:
        await here.release(each.worker_id, each.fence)
    assert {seq: record.attempts for seq, record in (await listing(here)).items() if record.attempts} == histories
    assert not [key for key in await stores.keys() if key[1].startswith("held/")]


@pytest.mark.req("W5", "Z1", "Q3")
async def test_many_leases_with_long_histories_are_rescued_together(
    here: AwsStore, there: AwsStore, clock: FakeClock
) -> None:
    await ready(here, items=400, limit=400)
    first = [await claimed(here, f"worker-{number}") for number in range(12)]
    histories = {}
    for lease in first:
        histories.update(await give_back(here, lease, 200))
    leases = [again for number in range(40) if (again := await there.claim(f"worker-{number}")) is not None]
    assert await here.rescue("cleaner") == []  # the first look at the leases
    clock.advance(LEASE_SECONDS)
    rescued = await here.rescue("cleaner")
    assert {lost.fence for lost in rescued} == {lease.fence for lease in leases}
    assert await here.rescue("cleaner") == []
    assert {seq: record.attempts for seq, record in (await listing(here)).items() if record.attempts} == histories


@pytest.mark.req("W5", "Z1", "Q3")
async def test_a_job_that_cannot_be_rescued_keeps_no_other_from_it(
    here: AwsStore, there: AwsStore, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ready(here, "bad")
    await ready(here, "good")
    await claimed(there, job_id="bad")
    lease = await claimed(there, job_id="good")
    real = rescue._rescue_in

    async def broken(ledger: object, worker_id: str, job_id: str, gone: object) -> object:
        if job_id == "bad":
            raise ValueError("213 changes in one commit")
        return await real(ledger, worker_id, job_id, gone)  # type: ignore[arg-type]

    monkeypatch.setattr(rescue, "_rescue_in", broken)
    assert await here.rescue("cleaner") == []  # the first look at the leases
    clock.advance(LEASE_SECONDS)
    assert [lost.fence for lost in await here.rescue("cleaner")] == [lease.fence]
    with pytest.raises(ValueError, match="213 changes"):
        await here.rescue("cleaner")


@pytest.mark.req("W5", "Q3")
async def test_items_may_be_handed_back_for_as_many_times_as_there_are_items(here: AwsStore) -> None:
    await ready(here, items=300, limit=100)
    lease = await claimed(here)
    assert len(lease.items) == 100
    grant = await finished(here, lease, (), far_apart(lease))
    assert grant.directive is LeaseDirective.GO_ON
    assert grant.accepted == {item.seq for item in lease.items}


class LosesAnswers:
    """Of the commits that come after so many."""

    def __init__(self) -> None:
        self.after: int | None = None

    async def __call__(self, service: str, operation: str, params: dict[str, Any], send: Send) -> Answer:
        answer = await send()
        if operation == "transact_write_items" and self.after is not None:
            self.after -= 1
            if self.after < 0:
                raise TimeoutError("the answer was lost")
        return answer


def far_apart(lease: Lease) -> list[HandedBackItem]:
    return [
        HandedBackItem(seq=item.seq, delay_seconds=10.0 + 6.0 * place, tries=TryCounts(own=1))
        for place, item in enumerate(lease.items)
    ]


@pytest.mark.req("Z1", "Q3", "Z9")
async def test_a_commit_in_pieces_of_which_one_had_no_answer_is_answered_for_as_a_whole(
    stores: Stores, clock: FakeClock, tmp_path: Path
) -> None:
    network = LosesAnswers()
    store = stores.open(tmp_path, clock, intercept=network, patience_seconds=1.0)
    await ready(store, items=300, limit=100)
    lease = await claimed(store)
    network.after = 1
    with pytest.raises(StoreUnavailable):
        await finished(store, lease, (), far_apart(lease))
    network.after = None
    assert (await finished(store, lease, (), far_apart(lease))).accepted == {item.seq for item in lease.items}


@pytest.mark.req("Z1", "Q3", "Z9")
async def test_a_lease_that_is_taken_away_between_two_pieces_does_not_look_as_if_nothing_had_counted(
    here: AwsStore, there: AwsStore, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ready(here, items=300, limit=100)
    lease = await claimed(here)
    real = outcomes._finish

    async def then_lost(*given: Any) -> SlotGrant:
        grant = await real(*given)
        await rescue.rescue(there._ledger, "cleaner")  # the first look at the lease
        clock.advance(LEASE_SECONDS)
        await rescue.rescue(there._ledger, "cleaner")
        return grant

    monkeypatch.setattr(outcomes, "_finish", then_lost)
    with pytest.raises(LeaseLost):
        await finished(here, lease, (), far_apart(lease))


@pytest.mark.req("W5", "Q3")
async def test_what_keeps_a_job_from_being_handed_out_says_which_job(
    here: AwsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ready(here)

    async def too_large(*given: Any) -> None:
        raise BadInput("the row has 809000 bytes")

    monkeypatch.setattr(claims, "_choose", too_large)
    with pytest.raises(StoreDamaged, match="809000") as raised:
        await here.claim("worker")
    assert raised.value.job_id == "job"
    assert await here.claim("worker", without={"job"}) is None

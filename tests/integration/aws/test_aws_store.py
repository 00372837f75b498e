"""The store on DynamoDB keeps the contracts of all parts of the store. What only it promises is in the files beside."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from swath.backends.aws.store.store import AwsStore
from tests.contract.suites import (
    DurableStoreContract,
    EndingsContract,
    JobControlContract,
    JobStoreContract,
    KeyRingContract,
    Kill,
    LeaseStoreContract,
    Reopen,
    WebhookOutboxContract,
)
from tests.contract.suites.builders import Store, begun, claimed, failed, finished, policy, ready, success
from tests.contract.suites.job_store_rate import Runner
from tests.integration.aws.stores import Line, Stores, killer, stores_on
from tests.support.clock import FakeClock


class AwsFixtures:
    @pytest.fixture
    def clock(self) -> FakeClock:
        return FakeClock()

    @pytest.fixture
    async def stores(self, line: Line, aws_name: str) -> AsyncIterator[Stores]:
        async with stores_on(line, aws_name) as stores:
            yield stores

    @pytest.fixture
    async def store(self, stores: Stores, clock: FakeClock, tmp_path: Path) -> AwsStore:
        return stores.open(tmp_path, clock)

    @pytest.fixture
    def kill(self, store: AwsStore) -> Kill:
        return killer(store)

    @pytest.fixture
    def reopen(self, stores: Stores, clock: FakeClock, tmp_path: Path) -> Reopen:
        async def open_again() -> AwsStore:
            return stores.open(tmp_path, clock)

        return open_again


LOOKS = 20


class SeldomLooks(Runner):
    """Looks at the pace after the last few ends only, because every look is a request."""

    async def end(self, items: int, every: float, *, well: bool = True) -> list[float]:
        for _ in range(items - LOOKS):
            self._clock.advance(every)
            lease, seq = self._left.pop(0)
            await finished(self._store, lease, [success(seq) if well else failed(seq)])
        seen = await super().end(min(items, LOOKS), every, well=well)
        assert await super().pace() == seen[-1], "the list of jobs says the same"
        return seen

    async def pace(self) -> float:
        return (await self._store.status("job")).items_per_second


@pytest.mark.req("Q1", "Q3", "J2", "J6", "J7")
class TestJobStore(AwsFixtures, JobStoreContract):
    @pytest.fixture
    def runner(self, store: Store, clock: FakeClock) -> Runner:
        return SeldomLooks(store, clock)


@pytest.mark.req("Q1", "Q3", "J5", "S1")
class TestJobControl(AwsFixtures, JobControlContract):
    pass


@pytest.mark.req("Q1", "Q3", "J3", "J4", "S1", "S3", "S4", "S6", "Z1")
class TestLeaseBook(AwsFixtures, LeaseStoreContract):
    async def test_an_item_is_marked_as_never_leased_before_only_once(self, store: Store) -> None:
        await ready(store)
        lease = await claimed(store)
        assert all(item.first for item in lease.items)
        await store.release(lease.worker_id, lease.fence)
        assert not any(item.first for item in (await claimed(store)).items)


@pytest.mark.req("Q1", "Q3", "J4", "J5", "Z1")
class TestEndings(AwsFixtures, EndingsContract):
    pass


@pytest.mark.req("Q1", "Q3", "N1")
class TestWebhookOutbox(AwsFixtures, WebhookOutboxContract):
    pass


@pytest.mark.req("Q1", "Q3", "I5")
class TestKeyRing(AwsFixtures, KeyRingContract):
    pass


@pytest.mark.req("Q3", "J2", "Z1")
class TestDurableStore(AwsFixtures, DurableStoreContract):
    async def test_nothing_begins_after_another_process_has_stopped_the_job(self, store: Store, reopen: Reopen) -> None:
        """As in the suite, but that a word to the table comes between: `begin` says nothing over the network."""
        await ready(store, items=40)
        lease = await claimed(store)
        other = await reopen()
        begun(store, lease, 1)
        await other.pause("job")
        await store.renew(lease.worker_id, [lease.fence])
        assert not store.begin(lease, 2)
        await other.resume("job")
        await store.renew(lease.worker_id, [lease.fence])
        begun(store, lease, 2)
        await other.change_policy("job", policy(3))
        await store.renew(lease.worker_id, [lease.fence])
        assert not store.begin(lease, 3)
        further = await claimed(store)
        begun(store, further, further.items[0].seq)
        await other.cancel("job")
        await store.renew(further.worker_id, [further.fence])
        assert not store.begin(further, further.items[1].seq)

"""The memory store keeps the contracts of all parts of the store."""

from collections.abc import AsyncIterator

import pytest

from tests.contract.suites import (
    EndingsContract,
    JobControlContract,
    JobStoreContract,
    KeyRingContract,
    Kill,
    LeaseStoreContract,
    WebhookOutboxContract,
)
from tests.support.clock import FakeClock
from tests.support.memory.store import MemoryStore


class MemoryFixtures:
    @pytest.fixture
    def clock(self) -> FakeClock:
        return FakeClock()

    @pytest.fixture
    async def store(self, clock: FakeClock) -> AsyncIterator[MemoryStore]:
        store = MemoryStore(clock, lease_seconds=15.0)
        yield store
        await store.close()

    @pytest.fixture
    def kill(self, store: MemoryStore) -> Kill:
        return store.kill


@pytest.mark.req("Q1", "J2", "J6", "J7")
class TestJobStore(MemoryFixtures, JobStoreContract):
    pass


@pytest.mark.req("Q1", "J5", "S1")
class TestJobControl(MemoryFixtures, JobControlContract):
    pass


@pytest.mark.req("Q1", "J3", "J4", "S1", "S3", "S4", "S6", "Z1")
class TestLeaseBook(MemoryFixtures, LeaseStoreContract):
    pass


@pytest.mark.req("Q1", "J4", "J5", "Z1")
class TestEndings(MemoryFixtures, EndingsContract):
    pass


@pytest.mark.req("Q1", "N1", "Z1")
class TestWebhookOutbox(MemoryFixtures, WebhookOutboxContract):
    pass


@pytest.mark.req("Q1", "I5")
class TestKeyRing(MemoryFixtures, KeyRingContract):
    pass

"""The embedded store keeps the contracts of all parts of the store."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from swath.backends.sqlite.store.store import SqliteStore
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
from tests.support.clock import FakeClock


class EmbeddedFixtures:
    @pytest.fixture
    def clock(self) -> FakeClock:
        return FakeClock()

    @pytest.fixture
    async def store(self, clock: FakeClock, tmp_path: Path) -> AsyncIterator[SqliteStore]:
        store = SqliteStore.open(tmp_path, clock, lease_seconds=15.0)
        yield store
        await store.close()

    @pytest.fixture
    def kill(self, store: SqliteStore) -> Kill:
        """Lets go of the worker's lock, as the system does when its process dies."""
        return lambda worker_id: os.close(store._presence._held.pop(worker_id)[0])

    @pytest.fixture
    async def reopen(self, clock: FakeClock, tmp_path: Path) -> AsyncIterator[Reopen]:
        opened: list[SqliteStore] = []

        async def open_again() -> SqliteStore:
            opened.append(SqliteStore.open(tmp_path, clock, lease_seconds=15.0))
            return opened[-1]

        yield open_again
        for store in opened:
            await store.close()


@pytest.mark.req("Q1", "Q2", "J2", "J6", "J7")
class TestJobStore(EmbeddedFixtures, JobStoreContract):
    pass


@pytest.mark.req("Q1", "Q2", "J5", "S1")
class TestJobControl(EmbeddedFixtures, JobControlContract):
    pass


@pytest.mark.req("Q1", "Q2", "J3", "J4", "S1", "S3", "S4", "S6", "Z1")
class TestLeaseBook(EmbeddedFixtures, LeaseStoreContract):
    pass


@pytest.mark.req("Q1", "Q2", "J4", "J5", "Z1")
class TestEndings(EmbeddedFixtures, EndingsContract):
    pass


@pytest.mark.req("Q1", "Q2", "N1", "Z1")
class TestWebhookOutbox(EmbeddedFixtures, WebhookOutboxContract):
    pass


@pytest.mark.req("Q1", "Q2", "I5")
class TestKeyRing(EmbeddedFixtures, KeyRingContract):
    pass


@pytest.mark.req("Q2", "J2", "Z1", "N1", "I2", "I5")
class TestDurableStore(EmbeddedFixtures, DurableStoreContract):
    pass

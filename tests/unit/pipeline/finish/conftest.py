from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from swath.backends.sqlite.results.results import FolderResults
from swath.backends.sqlite.store.store import SqliteStore
from tests.contract.suites.builders import Store
from tests.support.clock import FakeClock
from tests.support.memory.store import MemoryStore


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=["memory", "embedded"])
async def store(request: pytest.FixtureRequest, clock: FakeClock, tmp_path: Path) -> AsyncIterator[Store]:
    made = MemoryStore(clock) if request.param == "memory" else SqliteStore.open(tmp_path, clock)
    yield made
    await made.close()


@pytest.fixture
async def storage(tmp_path: Path) -> AsyncIterator[FolderResults]:
    made = FolderResults(tmp_path / "results")
    yield made
    await made.close()

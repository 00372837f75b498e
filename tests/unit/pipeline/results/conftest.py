from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from swath.backends.sqlite.results.results import FolderResults
from swath.backends.sqlite.store.store import SqliteStore
from swath.domain.storage_keys import Layout
from swath.ports.clock import Clock
from swath.ports.result_storage import ResultStorage
from tests.contract.suites.builders import Store
from tests.support.clock import FakeClock
from tests.support.memory.results import MemoryResults
from tests.support.memory.store import MemoryStore


@pytest.fixture(params=list(Layout))
def layout(request: pytest.FixtureRequest) -> Layout:
    found: Layout = request.param
    return found


@pytest.fixture(params=["memory", "embedded"])
def place(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def clock() -> Clock:
    """Stands still; modules whose workers really run have the system's."""
    return FakeClock()


@pytest.fixture
async def store(place: str, tmp_path: Path, clock: Clock) -> AsyncIterator[Store]:
    made: Store = MemoryStore(clock) if place == "memory" else SqliteStore.open(tmp_path, clock)
    yield made
    await made.close()


@pytest.fixture
async def storage(place: str, tmp_path: Path) -> AsyncIterator[ResultStorage]:
    if place == "memory":
        yield MemoryResults()
        return
    made = FolderResults(tmp_path / "results")
    yield made
    await made.close()

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from swath.backends.embedded.results import FolderResults
from swath.backends.embedded.store import EmbeddedStore
from swath.backends.memory.store import MemoryStore
from swath.testing.clock import FakeClock
from swath.testing.contracts.orders import Store


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=["memory", "embedded"])
async def store(request: pytest.FixtureRequest, clock: FakeClock, tmp_path: Path) -> AsyncIterator[Store]:
    made = MemoryStore(clock) if request.param == "memory" else EmbeddedStore.open(tmp_path, clock)
    yield made
    await made.close()


@pytest.fixture
async def storage(tmp_path: Path) -> AsyncIterator[FolderResults]:
    made = FolderResults(tmp_path / "results")
    yield made
    await made.close()

"""Both result storages keep the contract of the port."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from swath.backends.sqlite.results.results import FolderResults
from tests.contract.suites import ResultStorageContract
from tests.support.memory.results import MemoryResults


@pytest.mark.req("Q1", "R1", "Z2")
class TestMemoryResults(ResultStorageContract):
    @pytest.fixture
    async def storage(self) -> AsyncIterator[MemoryResults]:
        storage = MemoryResults()
        yield storage
        await storage.close()


@pytest.mark.req("Q1", "Q2", "R1", "Z2")
class TestFolderResults(ResultStorageContract):
    @pytest.fixture
    async def storage(self, tmp_path: Path) -> AsyncIterator[FolderResults]:
        storage = FolderResults(tmp_path)
        yield storage
        await storage.close()

    @pytest.fixture
    async def sleeper(self, tmp_path: Path, storage: FolderResults) -> AsyncIterator[FolderResults]:
        sleeper = FolderResults(tmp_path)
        yield sleeper
        await sleeper.close()

"""The soak's own result storage keeps the contract of the port, so the engine above it cannot tell the difference."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from swath.testing.contracts import ResultStorageContract
from swath.testing.contracts.result_storage import all_keys, item, staged
from swath.testing.soak.results import OneFileResults


@pytest.mark.req("Q1", "Z2")
class TestOneFileResults(ResultStorageContract):
    @pytest.fixture
    async def storage(self, tmp_path: Path) -> AsyncIterator[OneFileResults]:
        storage = OneFileResults(tmp_path / "results.db")
        yield storage
        await storage.close()


@pytest.mark.req("Z2")
async def test_two_processes_share_the_file(tmp_path: Path) -> None:
    first, second = OneFileResults(tmp_path / "results.db"), OneFileResults(tmp_path / "results.db")
    await staged(first, 1, item("a", data=b"1"))
    await second.settle("job", 1, ["a"])
    assert await all_keys(first) == ["items/a/data.json"]
    assert await second.open_leases("job") == []
    await first.close()
    await second.close()

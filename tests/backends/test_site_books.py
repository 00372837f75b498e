"""Both site books keep the contract of the port."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from swath.backends.embedded.site_book import EmbeddedSiteBook
from swath.backends.memory.site_book import MemorySiteBook
from swath.ports.site_book import SiteBook
from swath.testing.clock import FakeClock
from swath.testing.contracts.site_book import SiteBookContract


class OnAFakeClock:
    @pytest.fixture
    def clock(self) -> FakeClock:
        return FakeClock()


@pytest.mark.req("S2", "S7", "D2", "D3", "Z3", "property 22", "property 26", "property 29")
class TestMemorySiteBook(OnAFakeClock, SiteBookContract):
    @pytest.fixture
    async def book(self, clock: FakeClock) -> AsyncIterator[SiteBook]:
        book = MemorySiteBook(clock)
        yield book
        await book.close()


@pytest.mark.req("S2", "S7", "D2", "D3", "Z3", "property 22", "property 26", "property 29")
class TestEmbeddedSiteBook(OnAFakeClock, SiteBookContract):
    @pytest.fixture
    async def book(self, clock: FakeClock, tmp_path: Path) -> AsyncIterator[SiteBook]:
        book = EmbeddedSiteBook(tmp_path, clock)
        yield book
        await book.close()

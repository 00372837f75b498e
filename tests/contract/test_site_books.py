"""Both site books keep the contract of the port."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from swath.backends.sqlite.sites.site_state import SqliteSiteState
from swath.ports.site_state import SiteState
from tests.contract.suites.site_state import SiteStateContract
from tests.support.clock import FakeClock
from tests.support.memory.site_state import MemorySiteState


class OnAFakeClock:
    @pytest.fixture
    def clock(self) -> FakeClock:
        return FakeClock()


@pytest.mark.req("S2", "S7", "D2", "D3", "Z3", "property 22", "property 26", "property 29")
class TestMemorySiteBook(OnAFakeClock, SiteStateContract):
    @pytest.fixture
    async def book(self, clock: FakeClock) -> AsyncIterator[SiteState]:
        book = MemorySiteState(clock)
        yield book
        await book.close()


@pytest.mark.req("S2", "S7", "D2", "D3", "Z3", "property 22", "property 26", "property 29")
class TestEmbeddedSiteBook(OnAFakeClock, SiteStateContract):
    @pytest.fixture
    async def book(self, clock: FakeClock, tmp_path: Path) -> AsyncIterator[SiteState]:
        book = SqliteSiteState(tmp_path, clock)
        yield book
        await book.close()

"""One Chromium and one site for each module, a session for each test."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from swath.fetch.browser.chromium.launch import ChromiumProcess
from tests.unit.fetch.browser.visited_site import VisitedSite, visited_site
from tests.unit.fetch.browser.visiting import launched_browser
from tests.unit.recordings.player.playing import Played, playing


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def launched(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ChromiumProcess]:
    async with launched_browser(tmp_path_factory.mktemp("browser")) as launched:
        yield launched


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site() -> AsyncIterator[VisitedSite]:
    async with visited_site() as site:
        yield site


@pytest_asyncio.fixture(loop_scope="module")
async def played(launched: ChromiumProcess, site: VisitedSite) -> AsyncIterator[Played]:
    async with playing(launched, site) as played:
        yield played

from collections.abc import AsyncIterator

import pytest

from swath.demo.county import DemoCountyServer
from tests.unit.demo.county.client import Client


@pytest.fixture
async def county() -> AsyncIterator[DemoCountyServer]:
    async with DemoCountyServer() as running:
        yield running


@pytest.fixture
async def client(county: DemoCountyServer) -> AsyncIterator[Client]:
    """A visitor who has not yet agreed to anything."""
    async with Client(county.base_url) as visitor:
        yield visitor


@pytest.fixture
async def agreed(client: Client) -> Client:
    """A visitor with a session."""
    await client.agree()
    return client

from collections.abc import AsyncIterator

import pytest

from swath.testing.demo_county import DemoCounty
from tests.testing.demo_county.client import Client


@pytest.fixture
async def county() -> AsyncIterator[DemoCounty]:
    async with DemoCounty() as running:
        yield running


@pytest.fixture
async def client(county: DemoCounty) -> AsyncIterator[Client]:
    """A visitor who has not yet agreed to anything."""
    async with Client(county.base_url) as visitor:
        yield visitor


@pytest.fixture
async def agreed(client: Client) -> Client:
    """A visitor with a session."""
    await client.agree()
    return client

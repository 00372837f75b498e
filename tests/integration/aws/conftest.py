"""Fixtures of all tests on AWS: one set of real servers for the whole run, and names of their own for every test."""

import itertools
import os
import secrets
from collections.abc import AsyncIterator, Iterator

import pytest

from harness.fakes.aws import Endpoints, SharedServers, shared_servers
from harness.fakes.aws.endpoints import DISTURBING
from swath.backends.aws.client.client import AwsClients
from swath.backends.aws.dynamo.table import Table
from swath.backends.aws.provisioning import make_table
from tests.integration.aws.stores import Line, Stores, stores_on
from tests.support.clock import FakeClock

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def aws_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedServers]:
    """The servers, started by the first test of the run that asks for them and shared by all its processes."""
    own = tmp_path_factory.getbasetemp()
    folder = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    with shared_servers(folder) as shared:
        yield shared


@pytest.fixture
def aws(aws_servers: SharedServers, monkeypatch: pytest.MonkeyPatch) -> Endpoints:
    """Where they are. The environment of the test leads there, so clients need nothing else."""
    for name in DISTURBING:
        monkeypatch.delenv(name, raising=False)
    for name, value in aws_servers.endpoints.environment.items():
        monkeypatch.setenv(name, value)
    return aws_servers.endpoints


@pytest.fixture
def aws_name(aws: Endpoints) -> str:
    """A name that no other test has, for a table, a queue or a prefix."""
    return f"swath-{os.getpid()}-{next(_numbers)}-{secrets.token_hex(3)}"


@pytest.fixture
async def clients(aws: Endpoints) -> AsyncIterator[AwsClients]:
    """Clients on the loop of the test."""
    clients = AwsClients()
    yield clients
    await clients.close()


@pytest.fixture
async def table(clients: AwsClients, aws_name: str) -> AsyncIterator[Table]:
    """An empty table, gone after the test."""
    await make_table(clients, aws_name)
    yield Table(clients, aws_name)
    await clients.call("dynamodb", "delete_table", TableName=aws_name)


@pytest.fixture(scope="module")
def line() -> Iterator[Line]:
    """Connections that the stores of a module share."""
    line = Line()
    yield line
    line.close()


@pytest.fixture
async def stores(line: Line, aws_name: str) -> AsyncIterator[Stores]:
    """Stores on an empty table, closed and gone after the test."""
    async with stores_on(line, aws_name) as stores:
        yield stores


@pytest.fixture
def clock() -> FakeClock:
    """Stands still until the test moves it."""
    return FakeClock()

"""Every request to AWS is bounded, repeated where that helps, counted, and its errors come out in our own words."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from harness.fakes.aws import Endpoints
from harness.fakes.aws_faults import Faults, Rates
from harness.fakes.listener import Listener
from swath.backends.aws.client.client import Answer, AwsClients, Intercept, Send, backoff
from swath.backends.aws.client.errors import QueueMissing, RequestDeclined, TableMissing
from swath.backends.aws.provisioning import make_table
from swath.domain.errors import StoreUnavailable, UserError
from swath.domain.job import WaitingFor
from tests.support.bounds import HANGING_SECONDS

Open = Callable[..., AwsClients]


@pytest.fixture
async def opened() -> AsyncIterator[Open]:
    """Opens clients that are closed after the test."""
    every: list[AwsClients] = []

    def make(*args: Any, **kwargs: Any) -> AwsClients:
        every.append(AwsClients(*args, **kwargs))
        return every[-1]

    yield make
    for clients in every:
        await clients.close()


def throttled() -> ClientError:
    said: Any = {"Error": {"Code": "ThrottlingException", "Message": "slower"}}
    return ClientError(said, "ListTables")


def failing(times: int, make: Callable[[], Exception]) -> Intercept:
    """Fails so many times, and then lets requests through."""
    left = [times]

    async def intercept(service: str, operation: str, params: dict[str, Any], send: Send) -> Answer:
        if left[0] > 0:
            left[0] -= 1
            raise make()
        return await send()

    return intercept


@pytest.mark.req("Q3", "Z5")
async def test_a_missing_table_and_queue_are_named(clients: AwsClients, aws: Endpoints, aws_name: str) -> None:
    with pytest.raises(TableMissing, match=f"no table '{aws_name}' in region {aws.region}; `swath aws init`"):
        await clients.call("dynamodb", "get_item", TableName=aws_name, Key={"p": {"S": "p"}, "s": {"S": "s"}})
    with pytest.raises(TableMissing, match=aws_name):
        await clients.call(
            "dynamodb",
            "batch_write_item",
            RequestItems={aws_name: [{"DeleteRequest": {"Key": {"p": {"S": "p"}, "s": {"S": "s"}}}}]},
        )
    with pytest.raises(QueueMissing, match=f"no queue '{aws_name}'") as raised:
        await clients.call("sqs", "get_queue_url", QueueName=aws_name)
    assert raised.value.waiting_for is WaitingFor.QUEUE


@pytest.mark.req("Q3", "Z5", "Z7")
async def test_missing_and_wrong_credentials_and_regions_are_told(
    aws: Endpoints, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-the-secret")
    with pytest.raises(UserError, match=r"S3 .* refuses these credentials") as raised:
        await opened().call("s3", "list_objects_v2", Bucket=aws.bucket)
    assert "not-the-secret" not in str(raised.value)
    for name in ("AWS_DEFAULT_REGION", "AWS_REGION"):
        monkeypatch.delenv(name)
    with pytest.raises(UserError, match="AWS_DEFAULT_REGION"):
        await opened().call("dynamodb", "list_tables")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    with pytest.raises(UserError, match="no AWS credentials"):
        await opened(aws.region).call("dynamodb", "list_tables")


@pytest.mark.req("Q3")
async def test_what_is_there_already_is_an_answer(clients: AwsClients, aws_name: str) -> None:
    await make_table(clients, aws_name)
    keys = {
        "AttributeDefinitions": [{"AttributeName": "p", "AttributeType": "S"}],
        "KeySchema": [{"AttributeName": "p", "KeyType": "HASH"}],
    }
    with pytest.raises(RequestDeclined) as raised:
        await clients.call("dynamodb", "create_table", TableName=aws_name, BillingMode="PAY_PER_REQUEST", **keys)
    assert raised.value.code == "ResourceInUseException"
    assert clients.meter.declined["dynamodb.create_table"] == 1


@pytest.mark.req("Z9", "W3")
async def test_a_service_that_is_down_or_silent_ends_in_store_unavailable_within_the_bound(
    aws: Endpoints, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as silent, socket.socket() as nobody:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        nobody.bind(("127.0.0.1", 0))
        for server in (silent, nobody):
            monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", f"http://127.0.0.1:{server.getsockname()[1]}")
            clients = opened(attempt_seconds=0.3, patience_seconds=1.0)
            started = time.monotonic()
            with pytest.raises(StoreUnavailable, match=r"DynamoDB \(list_tables\) does not answer") as raised:
                await clients.call("dynamodb", "list_tables")
            assert time.monotonic() - started < HANGING_SECONDS
            assert raised.value.waiting_for is WaitingFor.STORE
            assert clients.meter.again["dynamodb.list_tables"] >= 2


class Cutting(Listener):
    """Answers with half of what it promises, once."""

    cuts = 0

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = b'{"TableNames":[]}'
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        self.cuts += 1
        writer.write(head.encode() + (body[:5] if self.cuts == 1 else body))


@pytest.mark.req("Z9")
async def test_half_an_answer_is_no_answer(aws: Endpoints, opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Cutting() as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", server.url)
        answer = await opened().call("dynamodb", "list_tables")
    assert answer["TableNames"] == []
    assert server.cuts == 2


@pytest.mark.req("Z9")
async def test_throttling_is_waited_out_and_counted(aws: Endpoints, opened: Open) -> None:
    clients = opened(intercept=failing(4, throttled))
    await clients.call("dynamodb", "list_tables")
    assert clients.meter.again["dynamodb.list_tables"] == 4
    assert clients.meter.requests["dynamodb.list_tables"] == 1
    assert clients.meter.of("dynamodb") == 1

    never = opened(intercept=failing(10_000, throttled), patience_seconds=0.5)
    with pytest.raises(StoreUnavailable, match="ThrottlingException"):
        await never.call("dynamodb", "list_tables")


@pytest.mark.req("W3")
async def test_a_long_poll_is_no_timeout(aws: Endpoints, aws_name: str, opened: Open) -> None:
    clients = opened(attempt_seconds=0.5)
    url = (await clients.call("sqs", "create_queue", QueueName=aws_name))["QueueUrl"]
    answer = await clients.call("sqs", "receive_message", QueueUrl=url, WaitTimeSeconds=1)
    assert not answer.get("Messages")
    assert not clients.meter.again["sqs.receive_message"]
    await clients.call("sqs", "delete_queue", QueueUrl=url)


@pytest.mark.req("Z9")
async def test_it_goes_on_when_the_service_is_back(aws: Endpoints, opened: Open) -> None:
    faults = Faults(1, Rates())
    clients = opened(intercept=faults, patience_seconds=0.3)
    faults.down = {"dynamodb"}
    with pytest.raises(StoreUnavailable):
        await clients.call("dynamodb", "list_tables")
    faults.down = set()
    await clients.call("dynamodb", "list_tables")


def test_waits_between_tries_double_up_to_a_bound_and_are_spread() -> None:
    for tries, most in ((1, 0.05), (3, 0.2), (5, 0.8), (7, 2.0), (100, 2.0)):
        waits = [backoff(tries) for _ in range(300)]
        assert all(0 <= wait <= most for wait in waits)
        assert max(waits) > most * 0.8
        assert min(waits) < most * 0.2

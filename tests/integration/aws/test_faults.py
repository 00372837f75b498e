"""The faults do what they say, on real queues and objects: with faults that do nothing, chaos would show nothing."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

import obstore
import pytest
from obstore.exceptions import BaseError
from obstore.store import S3Store

from harness.fakes.aws import Endpoints
from harness.fakes.aws_faults import Faults, Rates
from harness.fakes.s3_faults import S3Faults, S3Rates
from swath.backends.aws.client.client import Answer, AwsClients


class Queue:
    """A queue seen through faults."""

    def __init__(self, clients: AwsClients, faults: Faults, url: str) -> None:
        self._clients = clients
        self._url = url
        self.faults = faults

    async def send(self, *bodies: str) -> Answer:
        entries = [{"Id": str(number), "MessageBody": body} for number, body in enumerate(bodies)]
        return await self._clients.call("sqs", "send_message_batch", QueueUrl=self._url, Entries=entries)

    async def receive(self, times: int = 1, wait_seconds: int = 0) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for _ in range(times):
            answer = await self._clients.call(
                "sqs", "receive_message", QueueUrl=self._url, MaxNumberOfMessages=10, WaitTimeSeconds=wait_seconds
            )
            found += answer.get("Messages", [])
        return found


@pytest.fixture
async def queue(aws: Endpoints, aws_name: str) -> AsyncIterator[Callable[[Rates], Queue]]:
    faults = Faults(7, Rates())
    clients = AwsClients(intercept=faults)
    url = (await clients.call("sqs", "create_queue", QueueName=aws_name))["QueueUrl"]

    def see(rates: Rates) -> Queue:
        faults.rates = rates
        return Queue(clients, faults, url)

    yield see
    faults.rates = Rates()
    await clients.call("sqs", "delete_queue", QueueUrl=url)
    await clients.close()


def bodies(messages: list[dict[str, Any]]) -> list[str]:
    return [message["Body"] for message in messages]


@pytest.mark.req("Q5")
async def test_a_lost_message_looks_sent(queue: Callable[[Rates], Queue]) -> None:
    answer = await queue(Rates(lost=1.0)).send("one", "two")
    assert [one["Id"] for one in answer["Successful"]] == ["0", "1"]
    assert await queue(Rates()).receive() == []


@pytest.mark.req("Q5")
async def test_messages_of_one_batch_have_fates_of_their_own(queue: Callable[[Rates], Queue]) -> None:
    shaky = queue(Rates(lost=0.3, duplicated=0.3))
    for batch in range(4):
        answer = await shaky.send(*(f"{batch}{number}" for number in range(10)))
        assert sorted(int(one["Id"]) for one in answer["Successful"]) == list(range(10))
    lost, doubled = shaky.faults.injected["lost"], shaky.faults.injected["duplicated"]
    assert 0 < lost < 40
    assert 0 < doubled < 40
    arrived = Counter(bodies(await queue(Rates()).receive(30)))
    assert (len(arrived), arrived.total()) == (40 - lost, 40 - lost + doubled)
    assert shaky.faults.messages == {"sent": 40, "received": arrived.total()}


@pytest.mark.req("Q5")
async def test_a_duplicated_message_arrives_twice(queue: Callable[[Rates], Queue]) -> None:
    await queue(Rates(duplicated=1.0)).send("one")
    assert bodies(await queue(Rates()).receive(3)) == ["one", "one"]
    await queue(Rates()).send("two")
    assert Counter(bodies(await queue(Rates(duplicated=1.0)).receive(10)))["two"] > 1


@pytest.mark.req("Q5")
async def test_a_late_message_arrives_seconds_later(queue: Callable[[Rates], Queue]) -> None:
    await queue(Rates(late=1.0)).send("late")
    await queue(Rates()).send("early")
    assert bodies(await queue(Rates()).receive(2)) == ["early"]
    assert bodies(await queue(Rates()).receive(3, wait_seconds=2)) == ["late"]


@pytest.mark.req("Q5")
async def test_messages_that_are_kept_back_come_after_later_ones(queue: Callable[[Rates], Queue]) -> None:
    await queue(Rates()).send("first")
    assert await queue(Rates(reordered=1.0)).receive() == []
    await queue(Rates()).send("second")
    assert sorted(bodies(await queue(Rates()).receive(20))) == ["first", "second"]


@pytest.mark.req("Z1", "Q5")
async def test_a_lost_answer_to_a_send_is_sent_again(queue: Callable[[Rates], Queue]) -> None:
    shaky = queue(Rates(lost_answer=0.6))
    for number in range(8):
        await shaky.send(str(number))
    arrived = Counter(bodies(await queue(Rates()).receive(12)))
    assert set(arrived) == {str(number) for number in range(8)}
    assert sum(arrived.values()) == 8 + shaky.faults.injected["lost_answer"]


@pytest.mark.req("Z9")
async def test_faults_are_the_same_for_the_same_seed() -> None:
    async def send() -> Answer:
        return {}

    async def met(seed: int) -> list[str]:
        faults, met = Faults(seed, Rates(throttled=0.3, lost_answer=0.3)), []
        for _ in range(50):
            try:
                await faults("dynamodb", "get_item", {}, send)
                met.append("")
            except Exception as error:  # noqa: BLE001 whatever it is, it must be the same again
                met.append(str(error))
        return met

    assert await met(3) == await met(3) != await met(4)


# -- S3 ----------------------------------------------------------------------------------------------------------------


@pytest.fixture
async def s3(aws: Endpoints, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[S3Faults]:
    monkeypatch.delenv("AWS_ENDPOINT_URL_S3")  # obstore would prefer it to what it is told
    async with S3Faults(aws.s3_url, 3, S3Rates()) as faults:
        yield faults


def store_at(url: str, aws: Endpoints, prefix: str, *, retries: int) -> S3Store:
    return S3Store(
        aws.bucket,
        prefix=prefix,
        endpoint=url,
        access_key_id=aws.access_key,
        secret_access_key=aws.secret_key,
        region=aws.region,
        client_options={"allow_http": True, "timeout": "5s"},
        retry_config={"max_retries": retries, "retry_timeout": timedelta(seconds=10)},
    )


BODY = bytes(range(256)) * 400


@pytest.mark.req("Z2", "Z9")
@pytest.mark.parametrize("kind", ["slow_down", "server_error", "cut_request", "cut_answer", "withheld"])
async def test_each_fault_of_s3_breaks_a_put_or_a_get(aws: Endpoints, aws_name: str, s3: S3Faults, kind: str) -> None:
    direct = store_at(aws.s3_url, aws, aws_name, retries=0)
    shaky = store_at(s3.url, aws, aws_name, retries=0)
    await obstore.put_async(shaky, "key", BODY)
    s3.rates = S3Rates(**{kind: 1.0})
    with pytest.raises(BaseError):
        await (await obstore.get_async(shaky, "key")).bytes_async()
    if kind in {"cut_request", "withheld", "slow_down"}:
        with pytest.raises(BaseError):
            await obstore.put_async(shaky, "other", BODY)
        found = [meta["path"] for meta in await obstore.list(direct).collect_async()]
        assert found == (["key", "other"] if kind == "withheld" else ["key"])
    assert s3.injected[kind]
    assert bytes(await (await obstore.get_async(direct, "key")).bytes_async()) == BODY


@pytest.mark.req("Z9")
async def test_a_client_that_tries_again_gets_through(aws: Endpoints, aws_name: str, s3: S3Faults) -> None:
    s3.rates = S3Rates(slow_down=0.2, server_error=0.2, withheld=0.1)
    shaky = store_at(s3.url, aws, aws_name, retries=10)
    for number in range(10):
        await obstore.put_async(shaky, f"key-{number}", BODY)
        assert bytes(await (await obstore.get_async(shaky, f"key-{number}")).bytes_async()) == BODY
    assert sum(s3.injected.values()) > 3


@pytest.mark.req("Z9")
async def test_s3_that_is_down_refuses(aws: Endpoints, aws_name: str, s3: S3Faults) -> None:
    s3.down = True
    with pytest.raises(BaseError):
        await obstore.put_async(store_at(s3.url, aws, aws_name, retries=0), "key", BODY)


async def test_a_put_that_is_doubled_arrives_twice(s3: S3Faults, aws: Endpoints, aws_name: str) -> None:
    arrived: list[int] = []

    def count() -> dict[str, int]:
        arrived.append(1)
        return {}

    s3.denied = count
    async with S3Faults(s3.url, 3, S3Rates(doubled=1.0)) as proxy:
        store = store_at(proxy.url, aws, aws_name, retries=0)
        await obstore.put_async(store, "key", BODY)
        assert len(arrived) == 2
        assert await read(store, "key") == BODY
    assert (len(arrived), proxy.injected["doubled"]) == (3, 1)


async def test_a_delayed_answer_comes_when_the_object_is_there_already(
    s3: S3Faults, aws: Endpoints, aws_name: str
) -> None:
    store = store_at(s3.url, aws, aws_name, retries=2)
    s3.rates = S3Rates(delayed=1.0)
    putting = asyncio.ensure_future(obstore.put_async(store, "key", BODY))
    while not s3.injected["delayed"]:
        await asyncio.sleep(0.01)
    s3.rates = S3Rates()
    assert await read(store, "key") == BODY
    await putting


@pytest.mark.parametrize("status", [403, 503])
async def test_only_what_is_denied_is_refused(s3: S3Faults, aws: Endpoints, aws_name: str, status: int) -> None:
    store = store_at(s3.url, aws, aws_name, retries=0)
    s3.denied = lambda: {f"{aws_name}/victim/": status}
    await obstore.put_async(store, "other/key", BODY)
    with pytest.raises(BaseError):
        await obstore.put_async(store, "victim/key", BODY)
    with pytest.raises(BaseError):
        await obstore.list(store, prefix="victim").collect_async()


async def read(store: S3Store, key: str) -> bytes:
    return bytes(await (await obstore.get_async(store, key)).bytes_async())


async def test_a_delayed_answer_of_the_queue_is_an_answer(queue: Callable[[Rates], Queue]) -> None:
    slow = queue(Rates(delayed=1.0))
    await slow.send("hello")
    assert slow.faults.injected["delayed"] == 1
    assert bodies(await queue(Rates()).receive()) == ["hello"]

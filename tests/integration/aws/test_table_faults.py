"""The table keeps its promises when answers are lost, when DynamoDB throttles, fails, and leaves batches half done."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from harness.fakes.aws_faults import Faults, Rates
from swath.backends.aws.client.client import Answer, AwsClients, Intercept, Send
from swath.backends.aws.client.rows import PutRequest
from swath.backends.aws.dynamo.table import ABSENT, Delete, Key, Put, Row, Table
from swath.domain.errors import StoreUnavailable
from swath.domain.job import WaitingFor

HEAD = Key("job/1", "head")
OTHER = Key("job/1", "other")

Faulty = Callable[[Intercept], Table]


@pytest.fixture
async def faulty(table: Table) -> AsyncIterator[Faulty]:
    """The same table seen through clients that meet faults."""
    opened: list[AwsClients] = []

    def see(intercept: Intercept) -> Table:
        opened.append(AwsClients(intercept=intercept, patience_seconds=2.0))
        return Table(opened[-1], table.name)

    yield see
    for clients in opened:
        await clients.close()


async def read(table: Table, key: Key) -> Row | None:
    return (await table.get(key)).get(key)


# -- lost answers ------------------------------------------------------------------------------------------------------


def losing(operation: str, then: Callable[[], Awaitable[object]] | None = None, *, sent: bool = True) -> Intercept:
    """Loses the first answer to an operation, and lets something happen before the request is repeated."""
    lost: list[str] = []

    async def intercept(service: str, called: str, params: dict[str, Any], send: Send) -> Answer:
        if called != operation or lost:
            return await send()
        lost.append(called)
        if sent:
            await send()
        if then is not None:
            await then()
        raise TimeoutError

    return intercept


async def raise_version(table: Table, times: int) -> None:
    """What other processes do meanwhile."""
    for _ in range(times):
        row = (await table.get(HEAD))[HEAD]
        assert await table.commit(Put(HEAD, b"by others", row.version + 1, expected=row.version))


@pytest.mark.req("Z1")
async def test_a_write_whose_answer_was_lost_counts_as_made(table: Table, faulty: Faulty) -> None:
    assert await faulty(losing("update_item")).commit(Put(HEAD, b"one", 1, expected=ABSENT))
    assert await faulty(losing("update_item")).commit(Put(HEAD, b"two", 2, expected=1))
    assert await read(table, HEAD) == Row(HEAD, b"two", 2)


@pytest.mark.req("Z1")
@pytest.mark.parametrize("times", [1, 15])
async def test_also_when_others_have_written_the_row_since(table: Table, faulty: Faulty, times: int) -> None:
    await table.commit(Put(HEAD, b"one", 1))
    mine = faulty(losing("update_item", lambda: raise_version(table, times)))
    assert await mine.commit(Put(HEAD, b"mine", 2, expected=1))
    assert await read(table, HEAD) == Row(HEAD, b"by others", 2 + times)


@pytest.mark.req("Z1")
async def test_a_write_that_was_lost_on_its_way_and_came_too_late_was_not_made(table: Table, faulty: Faulty) -> None:
    await table.commit(Put(HEAD, b"one", 1))
    mine = faulty(losing("update_item", lambda: raise_version(table, 1), sent=False))
    assert not await mine.commit(Put(HEAD, b"mine", 2, expected=1))
    assert await read(table, HEAD) == Row(HEAD, b"by others", 2)


@pytest.mark.req("Z1")
async def test_a_writer_who_can_no_longer_find_out_is_told_so(table: Table, faulty: Faulty) -> None:
    await table.commit(Put(HEAD, b"one", 1))
    for then in (lambda: raise_version(table, 16), lambda: table.commit(Delete(HEAD))):
        row = (await table.get(HEAD))[HEAD]
        with pytest.raises(StoreUnavailable, match=r"the answer to a change of \(job/1, head\) was lost"):
            await faulty(losing("update_item", then)).commit(Put(HEAD, b"mine", row.version + 1, expected=row.version))


@pytest.mark.req("Z1")
async def test_a_transaction_whose_answer_was_lost_is_made_once(table: Table, faulty: Faulty) -> None:
    await table.commit(Put(HEAD, b"one", 1))
    mine = faulty(losing("transact_write_items", lambda: raise_version(table, 1)))
    assert await mine.commit(Put(HEAD, b"mine", 2, expected=1), Put(OTHER, b"mine"))
    assert await read(table, HEAD) == Row(HEAD, b"by others", 3)
    assert await read(table, OTHER) == Row(OTHER, b"mine")


# -- bad days ----------------------------------------------------------------------------------------------------------

BAD_DAY = Rates(throttled=0.1, conflict=0.1, server_error=0.1, lost_answer=0.15)


async def count_up(table: Table, times: int, *, together: bool) -> int:
    """Raises a number in the head so often, as the store does it: read, decide, commit, again after a conflict."""
    made = 0
    while made < times:
        row = await read(table, HEAD)
        number, version = (int(row.body), row.version) if row else (0, 0)
        head = Put(HEAD, str(number + 1).encode(), version + 1, expected=version if row else ABSENT)
        made += await (table.commit(head, Put(OTHER, b"")) if together else table.commit(head))
    return made


@pytest.mark.req("Q3", "Z1", "Z9")
@pytest.mark.parametrize("together", [False, True], ids=["rows", "transactions"])
async def test_writers_with_faults_count_exactly(table: Table, faulty: Faulty, *, together: bool) -> None:
    faults = [Faults(seed, BAD_DAY) for seed in range(3)]
    made = await asyncio.gather(*(count_up(faulty(one), 15, together=together) for one in faults))

    row = await read(table, HEAD)
    assert row is not None
    assert (int(row.body), row.version) == (sum(made), sum(made))
    for kind in ("throttled", "server_error", "lost_answer"):
        assert sum(one.injected[kind] for one in faults), f"no {kind}: the test shows nothing"


@pytest.mark.req("Z1")
async def test_without_the_nonce_a_lost_answer_is_misread(
    table: Table, faulty: Faulty, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PutRequest, "was_made", lambda *_: False)
    made = await count_up(faulty(Faults(1, BAD_DAY)), 15, together=False)
    row = await read(table, HEAD)
    assert row is not None
    assert int(row.body) > made, "a broken build that counts right: the nonce is not what does it"


@pytest.mark.req("Q3", "Z1")
async def test_what_dynamodb_leaves_undone_of_a_batch_is_done_later(table: Table, faulty: Faulty) -> None:
    faults = Faults(5, Rates(unprocessed=0.5, throttled=0.1))
    mine = faulty(faults)
    keys = [Key("many", f"{number:03d}") for number in range(130)]
    await mine.write_many([Put(key, key.s.encode()) for key in keys])

    assert [row.key async for row in table.query("many")] == keys
    assert await mine.get(*keys) == {key: Row(key, key.s.encode()) for key in keys}
    await mine.write_many([Delete(key) for key in keys])
    assert [row async for row in table.query("many")] == []
    assert faults.injected["unprocessed"] > 5


@pytest.mark.req("Z9", "W3")
async def test_a_batch_that_is_put_off_for_ever_ends_in_store_unavailable(faulty: Faulty) -> None:
    async def never(service: str, operation: str, params: dict[str, Any], send: Send) -> Answer:
        return {"UnprocessedItems": params["RequestItems"]} if operation == "batch_write_item" else await send()

    with pytest.raises(StoreUnavailable) as raised:
        await faulty(never).write_many([Put(HEAD, b"")])
    assert raised.value.waiting_for is WaitingFor.STORE

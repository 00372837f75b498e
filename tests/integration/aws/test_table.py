"""The table keeps its promises on DynamoDB Local. On bad days: test_table_faults.py."""

import asyncio
import random
from typing import Any

import pytest

from swath.backends.aws.client.client import AwsClients
from swath.backends.aws.dynamo.table import ABSENT, Delete, Key, Put, Row, Table
from swath.domain.errors import BadInput, StoreDamaged

HEAD = Key("job/1", "head")
OTHER = Key("job/1", "other")


async def read(table: Table, key: Key) -> Row | None:
    return (await table.get(key)).get(key)


# -- reading -----------------------------------------------------------------------------------------------------------


@pytest.mark.req("Q3")
async def test_get_answers_the_rows_that_there_are(table: Table) -> None:
    keys = [Key("many", f"{number:03d}") for number in range(150)]
    await table.write_many([Put(key, b"body of " + key.s.encode()) for key in keys])

    assert await table.get(keys[0]) == {keys[0]: Row(keys[0], b"body of 000")}
    assert await table.get(HEAD) == {}
    assert await table.get() == {}
    found = await table.get(*keys, *keys[:3], HEAD)
    assert found == {key: Row(key, b"body of " + key.s.encode()) for key in keys}


@pytest.mark.req("Q3")
async def test_query_reads_in_order_with_both_ends_included(table: Table) -> None:
    await table.write_many([Put(Key("list", s), s.encode()) for s in "abcde"] + [Put(Key("next", "c"), b"")])

    async def seen(*bounds: str, **how: Any) -> str:
        return "".join([row.key.s async for row in table.query("list", *bounds, **how)])

    assert await seen() == "abcde"
    assert await seen("b", "d") == "bcd"
    assert await seen("b") == "bcde"
    assert await seen("", "b") == "ab"
    assert await seen("b", "d", reverse=True) == "dcb"
    assert await seen(limit=2) == "ab"
    assert await seen(limit=2, reverse=True) == "ed"
    assert await seen(limit=0) == ""
    assert await seen("d", "b") == ""


@pytest.mark.req("Q3")
async def test_query_goes_on_over_pages(table: Table) -> None:
    body = random.Random(1).randbytes(90_000)  # does not compress; DynamoDB ends a page at 1 MB
    await table.write_many([Put(Key("large", f"{number:02d}"), body) for number in range(30)])

    assert [row.key.s async for row in table.query("large")] == [f"{number:02d}" for number in range(30)]
    assert len([row async for row in table.query("large", limit=20)]) == 20
    assert [row.key.s async for row in table.query("large", reverse=True)][:2] == ["29", "28"]


# -- writing -----------------------------------------------------------------------------------------------------------


@pytest.mark.req("Q3", "Z1")
async def test_a_row_is_written_only_over_the_version_that_was_read(table: Table) -> None:
    assert not await table.commit(Put(HEAD, b"one", 1, expected=0))
    assert await table.commit(Put(HEAD, b"one", 1, expected=ABSENT))
    assert not await table.commit(Put(HEAD, b"two", 1, expected=ABSENT))
    assert await table.commit(Put(HEAD, b"two", 2, expected=1))
    assert not await table.commit(Put(HEAD, b"zombie", 2, expected=1))
    assert await read(table, HEAD) == Row(HEAD, b"two", 2)
    assert await table.commit(Put(HEAD, b"anyway", 7))
    assert await read(table, HEAD) == Row(HEAD, b"anyway", 7)
    assert await table.commit(Delete(HEAD))
    assert await read(table, HEAD) is None


@pytest.mark.req("Q3")
async def test_a_row_without_a_version_has_version_0(table: Table) -> None:
    await table.commit(Put(HEAD, b"one"))
    assert await table.commit(Put(HEAD, b"two", 1, expected=0))
    assert not await table.commit(Put(HEAD, b"three", 1, expected=0))
    assert await read(table, HEAD) == Row(HEAD, b"two", 1)


@pytest.mark.req("Q3", "Z1")
async def test_a_commit_is_all_or_nothing(table: Table) -> None:
    await table.commit(Put(HEAD, b"one", 1), Put(OTHER, b"other"))

    assert not await table.commit(Put(HEAD, b"zombie", 6, expected=5), Put(Key("new", "row"), b""), Delete(OTHER))
    assert await read(table, HEAD) == Row(HEAD, b"one", 1)
    assert await read(table, OTHER) == Row(OTHER, b"other")
    assert await read(table, Key("new", "row")) is None

    assert await table.commit(
        Put(HEAD, b"two", 2, expected=1), Put(Key("new", "row"), b"", expected=ABSENT), Delete(OTHER)
    )
    assert await read(table, HEAD) == Row(HEAD, b"two", 2)
    assert await read(table, Key("new", "row")) == Row(Key("new", "row"), b"")
    assert await read(table, OTHER) is None
    assert await table.commit()


@pytest.mark.req("Q3")
async def test_one_change_costs_half_of_a_transaction(table: Table, clients: AwsClients) -> None:
    meter = clients.meter
    await table.get(OTHER)  # the first request also asks for the format of the table
    meter.requests.clear()
    costs = []
    for change in (
        table.commit(Put(HEAD, b"one", 1, expected=ABSENT)),
        table.commit(Put(HEAD, b"two", 2, expected=1), Put(OTHER, b"")),
        table.commit(Put(HEAD, random.Random(1).randbytes(3_500), 3, expected=2), Put(OTHER, b"")),
        table.commit(Put(HEAD, b"zombie", 3, expected=2)),
        table.write_many([Put(Key("many", "1"), b""), Put(Key("many", "2"), b"")]),
    ):
        before = meter.write_units
        await change
        costs.append(meter.write_units - before)

    assert costs == [1.0, 4.0, 10.0, 1.0, 2.0]
    assert meter.requests["dynamodb.update_item"] == 2
    assert meter.requests["dynamodb.transact_write_items"] == 2
    assert meter.declined == {"dynamodb.update_item": 1}
    before = meter.read_units
    await table.get(HEAD)
    assert meter.read_units - before == 1.0


@pytest.mark.req("Q3")
async def test_many_changes_are_written_in_batches_and_the_last_of_a_row_wins(
    table: Table, clients: AwsClients
) -> None:
    rows = [Put(Key("many", f"{number:03d}"), b"first") for number in range(60)]
    await table.write_many(rows)
    assert clients.meter.requests["dynamodb.batch_write_item"] == 3

    await table.write_many([Delete(rows[0].key), Put(rows[1].key, b"second"), Put(rows[1].key, b"third"), Delete(HEAD)])
    found = [row async for row in table.query("many")]
    assert found[0] == Row(rows[1].key, b"third")
    assert len(found) == 59
    with pytest.raises(ValueError, match="no conditions"):
        await table.write_many([Put(HEAD, b"", 1, expected=ABSENT)])


@pytest.mark.req("Q3")
async def test_numbers_are_added_up(table: Table) -> None:
    counters = Key("fleet", "counters")
    assert await table.add(counters, jobs=1, granted=5) == {"jobs": 1, "granted": 5}
    answers = await asyncio.gather(*(table.add(counters, jobs=1) for _ in range(20)))
    assert sorted(answer["jobs"] for answer in answers) == list(range(2, 22))
    assert await read(table, counters) == Row(counters, b"")


# -- too much, and damage ----------------------------------------------------------------------------------------------


@pytest.mark.req("Q3", "Z5")
async def test_a_row_or_commit_that_dynamodb_does_not_take_is_refused_in_plain_words(table: Table) -> None:
    large = random.Random(1).randbytes(410_000)
    for attempt in (table.commit(Put(HEAD, large)), table.write_many([Put(HEAD, large)])):
        with pytest.raises(BadInput, match=r"row \(job/1, head\) has 41\d{4} bytes; DynamoDB takes 409600 at most"):
            await attempt
    rows = [Put(Key("large", str(number)), large[:390_000]) for number in range(12)]
    with pytest.raises(BadInput, match="in one transaction"):
        await table.commit(*rows)
    with pytest.raises(ValueError, match="101 changes"):
        await table.commit(*(Delete(Key("many", str(number))) for number in range(101)))
    await table.commit(Put(HEAD, large[:408_000]))
    assert await read(table, HEAD) == Row(HEAD, large[:408_000])


@pytest.mark.req("Z5")
async def test_a_row_that_somebody_edited_is_named(table: Table, clients: AwsClients) -> None:
    item = {"p": {"S": "job/1"}, "s": {"S": "head"}, "b": {"B": b"not ours"}}
    await clients.call("dynamodb", "put_item", TableName=table.name, Item=item)
    with pytest.raises(StoreDamaged, match=r"\(job/1, head\)"):
        await table.get(HEAD)
